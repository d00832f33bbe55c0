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

use crate::contract::params::list;
use crate::reading::npz::Header;
use crate::reading::number::{BadValue, Number};

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

const SPARSE: &str = "scipy.sparse.csr.csr_matrix";
const RECONSTRUCT: &str = "numpy.core.multiarray._reconstruct";
const ARRAY: &str = "numpy.ndarray";
const TYPE: &str = "numpy.dtype";
const DEFAULT_DICT: &str = "collections.defaultdict";
const LIST: &str = "__builtin__.list";
/// The classes and functions that a pickle may name.
const CLASSES: [&str; 6] = [SPARSE, RECONSTRUCT, ARRAY, TYPE, DEFAULT_DICT, LIST];
/// The number types that an array may have.
const NUMBERS: [&str; 4] = ["i4", "i8", "f4", "f8"];

/// A value on the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'b> {
    None,
    Bool(bool),
    Int(i32),
    Text(&'b [u8]),
    /// One of [`CLASSES`].
    Class(&'static str),
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
    /// One of [`NUMBERS`] and the sign of its byte order, `<` or `>`.
    Type(&'static str, Option<&'static str>),
    Array(Option<Array<'b>>),
    Sparse(Option<Sparse<'b>>),
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

/// An array of one or two dimensions whose bytes are exactly as many as its header says.
#[derive(Clone, Debug)]
pub struct Array<'b> {
    pub header: Header,
    pub bytes: &'b [u8],
}

impl Array<'_> {
    /// Decodes all numbers in row-major order.
    ///
    /// # Errors
    /// When `convert` refuses.
    pub fn decode<T: Copy>(
        &self,
        convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
    ) -> Result<Vec<T>, BadValue> {
        self.header.decode(&mut &self.bytes[..], convert)
    }
}

/// A sparse matrix: its shape and its arrays.
#[derive(Debug)]
pub struct Sparse<'b> {
    pub rows: usize,
    pub cols: usize,
    pub indptr: Array<'b>,
    pub indices: Array<'b>,
    pub data: Array<'b>,
}

/// The machine and all that it has made.
#[derive(Debug)]
pub struct Machine<'b> {
    bytes: &'b [u8],
    /// The next byte.
    at: usize,
    /// Where the current opcode stands.
    op: usize,
    pub(super) stack: Vec<Value<'b>>,
    /// Stack heights at the open marks.
    pub(super) marks: Vec<usize>,
    pub(super) memo: HashMap<u32, Value<'b>>,
    pub(super) objects: Vec<Object<'b>>,
}

type Step<T = ()> = Result<T, BadValue>;

impl<'b> Machine<'b> {
    /// A machine before its first opcode.
    pub fn new(bytes: &'b [u8]) -> Self {
        let (stack, marks, objects) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, at: 0, op: 0, stack, marks, memo: HashMap::new(), objects }
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
            let opcode = self.take(1)?[0];
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
                b'K' | b'M' | b'J' => {
                    let number = self.number(match opcode {
                        b'K' => 1,
                        b'M' => 2,
                        _ => 4,
                    })?;
                    self.push(Value::Int(number.cast_signed()))?;
                }
                b'U' | b'T' => {
                    let length = self.number(if opcode == b'U' { 1 } else { 4 })?.cast_signed();
                    let Ok(length) = usize::try_from(length) else {
                        return self.refuse(format!("text has length {length}"));
                    };
                    let text = self.take(length)?;
                    self.push(Value::Text(text))?;
                }
                b')' => self.push_object(Object::Tuple(Vec::new()))?,
                b't' | 0x85..=0x87 => {
                    let items = if opcode == b't' { self.pop_mark()? } else { self.pop_some(opcode - 0x84)? };
                    self.tuple(items)?;
                }
                b']' => self.push_object(Object::List(Vec::new()))?,
                b'a' | b'e' => {
                    let items = if opcode == b'a' { self.pop_some(1)? } else { self.pop_mark()? };
                    self.append(&items)?;
                }
                b'}' => self.push_object(Object::Dict(Vec::new()))?,
                b's' | b'u' => {
                    let items = if opcode == b's' { self.pop_some(2)? } else { self.pop_mark()? };
                    self.set(&items)?;
                }
                b'q' | b'r' => {
                    let number = self.number(if opcode == b'q' { 1 } else { 4 })?;
                    self.put(number)?;
                }
                b'h' | b'j' => {
                    let number = self.number(if opcode == b'h' { 1 } else { 4 })?;
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
        Err(BadValue::new(format_args!("byte {}", self.op), what))
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

    /// Reads a number of up to four bytes.
    fn number(&mut self, width: usize) -> Step<u32> {
        let mut bytes = [0; 4];
        bytes[..width].copy_from_slice(self.take(width)?);
        Ok(u32::from_le_bytes(bytes))
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

    fn pop_some(&mut self, count: u8) -> Step<Vec<Value<'b>>> {
        match self.stack.len().checked_sub(count.into()) {
            Some(height) if height >= self.floor() => Ok(self.stack.split_off(height)),
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
        let named = [self.line()?, b".", self.line()?].concat();
        if let Some(class) = CLASSES.into_iter().find(|class| class.as_bytes() == named) {
            return self.push(Value::Class(class));
        }
        let (named, known) = (named.escape_ascii(), list(CLASSES.into_iter()));
        self.refuse(format!("class `{named}` is not understood, expected one of {known}"))
    }

    /// Returns the object that a value stands for, if it does.
    pub fn object_of(&self, value: Value) -> Option<&Object<'b>> {
        if let Value::Object(id) = value { self.objects.get(id) } else { None }
    }

    /// Returns the entries of a tuple, or nothing.
    fn entries(&self, value: Value) -> Option<&[Value<'b>]> {
        if let Object::Tuple(items) = self.object_of(value)? { Some(items) } else { None }
    }

    fn reduce(&mut self) -> Step {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let Value::Class(class) = callee else { return self.refuse("what is called is not a class") };
        let made = match (class, self.entries(arguments).unwrap_or_default()) {
            (RECONSTRUCT, &[Value::Class(ARRAY), shape, Value::Text(b"b")])
                if self.entries(shape) == Some(&[Value::Int(0)]) =>
            {
                Object::Array(None)
            }
            (TYPE, &[Value::Text(code), Value::Int(0), Value::Int(1)]) => {
                let Some(known) = NUMBERS.into_iter().find(|known| known.as_bytes() == code) else {
                    let code = &code[..code.len().min(LONGEST_NAME)];
                    return self.refuse(format!("number type `{}`, expected i4, i8, f4 or f8", code.escape_ascii()));
                };
                Object::Type(known, None)
            }
            (DEFAULT_DICT, &[Value::Class(LIST)]) => Object::Lists(Vec::new()),
            _ => return self.refuse(format!("`{class}` is not called as NumPy and Python write it")),
        };
        self.push_object(made)
    }

    fn new_object(&mut self) -> Step {
        let (arguments, class) = (self.pop()?, self.pop()?);
        match (class, self.entries(arguments)) {
            (Value::Class(SPARSE), Some([])) => self.push_object(Object::Sparse(None)),
            (Value::Class(class), _) => self.refuse(format!("`{class}` is not made as SciPy writes it")),
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
            Some(Object::Type(code, None)) => Object::Type(code, Some(self.byte_order(state)?)),
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

    fn byte_order(&self, state: Value) -> Step<&'static str> {
        const PLAIN: [Value; 6] =
            [Value::None, Value::None, Value::None, Value::Int(-1), Value::Int(-1), Value::Int(0)];
        match self.entries(state) {
            Some([Value::Int(3), Value::Text(b"<"), rest @ ..]) if *rest == PLAIN => Ok("<"),
            Some([Value::Int(3), Value::Text(b">"), rest @ ..]) if *rest == PLAIN => Ok(">"),
            _ => self.refuse("a number type that is not a plain one with a byte order"),
        }
    }

    fn array_of(&self, state: Value) -> Step<Array<'b>> {
        let Some(&[Value::Int(1), shape, Value::Object(dtype), Value::Bool(by_column), Value::Text(bytes)]) =
            self.entries(state)
        else {
            return self.refuse("an array without version, shape, number type, order and bytes");
        };
        let Some(Object::Type(code, Some(order))) = self.objects.get(dtype) else {
            return self.refuse("an array without a number type");
        };
        let shape = self.sizes(shape).filter(|sizes| matches!(sizes.len(), 1 | 2));
        let Some(header) = shape.and_then(|shape| Header::new(&format!("{order}{code}"), by_column, shape)) else {
            return self.refuse("the shape of an array is not one or two sizes");
        };
        if header.bytes() != Some(bytes.len()) {
            let shape: Vec<_> = header.shape.iter().map(ToString::to_string).collect();
            let (shape, size, found) = (shape.join(" × "), header.size, bytes.len());
            return self.refuse(format!("an array of {shape} numbers of {size} bytes each has {found} bytes"));
        }
        Ok(Array { header, bytes })
    }

    /// Returns the entries of a tuple of sizes.
    fn sizes(&self, value: Value) -> Option<Vec<usize>> {
        let size = |size: &Value| if let Value::Int(size) = size { usize::try_from(*size).ok() } else { None };
        self.entries(value)?.iter().map(size).collect()
    }

    fn sparse_of(&self, state: Value) -> Step<Sparse<'b>> {
        let Some(Object::Dict(entries)) = self.object_of(state) else {
            return self.refuse("a sparse matrix without its parts");
        };
        let entry = |name: &str| entries.iter().find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| *value);
        if !matches!(entry("format"), None | Some(Value::Text(b"csr"))) {
            return self.refuse("a sparse matrix that is not stored by rows, expected format `csr`");
        }
        let Some(&[rows, cols]) = entry("_shape").and_then(|shape| self.sizes(shape)).as_deref() else {
            return self.refuse("a sparse matrix without `_shape`, expected rows and columns");
        };
        let part = |name| match entry(name).and_then(|value| self.object_of(value)) {
            Some(Object::Array(Some(array))) => Ok(array.clone()),
            _ => self.refuse(format!("a sparse matrix without the array `{name}`")),
        };
        Ok(Sparse { rows, cols, indptr: part("indptr")?, indices: part("indices")?, data: part("data")? })
    }
}
