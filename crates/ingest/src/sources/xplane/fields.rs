//! Iterator over the fields of protobuf messages, up to the end of the bytes.

use prost::encoding::{WireType, decode_key, decode_varint};

/// Value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// The available bytes of a value whose length exceeds the message.
    Cut(&'a [u8]),
}

/// Fields of a message. The iteration ends at bytes that are not a field; [`Fields::is_whole`] is then false.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    is_broken: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message, is_broken: false }
    }

    /// True if all bytes so far were fields.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_broken
    }

    /// Decode the next field; `None` for bytes that are not a field.
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let (number, wire) = decode_key(&mut self.rest).ok()?;
        let value = match wire {
            WireType::Varint => Value::Number(decode_varint(&mut self.rest).ok()?),
            WireType::SixtyFourBit => Value::Bytes(self.take(8)?),
            WireType::ThirtyTwoBit => Value::Bytes(self.take(4)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest).ok()?;
                match usize::try_from(length).ok().and_then(|length| self.take(length)) {
                    Some(bytes) => Value::Bytes(bytes),
                    None => {
                        self.is_broken = true;
                        Value::Cut(std::mem::take(&mut self.rest))
                    }
                }
            }
            // Groups are obsolete and occur in none of these files.
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        Some((number, value))
    }

    /// Split off the next `length` bytes; `None` if fewer are left.
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

/// Number and value of each field.
impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.is_broken {
            return None;
        }
        let field = self.field();
        self.is_broken |= field.is_none();
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_each_kind() {
        let message = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4];
        let mut fields = Fields::new(&message);
        let found: Vec<_> = fields.by_ref().collect();
        let eight = [1, 2, 3, 4, 5, 6, 7, 8];
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Bytes(&eight)),
            (4, Value::Bytes(&eight[..4])),
        ];
        assert_eq!(found, expected);
        assert!(fields.is_whole());
    }

    #[test]
    fn truncated_messages_give_their_first_fields() {
        let mut fields = Fields::new(&[0x08, 5, 0x12, 9, b'h', b'i']);
        assert_eq!(fields.by_ref().collect::<Vec<_>>(), [(1, Value::Number(5)), (2, Value::Cut(b"hi"))]);
        assert!(!fields.is_whole());
        for garbage in
            [&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0x0b], &[0x00], &[0x80]]
        {
            let mut fields = Fields::new(garbage);
            assert_eq!(fields.by_ref().count(), 0);
            assert!(!fields.is_whole(), "{garbage:?}");
        }
        let mut huge = Fields::new(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1]);
        assert_eq!(huge.next(), Some((2, Value::Cut(&[1]))));
    }
}
