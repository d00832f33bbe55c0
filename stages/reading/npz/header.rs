//! The header of a `.npy` array: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }` and nothing else.

use std::io::Read;

/// The longest header; those of plain arrays have 128 bytes.
const LIMIT: usize = 4096;

/// What a header says.
#[derive(Clone, Debug)]
pub struct Header {
    /// The type as written, such as `<f4`.
    pub descr: String,
    /// The letter of the type, such as `f`.
    pub kind: char,
    /// The number behind the letter: bytes, except for wide text.
    pub size: usize,
    /// Whether the bytes of a number come most significant first.
    pub big_endian: bool,
    /// Whether columns come before rows.
    pub by_column: bool,
    /// The dimensions.
    pub shape: Vec<usize>,
}

impl Header {
    /// Reads the header and leaves the reader at the first number.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(reader: &mut impl Read) -> Result<Self, String> {
        let cut = |_| "is cut off, expected a NumPy array".to_owned();
        let mut start = [0; 8];
        reader.read_exact(&mut start).map_err(cut)?;
        if !start.starts_with(b"\x93NUMPY") {
            return Err("is not a NumPy array".into());
        }
        let mut length = [0; 4];
        let wide = if start[6] == 1 { 2 } else { 4 };
        reader.read_exact(&mut length[..wide]).map_err(cut)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LIMIT {
            return Err(format!("has a header of {length} bytes, expected at most {LIMIT}"));
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).map_err(cut)?;
        let text = String::from_utf8_lossy(&text);
        if text.contains('[') {
            return Err("has a structured number type, expected plain numbers".into());
        }
        let header = parse(&text).ok_or_else(|| {
            let start: String = text.trim().chars().take(80).collect();
            format!("has an unreadable header `{}`", start.escape_debug())
        })?;
        let product = header.shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
        match product {
            Some(product) if isize::try_from(product).is_ok() => Ok(header),
            _ => Err("has a shape that is too large".into()),
        }
    }

    /// The header of an array whose type is written as `descr`; `None` if it is not a type.
    pub fn new(descr: &str, by_column: bool, shape: Vec<usize>) -> Option<Self> {
        let mut letters = descr.chars();
        let order = letters.next().filter(|order| "<>|=".contains(*order))?;
        let kind = letters.next()?;
        // Python objects have a type without a number.
        let size = if letters.as_str().is_empty() { 0 } else { letters.as_str().parse().ok()? };
        Some(Self { descr: descr.to_owned(), kind, size, big_endian: order == '>', by_column, shape })
    }

    /// How many numbers there should be.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many bytes they take, unless that is too many to count.
    pub fn bytes(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.size, |product, size| product.checked_mul(*size))
    }
}

fn parse(text: &str) -> Option<Header> {
    let (mut descr, mut by_column, mut shape) = (None, None, None);
    let mut rest = text.trim().strip_prefix('{')?.trim_start();
    while !rest.starts_with('}') {
        let (key, after) = quoted(rest)?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        rest = match key {
            "descr" => {
                let (word, after) = quoted(value)?;
                descr = Some(word);
                after
            }
            "fortran_order" => {
                by_column = Some(value.starts_with("True"));
                value.strip_prefix("True").or_else(|| value.strip_prefix("False"))?
            }
            "shape" => {
                let (inside, after) = value.strip_prefix('(')?.split_once(')')?;
                shape = Some(dimensions(inside)?);
                after
            }
            _ => return None,
        };
        rest = rest.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    let header = Header::new(descr?, by_column?, shape?)?;
    (rest == "}").then_some(header)
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| "'\"".contains(*quote))?;
    text[1..].split_once(quote)
}

/// `3, 2` or `3,` or nothing; old files write `3L`.
fn dimensions(text: &str) -> Option<Vec<usize>> {
    let sizes = text.split(',').map(|size| size.trim().trim_end_matches('L'));
    sizes.filter(|size| !size.is_empty()).map(|size| size.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: u8, text: &str) -> Result<Header, String> {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        let length = if version == 1 { &length[..2] } else { &length[..] };
        Header::read(&mut &[b"\x93NUMPY", &[version, 0][..], length, text.as_bytes()].concat()[..])
    }

    #[test]
    fn headers_of_every_version_are_read() {
        for version in [1, 2, 3] {
            let header = read(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }      \n").unwrap();
            assert_eq!((&header.descr[..], header.kind, header.size), ("<f4", 'f', 4));
            assert_eq!((header.big_endian, header.by_column, &header.shape[..]), (false, false, &[3, 2][..]));
        }
        let header = read(1, "{\"shape\": (5L,), 'fortran_order':True,'descr' : '>U19'}").unwrap();
        assert_eq!((header.kind, header.size, header.big_endian, header.by_column), ('U', 19, true, true));
        assert_eq!((&header.shape[..], header.len()), (&[5][..], 5));
        assert_eq!(read(1, "{'descr': '|S3', 'fortran_order': False, 'shape': (), }").unwrap().len(), 1);
        assert_eq!(read(1, "{'descr': '|O', 'fortran_order': False, 'shape': (0,), }").unwrap().len(), 0);
    }

    #[test]
    fn nonsense_is_refused() {
        let whole = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
        for (old, new) in [
            ("'shape'", "'size'"),
            ("(3, 2)", "(3, -2)"),
            ("(3, 2)", "(3, 2"),
            ("False", "Maybe"),
            ("'<f4'", "<f4"),
            ("'<f4'", "'f4'"),
            ("'<f4'", "''"),
            ("}", ""),
            ("}", "} x"),
            ("'descr': '<f4', ", ""),
        ] {
            let error = read(1, &whole.replace(old, new)).err().unwrap_or_else(|| panic!("{old} → {new}"));
            assert!(error.starts_with("has an unreadable header `{"), "{error}");
        }
        let nested = read(1, &whole.replace("'<f4'", "[('a', '<f4')]")).err();
        assert_eq!(nested.as_deref(), Some("has a structured number type, expected plain numbers"));
        let large = read(1, &whole.replace("(3, 2)", "(4294967296, 4294967296)")).err();
        assert_eq!(large.as_deref(), Some("has a shape that is too large"));
        let long = read(2, &" ".repeat(5000)).err();
        assert_eq!(long.as_deref(), Some("has a header of 5000 bytes, expected at most 4096"));
    }
}
