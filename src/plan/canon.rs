//! Canonical bytes of a parameter value.
//!
//! The encoding is ours and length-prefixed, so that no two values share bytes: a tag byte, then
//!
//! | tag | value | bytes after the tag |
//! | --- | --- | --- |
//! | `n` | null | none |
//! | `t` `f` | true, false | none |
//! | `i` | whole number | 16 bytes, little-endian two's complement |
//! | `d` | other number | 8 bytes of the IEEE double; −0 is written as 0 |
//! | `s` | text | length as 8 bytes, UTF-8 |
//! | `a` | list | length as 8 bytes, the items |
//! | `m` | mapping | length as 8 bytes, then name (as text) and value by ascending name |
//!
//! A parameter's type decides between `i` and `d` (it went through its struct), so `1`, `1.0` and `1e0` agree.

use serde_json::{Map, Value};

/// Appends the canonical bytes of a value.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(b'n'),
        Value::Bool(true) => out.push(b't'),
        Value::Bool(false) => out.push(b'f'),
        Value::Number(number) => match number.as_i128() {
            Some(whole) => {
                out.push(b'i');
                out.extend_from_slice(&whole.to_le_bytes());
            }
            None => {
                let double = number.as_f64().unwrap_or(0.0);
                out.push(b'd');
                out.extend_from_slice(&(if double == 0.0 { 0.0f64 } else { double }).to_le_bytes());
            }
        },
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'a');
            out.extend_from_slice(&(items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| write(item, out));
        }
        Value::Object(map) => write_map(map, out),
    }
}

/// Appends the canonical bytes of a mapping, whatever the order it was written in.
pub fn write_map(map: &Map<String, Value>, out: &mut Vec<u8>) {
    out.push(b'm');
    out.extend_from_slice(&(map.len() as u64).to_le_bytes());
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in entries {
        write_text(name, out);
        write(value, out);
    }
}

/// Appends the canonical bytes of a text.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b's');
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bytes(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        write(value, &mut out);
        out
    }

    #[test]
    fn the_order_of_a_mapping_does_not_count() {
        assert_eq!(bytes(&json!({"a": 1, "b": [true, null]})), bytes(&json!({"b": [true, null], "a": 1})));
    }

    #[test]
    fn neighbouring_values_cannot_run_into_each_other() {
        assert_ne!(bytes(&json!(["ab", "c"])), bytes(&json!(["a", "bc"])));
        assert_ne!(bytes(&json!([["a"], "b"])), bytes(&json!([["a", "b"]])));
        assert_ne!(bytes(&json!("1")), bytes(&json!(1)));
    }

    #[test]
    fn negative_zero_is_zero() {
        assert_eq!(bytes(&json!(-0.0)), bytes(&json!(0.0)));
    }
}
