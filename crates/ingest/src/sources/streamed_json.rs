//! JSON read part by part, so that what stands before damage is kept; what is no whole number is taken for none.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A whole number, as number or text; none for anything else, and beyond 63 bits.
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

/// What takes the fields of an object, or the elements of a list, one by one.
pub(crate) trait Fields<'de> {
    /// Takes the value of a field, or skips it.
    fn field<A: MapAccess<'de>>(&mut self, _: &str, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(|_| ())
    }

    /// Takes the next element of a list, or skips it. Whether there was one.
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        Ok(list.next_element::<IgnoredAny>()?.is_some())
    }
}

/// An object or a list on its way to what takes its parts.
pub(crate) struct Into<'f, F>(pub(crate) &'f mut F);

impl<'de, F: Fields<'de>> DeserializeSeed<'de> for Into<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Fields<'de>> Visitor<'de> for Into<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
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

/// Elements go to the end of a list: those before damage are kept.
impl<'de, T: Deserialize<'de>> Fields<'de> for Vec<T> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let element = list.next_element()?;
        let is_one = element.is_some();
        self.extend(element);
        Ok(is_one)
    }
}
