//! Parser of JSON documents into the compact table [`Values`], with bounded memory.

use super::pickle::Limits;
use super::values::{NodeKind, Value, Values};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::Read;

/// Read one JSON document. serde_json limits nesting to 128 levels, and `limits` bounds the memory.
///
/// # Errors
/// Errors of serde_json with line and column, or if the values exceed the memory limit.
pub(super) fn read(reader: impl Read, limits: Limits) -> Result<(Values, Value), serde_json::Error> {
    let mut target = Target {
        values: Values::default(),
        text_bytes: 0,
        open_items: 0,
        memory: limits.memory,
        until_check: CHECK_EVERY,
    };
    let mut parser = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(256 << 10, reader));
    let root = ValueSeed(&mut target).deserialize(&mut parser)?;
    parser.end()?;
    Ok((target.values, root))
}

/// Number of values between two checks of the memory limit.
const CHECK_EVERY: u32 = 4096;

/// Table that receives the parsed values of a JSON document, with its memory limit.
struct Target {
    values: Values,
    /// Bytes of distinct strings.
    text_bytes: u64,
    /// Items of lists and dicts that are still open.
    open_items: u64,
    memory: u64,
    until_check: u32,
}

impl Target {
    /// Error if the values exceed the memory limit; examined only on every 4096th call.
    fn check<E: Error>(&mut self) -> Result<(), E> {
        self.until_check -= 1;
        if self.until_check > 0 {
            return Ok(());
        }
        self.until_check = CHECK_EVERY;
        let open = self.open_items.saturating_mul(size_of::<Value>() as u64);
        if self.values.memory().saturating_add(self.text_bytes).saturating_add(open) > self.memory {
            return Err(E::custom(format!("the JSON document needs more than {} bytes of memory", self.memory)));
        }
        Ok(())
    }

    /// Count further items of open lists or dicts, and check the memory limit.
    fn count_open_items<E: Error>(&mut self, items: u64) -> Result<(), E> {
        self.open_items += items;
        self.check()
    }
}

/// Deserializer seed that adds one JSON value to the table.
struct ValueSeed<'v>(&'v mut Target);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
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
        Ok(self.0.values.int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(self.0.values.int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(self.0.values.float(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        let before = self.0.values.strings.len();
        let id = self.0.values.strings.intern(text);
        if self.0.values.strings.len() > before {
            self.0.text_bytes += text.len() as u64;
            self.0.check()?;
        }
        Ok(Value::text(id))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(ValueSeed(self.0))? {
            items.push(item);
            self.0.count_open_items(1)?;
        }
        self.0.open_items -= items.len() as u64;
        self.0.values.node(NodeKind::List, &items).map(Value::from).ok_or_else(|| {
            A::Error::custom("the JSON document has more than 2^32 values, or more than 2^28 in one list or object")
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(key) = map.next_key_seed(ValueSeed(self.0))? {
            items.push(key);
            items.push(map.next_value_seed(ValueSeed(self.0))?);
            self.0.count_open_items(2)?;
        }
        self.0.open_items -= items.len() as u64;
        self.0.values.node(NodeKind::Dict, &items).map(Value::from).ok_or_else(|| {
            A::Error::custom("the JSON document has more than 2^32 values, or more than 2^28 in one list or object")
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::values::Kind;
    use super::*;

    #[test]
    fn all_kinds() {
        let (values, root) =
            read(&br#"{"a": [null, true, -1, 18446744073709551615, 0.5, "b"]}"#[..], Limits::default()).unwrap();
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
        assert!(read(deep.as_bytes(), Limits::default()).is_err(), "nesting is bounded");
    }

    /// Documents that exceed the memory limit are refused: two bytes of text each become some forty in memory.
    #[test]
    fn memory_is_bounded() {
        let limits = Limits { memory: 1 << 20, ..Limits::default() };
        let lists = format!("[{}[]]", "[],".repeat(100_000));
        let message = read(lists.as_bytes(), limits).unwrap_err().to_string();
        assert!(message.starts_with("the JSON document needs more than 1048576 bytes of memory"), "{message}");
        let texts: Vec<String> = (0..40_000).map(|number| format!("\"a rather long text {number}\"")).collect();
        assert!(read(format!("[{}]", texts.join(",")).as_bytes(), limits).is_err());
        let flat = format!("[{}0]", "0,".repeat(200_000));
        assert!(read(flat.as_bytes(), limits).is_err(), "a list that has not ended counts, too");
        assert!([lists, flat].iter().all(|text| read(text.as_bytes(), Limits::default()).is_ok()));
    }
}
