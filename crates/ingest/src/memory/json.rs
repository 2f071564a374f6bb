//! JSON into [`Values`].

use super::values::{NodeKind, Value, Values};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::Read;

/// Reads one JSON document.
///
/// # Errors
/// As serde_json finds them, with line and column.
pub(super) fn read(reader: impl Read) -> Result<(Values, Value), serde_json::Error> {
    let mut values = Values::default();
    let mut parser = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(256 << 10, reader));
    let root = Into(&mut values).deserialize(&mut parser)?;
    parser.end()?;
    Ok((values, root))
}

/// Where values go.
struct Into<'v>(&'v mut Values);

impl<'de> DeserializeSeed<'de> for Into<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Into<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NONE)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(self.0.int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(self.0.int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(self.0.float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::text(self.0.strings.intern(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Into(self.0))? {
            items.push(item);
        }
        self.0.node(NodeKind::List, &items).map(Value::from).ok_or_else(|| A::Error::custom("more than 2^32 values"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(key) = map.next_key_seed(Into(self.0))? {
            items.push(key);
            items.push(map.next_value_seed(Into(self.0))?);
        }
        self.0.node(NodeKind::Dict, &items).map(Value::from).ok_or_else(|| A::Error::custom("more than 2^32 values"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::values::Kind;
    use super::*;

    #[test]
    fn all_kinds() {
        let (values, root) = read(&br#"{"a": [null, true, -1, 18446744073709551615, 0.5, "b"]}"#[..]).unwrap();
        let list = values.as_list(values.find(values.as_dict(root).unwrap(), "a").unwrap()).unwrap();
        let kinds: Vec<Kind> = values.items(list).iter().map(|value| values.kind(*value)).collect();
        let text = values.strings.find("b").unwrap();
        let expected = [
            Kind::None,
            Kind::Bool(true),
            Kind::Int(-1),
            Kind::Int(u64::MAX.into()),
            Kind::Float(0.5),
            Kind::Text(text),
        ];
        assert_eq!(kinds, expected);
        let deep = "[".repeat(100_000);
        assert!(read(deep.as_bytes()).is_err(), "nesting is bounded");
    }
}
