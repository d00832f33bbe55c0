//! Small pickles written by hand, what must be refused, and damage at random.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

const NO_DTYPE_STATE: &[u8] = b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb";

fn int(n: i32) -> Vec<u8> {
    match (u8::try_from(n), u16::try_from(n)) {
        (Ok(n), _) => vec![b'K', n],
        (_, Ok(n)) => [&b"M"[..], &n.to_le_bytes()].concat(),
        _ => [&b"J"[..], &n.to_le_bytes()].concat(),
    }
}

fn text(bytes: &[u8]) -> Vec<u8> {
    match u8::try_from(bytes.len()) {
        Ok(length) => [&[b'U', length], bytes].concat(),
        Err(_) => [b"T", &i32::try_from(bytes.len()).unwrap().to_le_bytes()[..], bytes].concat(),
    }
}

fn tuple(sizes: &[i32]) -> Vec<u8> {
    let items: Vec<u8> = sizes.iter().flat_map(|n| int(*n)).collect();
    [b"(", &items[..], b"t"].concat()
}

/// An array without the opcodes around a whole pickle.
fn array_body(shape: &[i32], dtype: &str, by_column: bool, bytes: &[u8]) -> Vec<u8> {
    let (order, code) = dtype.split_at(1);
    let flag: &[u8] = if by_column { b"\x88" } else { b"\x89" };
    [
        &b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03(K\x01"[..],
        &tuple(shape),
        b"cnumpy\ndtype\n",
        &text(code.as_bytes()),
        b"K\x00K\x01\x87R(K\x03",
        &text(order.as_bytes()),
        NO_DTYPE_STATE,
        flag,
        &text(bytes),
        b"tb",
    ]
    .concat()
}

fn whole_pickle(body: &[u8]) -> Vec<u8> {
    [b"\x80\x02", body, b"."].concat()
}

/// A pickled array; `dtype` is such as `<i4`.
pub(crate) fn pickled_array(shape: &[i32], dtype: &str, by_column: bool, bytes: &[u8]) -> Vec<u8> {
    whole_pickle(&array_body(shape, dtype, by_column, bytes))
}

fn sparse_of(shape: &[i32], parts: [(&str, &[i32], &str, Vec<u8>); 3]) -> Vec<u8> {
    let mut body = b"cscipy.sparse.csr\ncsr_matrix\nq\x10)\x81q\x11}q\x12(U\x06formatU\x03csrU\x06_shape".to_vec();
    body.extend(tuple(shape));
    for (name, shape, dtype, bytes) in parts {
        body.extend(text(name.as_bytes()));
        body.extend(array_body(shape, dtype, false, &bytes));
    }
    body.extend(b"U\x08maxprintK\x32ub");
    whole_pickle(&body)
}

fn size(n: usize) -> i32 {
    i32::try_from(n).unwrap()
}

fn le4(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// A pickled sparse matrix.
pub(crate) fn pickled_sparse(cols: i32, indptr: &[i32], indices: &[i32], data: &[f32]) -> Vec<u8> {
    let values = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    sparse_of(
        &[size(indptr.len()) - 1, cols],
        [
            ("indptr", &[size(indptr.len())], "<i4", le4(indptr)),
            ("indices", &[size(indices.len())], "<i4", le4(indices)),
            ("data", &[size(data.len())], "<f4", values),
        ],
    )
}

/// A pickled dictionary of lists.
pub(crate) fn pickled_lists(entries: &[(i32, &[i32])]) -> Vec<u8> {
    let mut body = b"ccollections\ndefaultdict\nq\x01c__builtin__\nlist\nq\x02\x85Rq\x03(".to_vec();
    for (at, (key, list)) in (4u32..).zip(entries) {
        body.extend(int(*key));
        body.push(b']');
        body.extend([&b"r"[..], &at.to_le_bytes()].concat());
        let items: Vec<u8> = list.iter().flat_map(|n| int(*n)).collect();
        match list.len() {
            0 => {}
            1 => body.extend([&items[..], b"a"].concat()),
            _ => body.extend([&b"("[..], &items, b"e"].concat()),
        }
    }
    body.push(b'u');
    whole_pickle(&body)
}

fn numbers(bytes: &[u8]) -> Result<Array<f64>, BadValue> {
    array_from(bytes, |_, _, number| match number {
        Number::Float(x) => Ok(x),
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        Number::Whole(x) => Ok(x as f64),
    })
}

fn message<T>(result: Result<T, BadValue>) -> String {
    result.err().map(|m| format!("{}: {}", m.at, m.what)).unwrap()
}

fn matrix() -> Vec<u8> {
    pickled_sparse(4, &[0, 3, 3, 4], &[3, 0, 1, 2], &[5.0, 6.0, 0.0, 7.0])
}

#[test]
fn a_sparse_matrix_is_sorted_and_loses_its_zeros() {
    let csr = sparse_from(&matrix()).ok().unwrap();
    assert_eq!((csr.n(), csr.cols()), (3, 4));
    assert_eq!((csr.indptr, csr.indices, csr.values), (vec![0, 2, 2, 3], vec![0, 3, 2], vec![6.0, 5.0, 7.0]));
}

#[test]
fn number_types_byte_orders_and_storage_orders_mean_the_same() {
    let ints = [1, 2, 3, 4, 5, 6];
    let by_rows: Vec<(&str, Vec<u8>)> = vec![
        ("<i4", ints.iter().flat_map(|n: &i32| n.to_le_bytes()).collect()),
        (">i4", ints.iter().flat_map(|n: &i32| n.to_be_bytes()).collect()),
        ("<i8", ints.iter().flat_map(|n| i64::from(*n).to_le_bytes()).collect()),
        (">i8", ints.iter().flat_map(|n| i64::from(*n).to_be_bytes()).collect()),
        ("<f4", (1..7u8).flat_map(|n| f32::from(n).to_le_bytes()).collect()),
        (">f4", (1..7u8).flat_map(|n| f32::from(n).to_be_bytes()).collect()),
        ("<f8", (1..7u8).flat_map(|n| f64::from(n).to_le_bytes()).collect()),
        (">f8", (1..7u8).flat_map(|n| f64::from(n).to_be_bytes()).collect()),
    ];
    let expected = Array { shape: vec![2, 3], values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
    for (dtype, bytes) in by_rows {
        let found = numbers(&pickled_array(&[2, 3], dtype, false, &bytes));
        assert_eq!(found.ok(), Some(expected.clone()), "{dtype}");
    }
    let by_columns = pickled_array(&[2, 3], "<i4", true, &le4(&[1, 4, 2, 5, 3, 6]));
    assert_eq!(numbers(&by_columns).ok(), Some(expected));
    let line = pickled_array(&[2], "<i4", true, &le4(&[-1, 70_000]));
    assert_eq!(numbers(&line).ok(), Some(Array { shape: vec![2], values: vec![-1.0, 70_000.0] }));
}

#[test]
fn lists_come_by_ascending_key_as_stored() {
    let lists = lists_from(&pickled_lists(&[(300, &[7, 7, 0]), (0, &[]), (2, &[70_000])])).ok().unwrap();
    assert_eq!(lists, [(0, vec![]), (2, vec![70_000]), (300, vec![7, 7, 0])]);
}

#[test]
fn nothing_is_called_and_no_foreign_class_is_understood() {
    for (bytes, expected) in [
        (&b"cos\nsystem\n(S'true'\ntR."[..], "byte 0: is not a pickle of protocol 2"),
        (b"\x80\x02cos\nsystem\n(S'true'\ntR.", "byte 2: class `os.system` is not understood, expected one of `scipy."),
        (b"\x80\x02c__builtin__\neval\n(U\x011tR.", "byte 2: class `__builtin__.eval` is not understood"),
        (b"\x80\x02cnumpy\nload\n)R.", "byte 2: class `numpy.load` is not understood"),
        (
            b"\x80\x02U\x02osU\x06system\x93)R.",
            "byte 14: opcode `\\x93` is not understood, expected one of PROTO, STOP",
        ),
        (b"\x80\x02(U\x01xios\nsystem\n.", "byte 6: opcode `i` is not understood"),
        (b"\x80\x02(c__builtin__\nlist\no.", "byte 21: opcode `o` is not understood"),
        (b"\x80\x02Pkey\n.", "byte 2: opcode `P` is not understood"),
        (b"\x80\x02\x82\x01.", "byte 2: opcode `\\x82` is not understood"),
        (b"\x80\x02X\x01\x00\x00\x00a.", "byte 2: opcode `X` is not understood"),
        (b"\x80\x02c__builtin__\nlist\n)R.", "byte 21: `__builtin__.list` is not called as NumPy and Python write it"),
        (b"\x80\x02ccollections\ndefaultdict\n)R.", "byte 28: `collections.defaultdict` is not called as"),
        (b"\x80\x02ccollections\ndefaultdict\ncnumpy\nndarray\n\x85R.", "byte 43: `collections.defaultdict` is not"),
        (b"\x80\x02cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R.", "byte 24: number type `O8`, expected i4, i8, f4 or f8"),
        (b"\x80\x02K\x01)R.", "byte 5: what is called is not a class"),
        (b"\x80\x02c__builtin__\nlist\n)\x81.", "byte 21: `__builtin__.list` is not made as SciPy writes it"),
        (b"\x80\x02]}b.", "byte 4: a list is filled twice, or cannot be filled"),
        (b"\x80\x02K\x01}b.", "byte 5: what is filled is not an object"),
        (b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00].", "byte 0: has pickle protocol 4, expected protocol 2"),
    ] {
        let found = message(lists_from(bytes));
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn lies_about_lengths_and_uses_out_of_order_are_refused() {
    let long_name = [b"\x80\x02c", &b"a".repeat(5000)[..]].concat();
    for (bytes, expected) in [
        (
            &b"\x80\x02T\xff\xff\xff\x7fabc"[..],
            "byte 2: the file ends too early: expected 2147483647 more bytes, found 3",
        ),
        (b"\x80\x02T\xff\xff\xff\xffabc", "byte 2: text has length -1"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f1.", "byte 2: opcode `\\x8b` is not understood"),
        (b"\x80\x02U\x09abc", "byte 2: the file ends too early"),
        (b"\x80\x02", "byte 2: the file ends too early"),
        (b"\x80", "byte 0: is not a pickle"),
        (b"\x80\x02.", "byte 2: a value is missing on the stack"),
        (b"\x80\x02K\x01.", ": holds a single value, expected a matrix"),
        (b"\x80\x02].", ": holds a list, expected a dictionary of lists (defaultdict)"),
        (b"\x80\x02]].", "byte 4: the pickle ends with more than one value"),
        (b"\x80\x02].]", "byte 3: the pickle ends here, but 1 more bytes follow"),
        (b"\x80\x02](a.", "byte 4: a value is missing on the stack"),
        (b"\x80\x02(]K\x01a.", "byte 7: the pickle ends with more than one value"),
        (b"\x80\x02t.", "byte 2: a mark is missing on the stack"),
        (b"\x80\x02]Na.", "byte 4: a list holds something that is not a 32-bit whole number"),
        (b"\x80\x02}K\x01a.", "byte 5: a value is appended to something that is not a list"),
        (b"\x80\x02](Nu.", "byte 5: a key without a value"),
        (b"\x80\x02](K\x01Nu.", "byte 7: a key is set on something that is not a dictionary"),
        (b"\x80\x02}(K\x01Nu.", "byte 7: expected a dictionary of at most 64 names"),
        (b"\x80\x02}(U\x01aNU\x01aNu.", "byte 12: a dictionary has a key twice"),
        (b"\x80\x02h\x01.", "byte 2: nothing was remembered under number 1"),
        (b"\x80\x02j\xff\xff\xff\xff.", "byte 2: nothing was remembered under number 4294967295"),
        (&long_name, "byte 2: the name of a class does not end within 80 bytes"),
    ] {
        let found = message(lists_from(bytes));
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn arrays_and_matrices_whose_parts_do_not_fit_are_refused() {
    let f4 = |n: usize| vec![0; 4 * n];
    for (bytes, expected) in [
        (pickled_array(&[2, 3], "<i4", false, &f4(5)), "an array of 2 × 3 numbers of 4 bytes each has 20 bytes"),
        (pickled_array(&[i32::MAX, i32::MAX], "<i8", false, &f4(5)), "an array of 2147483647 × 2147483647 numbers"),
        (pickled_array(&[-1], "<i4", false, &[]), "the shape of an array is not one or two sizes"),
        (pickled_array(&[1, 1, 1], "<i4", false, &f4(1)), "the shape of an array is not one or two sizes"),
        (pickled_array(&[], "<i4", false, &f4(1)), "the shape of an array is not one or two sizes"),
        (pickled_array(&[1], "|i4", false, &f4(1)), "a number type that is not a plain one with a byte order"),
        (pickled_array(&[4], "|u1", false, &f4(1)), "number type `u1`, expected i4, i8, f4 or f8"),
    ] {
        let found = message(numbers(&bytes));
        assert!(found.split_once(": ").unwrap().1.starts_with(expected), "{found}");
    }
    let one = |parts| sparse_of(&[1, 4], parts);
    let good = || {
        [
            ("indptr", &[2][..], "<i4", le4(&[0, 1])),
            ("indices", &[1][..], "<i4", le4(&[3])),
            ("data", &[1][..], "<f4", le4(&[0])),
        ]
    };
    let mut fraction = good();
    fraction[0] = ("indptr", &[2], "<f4", le4(&[0, 1]));
    let mut square = good();
    square[1] = ("indices", &[1, 1], "<i4", le4(&[3]));
    let mut unnamed = good();
    unnamed[2].0 = "dada";
    let mut far = good();
    far[2] = ("data", &[1], "<f8", 1e300f64.to_le_bytes().to_vec());
    for (bytes, expected) in [
        (pickled_sparse(4, &[0, 2], &[1, 1], &[1.0, 1.0]), "row 0: has column 1 twice"),
        (pickled_sparse(4, &[0, 1], &[4], &[1.0]), "entry 0: column 4 does not exist, expected 0 to 3"),
        (pickled_sparse(4, &[0, 1], &[-1], &[1.0]), "entry 0: column -1 does not exist, expected 0 to 3"),
        (pickled_sparse(4, &[0, 1], &[1], &[f32::NAN]), "entry 0: `NaN` is not a finite 32-bit number"),
        (pickled_sparse(4, &[0, 1], &[1], &[]), ": has 1 rows, but 2 row starts, 1 columns and 0 values"),
        (pickled_sparse(4, &[0, 2], &[1], &[1.0]), ": its rows do not begin at entry 0 and end at entry 1"),
        (pickled_sparse(4, &[0, -1, 1], &[1], &[1.0]), "row 1: starts at entry -1"),
        (pickled_sparse(4, &[0, 7, 1], &[1], &[1.0]), "row 0: reaches from entry 0 to entry 7"),
        (pickled_sparse(4, &[0, 1, 0, 1], &[1], &[1.0]), "row 1: reaches from entry 1 to entry 0"),
        (pickled_sparse(i32::MAX, &[0], &[], &[]), ": has 2147483647 columns, expected at most 1048576"),
        (sparse_of(&[9, 4], good()), ": has 9 rows, but 2 row starts"),
        (one(fraction), "row 0: starts at a fraction"),
        (one(square), ": `indices` does not have one dimension"),
        (one(far), "entry 0: `1000"),
    ] {
        let found = message(sparse_from(&bytes));
        assert!(found.starts_with(expected), "{found}");
    }
    assert!(message(sparse_from(&one(unnamed))).ends_with("a sparse matrix without the array `data`"));
    let list = pickled_lists(&[(0, &[])]);
    let expected = ": holds a dictionary of lists (defaultdict), expected a sparse matrix (csr_matrix)";
    assert_eq!(message(sparse_from(&list)), expected);
    assert!(message(lists_from(&pickled_lists(&[(5, &[1]), (5, &[])]))).starts_with("key 5: occurs twice"));
}

/// Memory that a machine holds after a pickle, in cells, whatever became of the pickle: values, objects and their entries.
fn cells(bytes: &[u8]) -> usize {
    let mut machine = Machine::new(bytes);
    let _ = machine.run();
    let inside = machine.objects.iter().map(|object| match object {
        Object::Tuple(items) => items.len(),
        Object::List(items) => items.len(),
        Object::Dict(entries) => 2 * entries.len(),
        Object::Lists(entries) => 2 * entries.len(),
        _ => 0,
    });
    let held = machine.stack.len() + machine.marks.len() + machine.memo.len() + machine.objects.len();
    held + inside.sum::<usize>()
}

#[test]
fn bombs_stay_as_small_as_their_files() {
    // Each level holds the one before twice: as a tree, 2^400 entries.
    let mut doubling = b"\x80\x02)q\x00".to_vec();
    (0..400).for_each(|_| doubling.extend(b"h\x00h\x00\x86q\x00"));
    // One list of a thousand entries under a thousand keys.
    let mut shared = b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R]q\x00(".to_vec();
    (0..1000).for_each(|_| shared.extend(b"K\x07"));
    shared.extend(b"e0");
    let mut reused = b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\x00]q\x00(".to_vec();
    (0..1000).for_each(|_| reused.extend(b"K\x07"));
    reused.push(b'e');
    (1..=255).for_each(|key| reused.extend([b'K', key, b'h', 0]));
    reused.extend(b"u.");
    let deep = [b"\x80\x02", &b"]".repeat(200_000)[..]].concat();
    let nested = [b"\x80\x02)", &b"\x85".repeat(200_000)[..], b"."].concat();
    let marks = [b"\x80\x02", &b"(".repeat(200_000)[..]].concat();
    let wide = [b"\x80\x02(", &b"N".repeat(60_000)[..], b"t."].concat();
    let far_memo = b"\x80\x02]r\xff\xff\xff\xff.".to_vec();
    for bomb in [&doubling, &shared, &reused, &deep, &nested, &marks, &wide, &far_memo] {
        assert!(cells(bomb) <= 2 * bomb.len());
    }
    assert!(message(lists_from(&shared)).contains("opcode `0` is not understood"));
    let expected = "key 1: has the very list of key 0, expected one of its own";
    assert_eq!(message(lists_from(&reused)), expected);
    assert!(message(lists_from(&deep)).ends_with("more than 65536 values wait for their container"));
    assert!(message(lists_from(&marks)).ends_with("more than 65536 open marks"));
    assert!(message(lists_from(&wide)).ends_with("a tuple of 60000 entries, expected at most 8"));
    assert_eq!(message(lists_from(&nested)), ": holds a tuple, expected a dictionary of lists (defaultdict)");
    assert_eq!(message(lists_from(&far_memo)), ": holds a list, expected a dictionary of lists (defaultdict)");
}

#[test]
fn files_name_themselves_and_what_stands_in_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ind.my.graph");
    let found = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        lists(&path).map_err(|e| e.to_string().rsplit_once("ind.my.").unwrap().1.to_owned())
    };
    assert_eq!(found(&pickled_lists(&[(1, &[2])])).unwrap(), [(1, vec![2])]);
    assert_eq!(found(b"<!DOCTYPE html><html>").unwrap_err(), "graph: is a web page, expected a pickle");
    assert_eq!(found(b"").unwrap_err(), "graph: is empty, expected a pickle");
    assert_eq!(found(b"hello").unwrap_err(), "graph, byte 0: is not a pickle of protocol 2");
    assert_eq!(found(b"\x80\x02]").unwrap_err().split_once(':').unwrap().0, "graph, byte 3");
    assert!(lists(folder.path()).unwrap_err().to_string().ends_with("cannot open: it is a folder"));
}

/// What one mutation does: where (as a share of the file), which way, with which byte, from where it copies.
type Mutation = (u16, u8, u8, u16, u8);

fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], (place, way, byte, from, length): Mutation) {
    let at = |share: u16, len: usize| usize::from(share) * len / (usize::from(u16::MAX) + 1);
    if bytes.is_empty() {
        return;
    }
    let here = at(place, bytes.len());
    match way % 8 {
        5..=7 => bytes[here] ^= 1 << (byte % 8),
        0 | 1 => bytes[here] = byte,
        2 => bytes.insert(here, byte),
        3 => {
            let end = (here + usize::from(length % 16) + 1).min(bytes.len());
            bytes.drain(here..end);
        }
        4 if byte < 64 => bytes.truncate(here),
        _ => {
            let other = &others[usize::from(byte) % others.len()];
            let start = at(from, other.len());
            let end = (start + usize::from(length)).min(other.len());
            bytes.splice(here..here, other[start..end].iter().copied());
        }
    }
}

#[test]
fn random_damage_gives_a_consistent_value_or_an_error_but_never_a_panic() {
    let valid = vec![
        matrix(),
        pickled_array(&[2, 3], ">i4", true, &le4(&[0, 1 << 24, 0, 0, 0, 1 << 24])),
        pickled_array(&[2, 1], "<f8", false, &[0; 16]),
        pickled_lists(&[(0, &[1, 2, 2]), (1, &[300]), (2, &[]), (3, &[70_000, 1])]),
    ];
    let config = Config { cases: 12_000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mutation = (any::<u16>(), any::<u8>(), any::<u8>(), any::<u16>(), any::<u8>());
    let cases = (0..valid.len(), vec(mutation, 1..4));
    let (read, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let tested = runner.run(&cases.boxed(), |(which, mutations)| {
        let mut bytes = valid[which].clone();
        mutations.into_iter().for_each(|mutation| mutate(&mut bytes, &valid, mutation));
        assert!(cells(&bytes) <= 2 * bytes.len());
        let csr = sparse_from(&bytes).map(|csr| assert_eq!(csr.indptr.len(), csr.n() + 1));
        let array = numbers(&bytes).map(|a| assert_eq!(a.shape.iter().product::<usize>(), a.values.len()));
        let lists = lists_from(&bytes).map(|lists| assert!(lists.windows(2).all(|pair| pair[0].0 < pair[1].0)));
        // A file is of one kind at most.
        let kinds = [csr, array, lists];
        assert!(kinds.iter().filter(|kind| kind.is_ok()).count() < 2);
        let count = if kinds.iter().any(Result::is_ok) { &read } else { &refused };
        count.set(count.get() + 1);
        Ok(())
    });
    tested.unwrap();
    assert_eq!(read.get() + refused.get(), 12_000);
    assert!(read.get() > 400 && refused.get() > 8000, "{} read, {} refused", read.get(), refused.get());
}
