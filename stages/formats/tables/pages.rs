//! Checks the page headers of a Parquet column before the decoder trusts them.
//!
//! A page says how many values it holds and how many bytes it unpacks to, and the decoder makes room for that many. A
//! damaged number there would abort the whole program for lack of memory, without an error. Headers are structs in
//! Thrift's compact form: a byte of kind and field, then the value.

/// What a page may unpack to: so much, whatever its size, and so many times its size.
const UNPACKED: (i64, i64) = (64 << 20, 4096);
/// Headers hold structs in structs, and statistics in those.
const DEEPEST: u8 = 4;

/// Checks every page of a column of `rows` rows.
///
/// # Errors
/// What is wrong with the first bad one.
pub fn check(mut column: &[u8], rows: usize) -> Result<(), &'static str> {
    while !column.is_empty() {
        let mut page = Page::default();
        fields(&mut column, 0, 0, &mut page).ok_or("has a page without a proper header")?;
        let number = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let packed = page.packed.and_then(|size| usize::try_from(size).ok());
        let packed = packed.filter(|size| *size <= column.len()).ok_or("has a page that is cut off")?;
        let most = UNPACKED.0.saturating_add(UNPACKED.1.saturating_mul(number(packed)));
        if !(0..=most).contains(&page.unpacked.unwrap_or(-1)) {
            return Err("has a page that claims an impossible size");
        }
        let counts = [(page.values, number(rows)), (page.words, most), (page.levels, number(packed))];
        if page.negative || counts.into_iter().any(|(claimed, most)| claimed > most) {
            return Err("has a page that claims more values than there are");
        }
        column = column.get(packed..).unwrap_or_default();
    }
    Ok(())
}

/// What the header of one page claims; the largest, where it claims something twice.
#[derive(Default)]
struct Page {
    unpacked: Option<i64>,
    packed: Option<i64>,
    values: i64,
    words: i64,
    levels: i64,
    negative: bool,
}

impl Page {
    /// Takes note of a number: a field of the header itself (`outer` is 0), or of a struct in it.
    fn note(&mut self, outer: i64, field: i64, number: i64) {
        let largest = |old: i64| old.max(number);
        match (outer, field) {
            (0, 2) => self.unpacked = Some(self.unpacked.map_or(number, largest)),
            (0, 3) => self.packed = Some(number),
            // Values of a data page of version 1 and 2, then its empty values and its rows.
            (5, 1) | (8, 1..=3) => self.values = largest(self.values),
            (7, 1) => self.words = largest(self.words),
            (8, 5 | 6) => self.levels = largest(self.levels),
            _ => return,
        }
        self.negative |= number < 0;
    }
}

/// Reads the fields of a struct up to its end; `None` if it is none.
fn fields(input: &mut &[u8], outer: i64, depth: u8, page: &mut Page) -> Option<()> {
    let mut field = 0i64;
    loop {
        let head = byte(input)?;
        if head == 0 {
            return Some(());
        }
        field = match head >> 4 {
            0 => signed(input)?,
            step => field.checked_add(i64::from(step))?,
        };
        match head & 15 {
            // A truth value is in the kind itself.
            1 | 2 => {}
            3 => drop(byte(input)?),
            4..=6 => {
                let number = signed(input)?;
                if depth < 2 {
                    page.note(outer, field, number);
                }
            }
            7 => *input = input.get(8..)?,
            8 => {
                let length = usize::try_from(varint(input)?).ok()?;
                *input = input.get(length..)?;
            }
            12 if depth < DEEPEST => fields(input, if depth == 0 { field } else { -1 }, depth + 1, page)?,
            _ => return None,
        }
    }
}

fn byte(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..63).step_by(7) {
        let next = byte(input)?;
        number |= u64::from(next & 127) << shift;
        if next < 128 {
            return Some(number);
        }
    }
    None
}

/// Reads a number whose lowest bit is its sign.
fn signed(input: &mut &[u8]) -> Option<i64> {
    let number = varint(input)?;
    Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of `values` values that unpacks to `unpacked` bytes, followed by as many bytes as it says.
    fn page(values: u8, unpacked: u8, packed: u8) -> Vec<u8> {
        // Kind, sizes, then a struct with the number of values; a number is doubled, its sign is the lowest bit.
        let mut bytes = vec![0x15, 0, 0x15, unpacked << 1, 0x15, packed << 1, 0x2c, 0x15, values << 1, 0, 0];
        bytes.resize(bytes.len() + usize::from(packed), 0);
        bytes
    }

    #[test]
    fn pages_that_fit_are_fine_and_others_are_refused() {
        assert_eq!(check(&[page(3, 9, 5), page(4, 9, 5)].concat(), 4), Ok(()));
        assert_eq!(check(&page(5, 9, 5), 4), Err("has a page that claims more values than there are"));
        assert_eq!(check(&page(4, 9, 5)[..12], 4), Err("has a page that is cut off"));
        assert_eq!(check(b"\x15", 4), Err("has a page without a proper header"));
        let mut negative = page(4, 9, 5);
        negative[8] = 1;
        assert_eq!(check(&negative, 4), Err("has a page that claims more values than there are"));
        negative[3] = 1;
        assert_eq!(check(&negative, 4), Err("has a page that claims an impossible size"));
        assert_eq!(check(&[0x1c; 1000], 4), Err("has a page without a proper header"), "structs without end");
    }
}
