//! The stack machine behind a pickle, cut down to what a sparse matrix, an array and a dictionary of lists need.
//!
//! A pickle is a program: opcodes push values on a stack, put them into containers, remember them under numbers (the
//! memo), and call classes. Here a call is a lookup in a table: it makes an empty object of a known kind, and `BUILD`
//! fills that object once. Nothing is ever executed, and containers hold only what they hold in those files: a list
//! whole numbers, the dictionary of lists such lists, a plain dictionary named values.
//!
//! Objects stand in one vector and refer to each other by number, so that remembering and repeating one costs as much
//! as a number. No opcode makes more than two cells, so what is held is proportional to the file.

use std::collections::HashMap;

use crate::reading::number::BadValue;

/// The most values on the stack, and the most open marks; Python fills containers a thousand entries at a time.
const MOST_STACKED: usize = 1 << 16;
/// The most objects, and the most remembered values: a graph has one list per node.
const MOST_OBJECTS: usize = 1 << 23;
/// The most entries of a tuple; the state of a number type has eight.
const MOST_IN_TUPLE: usize = 8;
/// The most entries of a plain dictionary; the state of a sparse matrix has seven.
const MOST_IN_DICT: usize = 64;
/// The longest module or class name that is read.
const LONGEST_NAME: usize = 80;

const OPCODES: &str = "PROTO, STOP, MARK, GLOBAL, REDUCE, BUILD, NEWOBJ, NONE, NEWTRUE, NEWFALSE, BININT, BININT1, \
     BININT2, BINSTRING, SHORT_BINSTRING, EMPTY_TUPLE, TUPLE, TUPLE1, TUPLE2, TUPLE3, EMPTY_LIST, APPEND, APPENDS, \
     EMPTY_DICT, SETITEM, SETITEMS, BINPUT, LONG_BINPUT, BINGET and LONG_BINGET of Python 2, protocol 2";

/// A class or function that a pickle may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Sparse,
    Reconstruct,
    Array,
    Type,
    DefaultDict,
    List,
}

const CLASSES: [(Class, &str, &str); 6] = [
    (Class::Sparse, "scipy.sparse.csr", "csr_matrix"),
    (Class::Reconstruct, "numpy.core.multiarray", "_reconstruct"),
    (Class::Array, "numpy", "ndarray"),
    (Class::Type, "numpy", "dtype"),
    (Class::DefaultDict, "collections", "defaultdict"),
    (Class::List, "__builtin__", "list"),
];

/// A value on the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'b> {
    None,
    Bool(bool),
    Int(i32),
    Text(&'b [u8]),
    Class(Class),
    /// The number of an object.
    Object(usize),
}

/// What stands behind [`Value::Object`]. The last three are empty until `BUILD` fills them.
#[derive(Debug)]
pub enum Object<'b> {
    Tuple(Vec<Value<'b>>),
    List(Vec<i32>),
    Dict(Vec<(&'b [u8], Value<'b>)>),
    /// A `defaultdict(list)`: a key and the number of its list.
    Lists(Vec<(i32, usize)>),
    Type(Scalar, Option<Endian>),
    Array(Option<Array<'b>>),
    Sparse(Option<Sparse>),
}

impl Object<'_> {
    /// Says what it is.
    pub fn about(&self) -> &'static str {
        match self {
            Self::Tuple(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dictionary",
            Self::Lists(_) => "a dictionary of lists (defaultdict)",
            Self::Type(..) => "a number type (dtype)",
            Self::Array(_) => "an array (ndarray)",
            Self::Sparse(_) => "a sparse matrix (csr_matrix)",
        }
    }
}

/// A number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    I4,
    I8,
    F4,
    F8,
}

impl Scalar {
    /// Its size in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::I4 | Self::F4 => 4,
            Self::I8 | Self::F8 => 8,
        }
    }
}

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    Little,
    Big,
}

/// An array of one or two dimensions whose bytes are exactly as many as its shape says.
#[derive(Clone, Copy, Debug)]
pub struct Array<'b> {
    pub rows: usize,
    /// `None` where it has one dimension.
    pub cols: Option<usize>,
    pub scalar: Scalar,
    pub endian: Endian,
    pub by_column: bool,
    pub bytes: &'b [u8],
}

/// A sparse matrix: its shape and the numbers of its arrays.
#[derive(Clone, Copy, Debug)]
pub struct Sparse {
    pub rows: usize,
    pub cols: usize,
    pub indptr: usize,
    pub indices: usize,
    pub data: usize,
}

/// The machine and all that it has made.
#[derive(Debug)]
pub struct Machine<'b> {
    bytes: &'b [u8],
    /// The next byte.
    at: usize,
    /// Where the current opcode stands.
    op: usize,
    stack: Vec<Value<'b>>,
    /// Stack heights at the open marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'b>>,
    objects: Vec<Object<'b>>,
}

type Step<T = ()> = Result<T, BadValue>;

impl<'b> Machine<'b> {
    /// A machine before its first opcode.
    pub fn new(bytes: &'b [u8]) -> Self {
        let (stack, marks, objects) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, at: 0, op: 0, stack, marks, memo: HashMap::new(), objects }
    }

    /// Returns an object by its number.
    pub fn object(&self, id: usize) -> Option<&Object<'b>> {
        self.objects.get(id)
    }

    /// Runs the whole pickle and returns its one value.
    ///
    /// # Errors
    /// At the first opcode, class or use of them that is not understood, with its byte.
    pub fn run(&mut self) -> Step<Value<'b>> {
        match self.bytes {
            [0x80, 2, ..] => self.at = 2,
            [0x80, protocol, ..] => return self.refuse(format!("has pickle protocol {protocol}, expected protocol 2")),
            _ => return self.refuse("is not a pickle of protocol 2"),
        }
        loop {
            self.op = self.at;
            let [opcode] = self.array()?;
            match opcode {
                b'.' => return self.stop(),
                b'(' => self.mark()?,
                b'c' => self.global()?,
                b'R' => self.reduce()?,
                b'b' => self.build()?,
                0x81 => self.new_object()?,
                b'N' => self.push(Value::None)?,
                0x88 => self.push(Value::Bool(true))?,
                0x89 => self.push(Value::Bool(false))?,
                b'J' => {
                    let number = i32::from_le_bytes(self.array()?);
                    self.push(Value::Int(number))?;
                }
                b'K' => {
                    let [number] = self.array()?;
                    self.push(Value::Int(number.into()))?;
                }
                b'M' => {
                    let number = u16::from_le_bytes(self.array()?);
                    self.push(Value::Int(number.into()))?;
                }
                b'T' => {
                    let length = i32::from_le_bytes(self.array()?);
                    let Ok(length) = usize::try_from(length) else {
                        return self.refuse(format!("text has length {length}"));
                    };
                    let text = self.take(length)?;
                    self.push(Value::Text(text))?;
                }
                b'U' => {
                    let [length] = self.array()?;
                    let text = self.take(length.into())?;
                    self.push(Value::Text(text))?;
                }
                b')' => self.push_object(Object::Tuple(Vec::new()))?,
                b't' => {
                    let items = self.pop_mark()?;
                    self.tuple(items)?;
                }
                0x85..=0x87 => {
                    let mut items = Vec::new();
                    for _ in 0x84..opcode {
                        items.push(self.pop()?);
                    }
                    items.reverse();
                    self.tuple(items)?;
                }
                b']' => self.push_object(Object::List(Vec::new()))?,
                b'a' => {
                    let item = self.pop()?;
                    self.append(&[item])?;
                }
                b'e' => {
                    let items = self.pop_mark()?;
                    self.append(&items)?;
                }
                b'}' => self.push_object(Object::Dict(Vec::new()))?,
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set(&[key, value])?;
                }
                b'u' => {
                    let items = self.pop_mark()?;
                    self.set(&items)?;
                }
                b'q' => {
                    let [number] = self.array()?;
                    self.put(number.into())?;
                }
                b'r' => {
                    let number = u32::from_le_bytes(self.array()?);
                    self.put(number)?;
                }
                b'h' => {
                    let [number] = self.array()?;
                    self.get(number.into())?;
                }
                b'j' => {
                    let number = u32::from_le_bytes(self.array()?);
                    self.get(number)?;
                }
                _ => {
                    let shown = opcode.escape_ascii();
                    return self.refuse(format!("opcode `{shown}` is not understood, expected one of {OPCODES}"));
                }
            }
        }
    }

    /// A problem at the current opcode.
    fn refuse<T>(&self, what: impl Into<String>) -> Step<T> {
        Err(BadValue { at: format!("byte {}", self.op), what: what.into() })
    }

    fn take(&mut self, length: usize) -> Step<&'b [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..length) else {
            let there = rest.len();
            return self.refuse(format!("the file ends too early: expected {length} more bytes, found {there}"));
        };
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn line(&mut self) -> Step<&'b [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().take(LONGEST_NAME + 1).position(|b| *b == b'\n') else {
            return self.refuse(format!("the name of a class does not end within {LONGEST_NAME} bytes"));
        };
        let line = self.take(length)?;
        self.at += 1;
        Ok(line)
    }

    fn push(&mut self, value: Value<'b>) -> Step {
        if self.stack.len() >= MOST_STACKED {
            return self.refuse(format!("more than {MOST_STACKED} values wait for their container"));
        }
        self.stack.push(value);
        Ok(())
    }

    fn push_object(&mut self, object: Object<'b>) -> Step {
        if self.objects.len() >= MOST_OBJECTS {
            return self.refuse(format!("more than {MOST_OBJECTS} objects"));
        }
        self.objects.push(object);
        self.push(Value::Object(self.objects.len() - 1))
    }

    fn tuple(&mut self, items: Vec<Value<'b>>) -> Step {
        if items.len() > MOST_IN_TUPLE {
            return self.refuse(format!("a tuple of {} entries, expected at most {MOST_IN_TUPLE}", items.len()));
        }
        self.push_object(Object::Tuple(items))
    }

    /// The number of values below the innermost mark, which opcodes must leave alone.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Step<Value<'b>> {
        match self.stack.pop() {
            Some(value) if self.stack.len() >= self.floor() => Ok(value),
            _ => self.refuse("a value is missing on the stack"),
        }
    }

    fn top(&self) -> Step<Value<'b>> {
        match self.stack.last() {
            Some(value) if self.stack.len() > self.floor() => Ok(*value),
            _ => self.refuse("a value is missing on the stack"),
        }
    }

    fn mark(&mut self) -> Step {
        if self.marks.len() >= MOST_STACKED {
            return self.refuse(format!("more than {MOST_STACKED} open marks"));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn pop_mark(&mut self) -> Step<Vec<Value<'b>>> {
        match self.marks.pop() {
            Some(height) if height <= self.stack.len() => Ok(self.stack.split_off(height)),
            _ => self.refuse("a mark is missing on the stack"),
        }
    }

    fn put(&mut self, number: u32) -> Step {
        let value = self.top()?;
        if self.memo.len() >= MOST_OBJECTS {
            return self.refuse(format!("more than {MOST_OBJECTS} remembered values"));
        }
        self.memo.insert(number, value);
        Ok(())
    }

    fn get(&mut self, number: u32) -> Step {
        match self.memo.get(&number) {
            Some(value) => self.push(*value),
            None => self.refuse(format!("nothing was remembered under number {number}")),
        }
    }

    fn stop(&mut self) -> Step<Value<'b>> {
        let value = self.pop()?;
        if !self.stack.is_empty() || !self.marks.is_empty() {
            return self.refuse("the pickle ends with more than one value");
        }
        match self.bytes.len() - self.at {
            0 => Ok(value),
            more => self.refuse(format!("the pickle ends here, but {more} more bytes follow")),
        }
    }

    fn global(&mut self) -> Step {
        let (module, name) = (self.line()?, self.line()?);
        let known = CLASSES.iter().find(|(_, m, n)| m.as_bytes() == module && n.as_bytes() == name);
        if let Some((class, ..)) = known {
            return self.push(Value::Class(*class));
        }
        let known: Vec<_> = CLASSES.iter().map(|(_, m, n)| format!("`{m}.{n}`")).collect();
        let (module, name, known) = (module.escape_ascii(), name.escape_ascii(), known.join(", "));
        self.refuse(format!("class `{module}.{name}` is not understood, expected one of {known}"))
    }

    /// Returns the entries of a tuple, or nothing.
    fn entries(&self, value: Value) -> Option<&[Value<'b>]> {
        let Value::Object(id) = value else { return None };
        match self.objects.get(id)? {
            Object::Tuple(items) => Some(items),
            _ => None,
        }
    }

    fn reduce(&mut self) -> Step {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let Value::Class(class) = callee else { return self.refuse("what is called is not a class") };
        let made = match (class, self.entries(arguments).unwrap_or_default()) {
            (Class::Reconstruct, &[Value::Class(Class::Array), shape, Value::Text(b"b")])
                if self.entries(shape) == Some(&[Value::Int(0)]) =>
            {
                Object::Array(None)
            }
            (Class::Type, &[Value::Text(code), Value::Int(0), Value::Int(1)]) => {
                let scalar = match code {
                    b"i4" => Scalar::I4,
                    b"i8" => Scalar::I8,
                    b"f4" => Scalar::F4,
                    b"f8" => Scalar::F8,
                    _ => {
                        let code = &code[..code.len().min(LONGEST_NAME)];
                        let what = format!("number type `{}`, expected i4, i8, f4 or f8", code.escape_ascii());
                        return self.refuse(what);
                    }
                };
                Object::Type(scalar, None)
            }
            (Class::DefaultDict, &[Value::Class(Class::List)]) => Object::Lists(Vec::new()),
            _ => return self.refuse(format!("{} is not called as NumPy and Python write it", shown(class))),
        };
        self.push_object(made)
    }

    fn new_object(&mut self) -> Step {
        let (arguments, class) = (self.pop()?, self.pop()?);
        match (class, self.entries(arguments)) {
            (Value::Class(Class::Sparse), Some([])) => self.push_object(Object::Sparse(None)),
            (Value::Class(class), _) => self.refuse(format!("{} is not made as SciPy writes it", shown(class))),
            _ => self.refuse("what is made is not of a class"),
        }
    }

    fn append(&mut self, items: &[Value<'b>]) -> Step {
        let numbers = items.iter().map(|item| if let Value::Int(n) = item { Some(*n) } else { None });
        let Some(numbers) = numbers.collect::<Option<Vec<i32>>>() else {
            return self.refuse("a list holds something that is not a 32-bit whole number");
        };
        if let Value::Object(id) = self.top()?
            && let Some(Object::List(list)) = self.objects.get_mut(id)
        {
            list.extend(numbers);
            return Ok(());
        }
        self.refuse("a value is appended to something that is not a list")
    }

    fn set(&mut self, items: &[Value<'b>]) -> Step {
        let target = self.top()?;
        if items.len() % 2 == 1 {
            return self.refuse("a key without a value");
        }
        for pair in items.chunks_exact(2) {
            let is_list = matches!(pair[1], Value::Object(id) if matches!(self.objects.get(id), Some(Object::List(_))));
            let object = if let Value::Object(id) = target { self.objects.get_mut(id) } else { None };
            match (object, pair) {
                (Some(Object::Lists(lists)), &[Value::Int(key), Value::Object(list)])
                    if is_list && lists.len() < MOST_OBJECTS =>
                {
                    lists.push((key, list));
                }
                (Some(Object::Dict(entries)), &[Value::Text(key), value]) if entries.len() < MOST_IN_DICT => {
                    if entries.iter().any(|(k, _)| *k == key) {
                        return self.refuse("a dictionary has a key twice");
                    }
                    entries.push((key, value));
                }
                (Some(Object::Lists(_)), _) => {
                    return self.refuse(format!("expected at most {MOST_OBJECTS} whole numbers, each with its list"));
                }
                (Some(Object::Dict(_)), _) => {
                    return self.refuse(format!("expected a dictionary of at most {MOST_IN_DICT} names"));
                }
                _ => return self.refuse("a key is set on something that is not a dictionary"),
            }
        }
        Ok(())
    }

    fn build(&mut self) -> Step {
        let state = self.pop()?;
        let Value::Object(target) = self.top()? else { return self.refuse("what is filled is not an object") };
        let made = match self.objects.get(target) {
            Some(Object::Type(scalar, None)) => self.type_of(*scalar, state)?,
            Some(Object::Array(None)) => Object::Array(Some(self.array_of(state)?)),
            Some(Object::Sparse(None)) => Object::Sparse(Some(self.sparse_of(state)?)),
            Some(other) => return self.refuse(format!("{} is filled twice, or cannot be filled", other.about())),
            None => return self.refuse("what is filled is not an object"),
        };
        if let Some(object) = self.objects.get_mut(target) {
            *object = made;
        }
        Ok(())
    }

    fn type_of(&self, scalar: Scalar, state: Value) -> Step<Object<'b>> {
        let endian = match self.entries(state) {
            Some([Value::Int(3), Value::Text(order), rest @ ..])
                if *rest == [Value::None, Value::None, Value::None, Value::Int(-1), Value::Int(-1), Value::Int(0)] =>
            {
                match *order {
                    b"<" => Some(Endian::Little),
                    b">" => Some(Endian::Big),
                    _ => None,
                }
            }
            _ => None,
        };
        match endian {
            Some(endian) => Ok(Object::Type(scalar, Some(endian))),
            None => self.refuse("a number type that is not a plain one with a byte order"),
        }
    }

    fn array_of(&self, state: Value) -> Step<Array<'b>> {
        let Some(&[Value::Int(1), shape, Value::Object(dtype), Value::Bool(by_column), Value::Text(bytes)]) =
            self.entries(state)
        else {
            return self.refuse("an array without version, shape, number type, order and bytes");
        };
        let Some(Object::Type(scalar, Some(endian))) = self.objects.get(dtype) else {
            return self.refuse("an array without a number type");
        };
        let dims = self.entries(shape).unwrap_or_default().iter().map(|size| match size {
            Value::Int(size) => usize::try_from(*size).ok(),
            _ => None,
        });
        let (rows, cols) = match dims.collect::<Option<Vec<_>>>().as_deref() {
            Some([rows]) => (*rows, None),
            Some([rows, cols]) => (*rows, Some(*cols)),
            _ => return self.refuse("the shape of an array is not one or two sizes"),
        };
        let expected = rows.checked_mul(cols.unwrap_or(1)).and_then(|n| n.checked_mul(scalar.size()));
        if expected != Some(bytes.len()) {
            let shape = cols.map_or(format!("{rows}"), |cols| format!("{rows} × {cols}"));
            let (size, found) = (scalar.size(), bytes.len());
            return self.refuse(format!("an array of {shape} numbers of {size} bytes each has {found} bytes"));
        }
        Ok(Array { rows, cols, scalar: *scalar, endian: *endian, by_column, bytes })
    }

    fn sparse_of(&self, state: Value) -> Step<Sparse> {
        let Value::Object(id) = state else { return self.refuse("a sparse matrix without its parts") };
        let Some(Object::Dict(entries)) = self.objects.get(id) else {
            return self.refuse("a sparse matrix without its parts");
        };
        let entry = |name: &str| entries.iter().find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| *value);
        if !matches!(entry("format"), None | Some(Value::Text(b"csr"))) {
            return self.refuse("a sparse matrix that is not stored by rows, expected format `csr`");
        }
        let size = |n: i32| usize::try_from(n).ok();
        let shape = match entry("_shape").and_then(|shape| self.entries(shape)) {
            Some(&[Value::Int(rows), Value::Int(cols)]) => size(rows).zip(size(cols)),
            _ => None,
        };
        let Some((rows, cols)) = shape else {
            return self.refuse("a sparse matrix without `_shape`, expected rows and columns");
        };
        let part = |name| match entry(name) {
            Some(Value::Object(id)) if matches!(self.objects.get(id), Some(Object::Array(Some(_)))) => Ok(id),
            _ => self.refuse(format!("a sparse matrix without the array `{name}`")),
        };
        Ok(Sparse { rows, cols, indptr: part("indptr")?, indices: part("indices")?, data: part("data")? })
    }

    /// Counts all that is held: values, objects and their entries.
    #[cfg(test)]
    pub fn cells(&self) -> usize {
        let inside = self.objects.iter().map(|object| match object {
            Object::Tuple(items) => items.len(),
            Object::List(items) => items.len(),
            Object::Dict(entries) => 2 * entries.len(),
            Object::Lists(entries) => 2 * entries.len(),
            _ => 0,
        });
        self.stack.len() + self.marks.len() + self.memo.len() + self.objects.len() + inside.sum::<usize>()
    }
}

fn shown(class: Class) -> String {
    let name = CLASSES.iter().find(|(c, ..)| *c == class);
    name.map_or_else(String::new, |(_, module, name)| format!("`{module}.{name}`"))
}
