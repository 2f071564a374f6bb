//! Names of pickle instructions, and reasons for refusing them.

pub(super) const PROTO: u8 = 0x80;
pub(super) const STOP: u8 = b'.';

const RUNS_CODE: &str = "the instruction makes Python run code, but a memory snapshot contains only plain data. Do not load this file with \
                         Python unless you trust its source";
const OLD: &str =
    "the instruction belongs to protocol 0; save the snapshot again with `pickle.dump(snapshot, file, protocol=4)`";
const OUTSIDE: &str = "the instruction takes bytes from outside the file; a memory snapshot contains only plain data";
const SET: &str =
    "the instruction makes a set or byte array; a memory snapshot contains only numbers, strings, lists and dicts";

/// Name of a refused instruction, and the reason.
pub(super) fn refused(opcode: u8) -> Option<(&'static str, &'static str)> {
    Some(match opcode {
        b'c' => ("GLOBAL", RUNS_CODE),
        0x93 => ("STACK_GLOBAL", RUNS_CODE),
        b'R' => ("REDUCE", RUNS_CODE),
        b'b' => ("BUILD", RUNS_CODE),
        b'i' => ("INST", RUNS_CODE),
        b'o' => ("OBJ", RUNS_CODE),
        0x81 => ("NEWOBJ", RUNS_CODE),
        0x92 => ("NEWOBJ_EX", RUNS_CODE),
        0x82 => ("EXT1", RUNS_CODE),
        0x83 => ("EXT2", RUNS_CODE),
        0x84 => ("EXT4", RUNS_CODE),
        b'P' => ("PERSID", RUNS_CODE),
        b'Q' => ("BINPERSID", RUNS_CODE),
        0x97 => ("NEXT_BUFFER", OUTSIDE),
        0x98 => ("READONLY_BUFFER", OUTSIDE),
        0x96 => ("BYTEARRAY8", SET),
        0x8f => ("EMPTY_SET", SET),
        0x90 => ("ADDITEMS", SET),
        0x91 => ("FROZENSET", SET),
        b'F' => ("FLOAT", OLD),
        b'I' => ("INT", OLD),
        b'L' => ("LONG", OLD),
        b'S' => ("STRING", OLD),
        b'V' => ("UNICODE", OLD),
        b'g' => ("GET", OLD),
        b'p' => ("PUT", OLD),
        _ => return None,
    })
}
