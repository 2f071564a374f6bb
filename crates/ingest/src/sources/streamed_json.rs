//! Incremental JSON reader that keeps the data before damage. Values that are not integers are read as none.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// An integer, as number or text; `None` for any other value, and beyond 63 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole(pub(crate) Option<i64>);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfWhole)
    }
}

struct OfWhole;

impl<'de> Visitor<'de> for OfWhole {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }

    fn visit_i64<E>(self, value: i64) -> Result<Whole, E> {
        Ok(Whole(Some(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Whole, E> {
        Ok(Whole(value.try_into().ok()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Whole, E> {
        Ok(Whole(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Whole, E> {
        Ok(Whole(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Whole, E> {
        Ok(Whole(text.trim().parse().ok()))
    }

    fn visit_unit<E>(self) -> Result<Whole, E> {
        Ok(Whole(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Whole, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Whole(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Whole, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Whole(None))
    }
}

/// Receiver of the fields of an object, or the elements of a list.
pub(crate) trait Fields<'de> {
    /// Read the value of a field, or skip it.
    fn field<A: MapAccess<'de>>(&mut self, _: &str, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(|_| ())
    }

    /// Read the next element of a list, or skip it. Returns false at the end.
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        Ok(list.next_element::<IgnoredAny>()?.is_some())
    }
}

/// Deserializer seed that passes the parts of an object or list to a receiver.
pub(crate) struct FieldsSeed<'f, F>(pub(crate) &'f mut F);

impl<'de, F: Fields<'de>> DeserializeSeed<'de> for FieldsSeed<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Fields<'de>> Visitor<'de> for FieldsSeed<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object or list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            self.0.field(&key, &mut map)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while self.0.element(&mut list)? {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Elements are appended to a list, so those before damage are kept.
impl<'de, T: Deserialize<'de>> Fields<'de> for Vec<T> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let element = list.next_element()?;
        let is_one = element.is_some();
        self.extend(element);
        Ok(is_one)
    }
}
