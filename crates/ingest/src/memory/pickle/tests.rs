#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::values::Kind;
use super::*;
use proptest::prelude::*;

fn refused(bytes: &[u8]) -> PickleError {
    read(bytes, Limits::default()).map(|(_, value)| value).unwrap_err()
}

/// No code is run, and the error names the instruction and its byte offset.
#[test]
fn known_exploits_are_refused() {
    for (bytes, name, offset) in [
        (&b"\x80\x02cos\nsystem\nU\x04true\x85R."[..], "GLOBAL of \"os.system\"", 2),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", "STACK_GLOBAL of \"os.system\"", 14),
        (b"\x80\x02c__builtin__\neval\nX\x03\x00\x00\x001+1\x85R.", "GLOBAL of \"__builtin__.eval\"", 2),
        (b"\x80\x02}X\x01\x00\x00\x00a](cbuiltins\nexec\nX\x04\x00\x00\x00passeas.", "GLOBAL of \"builtins.exec\"", 11),
        (b"\x80\x02N\x85R.", "REDUCE", 4),
        (b"\x80\x02N}b.", "BUILD", 4),
        (b"\x80\x02(ios\nsystem\n.", "INST of \"os.system\"", 3),
        (b"\x80\x02(NNo.", "OBJ", 5),
        (b"\x80\x02N)\x81.", "NEWOBJ", 4),
        (b"\x80\x04N)}\x92.", "NEWOBJ_EX", 5),
        (b"\x80\x02\x82\x01.", "EXT1", 2),
        (b"\x80\x02\x83\x01\x00.", "EXT2", 2),
        (b"\x80\x02\x84\x01\x00\x00\x00.", "EXT4", 2),
        (b"\x80\x02Pid\n.", "PERSID", 2),
        (b"\x80\x02NQ.", "BINPERSID", 3),
        (b"\x80\x05\x97.", "NEXT_BUFFER", 2),
        (b"\x80\x04\x8f.", "EMPTY_SET", 2),
    ] {
        let error = refused(bytes);
        assert!(error.reason.contains(&format!("instruction {name} was refused and no code was run")), "{error}");
        assert_eq!(error.offset, offset, "{error}");
    }
}

#[test]
fn older_and_newer_protocols_are_named() {
    for bytes in [&b"(dp0\nS'a'\np1\nI1\ns."[..], b"}q\x00U\x01aK\x01s."] {
        let error = refused(bytes);
        assert!(error.reason.contains("protocol=4"), "{error}");
    }
    assert!(refused(b"\x80\x06N.").reason.contains("protocol 6"));
    assert!(refused(b"\x80\x02I01\n.").reason.contains("instruction INT was refused"));
    assert!(refused(b"\x80\x02\xff.").reason.contains("0xff is not a pickle instruction"));
}

/// `[f, f]` with one shared dict that contains itself, which serde-pickle 1.2 rejects.
#[test]
fn shared_and_recursive_structures() {
    let bytes = b"\x80\x02]q\x00(}q\x01X\x04\x00\x00\x00selfq\x02h\x01sh\x01h\x00e.";
    let (values, value) = read(&bytes[..], Limits::default()).unwrap();
    let list = values.as_list(value).unwrap();
    let items = values.items(list);
    assert_eq!(items[0], items[1], "one dict, referred to twice");
    assert_eq!(items[2], value, "the list holds itself");
    let dict = values.as_dict(items[0]).unwrap();
    assert_eq!(values.find(dict, "self"), Some(items[0]));
}

#[test]
fn every_kind_of_value() {
    let bytes = b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00(N\x88\x89K\xffM\xff\xffJ\xfe\xff\xff\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00\
        \x8a\x01\x80\x8a\x00G\x3f\xf8\x00\x00\x00\x00\x00\x00\x8c\x02\xc3\xa9C\x01a)t.";
    let (values, value) = read(&bytes[..], Limits::default()).unwrap();
    let kinds: Vec<Kind> = values.items(values.as_list(value).unwrap()).iter().map(|v| values.kind(*v)).collect();
    let expected = [Kind::None, Kind::Bool(true), Kind::Bool(false)];
    assert_eq!(kinds[..3], expected);
    let numbers = [255, 65535, -2, 1 << 63, -128, 0].map(Kind::Int);
    assert_eq!(kinds[3..9], numbers);
    assert_eq!(kinds[9], Kind::Float(1.5));
    assert!(matches!(kinds[10], Kind::Text(text) if values.strings.get(text) == "é"));
    assert!(matches!(kinds[11], Kind::Bytes(text) if values.strings.get(text) == "a"));
    assert!(matches!(kinds[12], Kind::Tuple(node) if values.items(node).is_empty()));
}

#[test]
fn truncation_at_any_byte_is_reported() {
    let bytes = b"\x80\x04\x95\x2a\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\x00\x00\x01\x00\x8a\x05\x00\x00\x00\x00\x01eX\x02\x00\x00\x00bb\x94G\x00\x00\x00\x00\x00\x00\x00\x00u.";
    read(&bytes[..], Limits::default()).unwrap();
    for end in 0..bytes.len() {
        let error = refused(&bytes[..end]);
        assert!(error.reason.contains("the file ends in the middle of the pickle"), "{end}: {error}");
        assert!(error.offset <= end as u64, "{end}: {error}");
    }
}

/// Lengths and numbers beyond the available data take no memory, and memory is limited.
#[test]
fn oversized_lengths_take_no_memory() {
    for bytes in [
        &b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc"[..],
        b"\x80\x04B\xff\xff\xff\xffabc",
        b"\x80\x04\x8b\xff\xff\xff\x7f",
    ] {
        refused(bytes);
    }
    let (values, value) = read(&b"\x80\x02Nr\xff\xff\xff\xffj\xff\xff\xff\xff\x86."[..], Limits::default()).unwrap();
    assert_eq!(values.items(values.as_list(value).unwrap()).len(), 2);
    // Each level refers twice to the one below: 2^200 leaves, 200 lists.
    let mut bytes = b"\x80\x02]q\x00".to_vec();
    for level in 1..=200u8 {
        bytes.extend([b'0', b']', b'q', level, b'(', b'h', level - 1, b'h', level - 1, b'e']);
    }
    bytes.push(b'.');
    let (values, _) = read(&bytes[..], Limits::default()).unwrap();
    assert!(values.memory() < 20_000);
    let lists = [&b"\x80\x02"[..], &b"]".repeat(1 << 20), b"."].concat();
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    assert!(read(&lists[..], limits).unwrap_err().reason.contains("more than 1048576 bytes"));
    let marks = [&b"\x80\x02"[..], &b"(".repeat(2000)].concat();
    assert!(refused(&marks).reason.contains("more than 1000 nested lists, tuples or dicts"));
}

#[test]
fn references_to_missing_values_are_refused() {
    for bytes in [
        &b"\x80\x02."[..],
        b"\x80\x020.",
        b"\x80\x021.",
        b"\x80\x022.",
        b"\x80\x02a.",
        b"\x80\x02]a.",
        b"\x80\x02NNa.",
        b"\x80\x02]NNs.",
        b"\x80\x02}(Nu.",
        b"\x80\x02(N](t.",
        b"\x80\x02]((NNa.",
        b"\x80\x02N(\x85.",
        b"\x80\x02(Nd.",
        b"\x80\x02q\x00.",
        b"\x80\x02h\x07.",
        b"\x80\x02NN.",
        b"\x80\x02(N.",
    ] {
        refused(bytes);
    }
}

proptest! {
    /// Any bytes give a value or an error with an offset, and never exceed the memory limit.
    #[test]
    fn any_instructions(body in proptest::collection::vec(prop_oneof![
        prop::sample::select(&b"N]}()lt\x85\x86aesu0122qhK\x94J"[..]), any::<u8>(),
    ], 0..200)) {
        let bytes = [&b"\x80\x04"[..], &body].concat();
        match read(&bytes[..], Limits::default()) {
            Ok((values, _)) => prop_assert!(values.memory() <= 64 * bytes.len() as u64),
            Err(error) => prop_assert!(error.offset <= bytes.len() as u64),
        }
    }
}
