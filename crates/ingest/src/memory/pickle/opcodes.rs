//! Names of pickle instructions, and reasons for refusing them.

pub(super) const PROTO: u8 = 0x80;
pub(super) const STOP: u8 = b'.';

const RUNS_CODE: &str = "the instruction makes Python run code, but a memory snapshot contains only plain data. Do not load this file with \
                         Python unless you trust its source";
const OLD_PROTOCOL: &str =
    "the instruction belongs to protocol 0; save the snapshot again with `pickle.dump(snapshot, file, protocol=4)`";
const EXTERNAL_BYTES: &str =
    "the instruction takes bytes from outside the file; a memory snapshot contains only plain data";
const SETS: &str =
    "the instruction makes a set or byte array; a memory snapshot contains only numbers, strings, lists and dicts";

/// Name of a refused instruction, and the reason; `None` for supported and unknown instructions.
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
        0x97 => ("NEXT_BUFFER", EXTERNAL_BYTES),
        0x98 => ("READONLY_BUFFER", EXTERNAL_BYTES),
        0x96 => ("BYTEARRAY8", SETS),
        0x8f => ("EMPTY_SET", SETS),
        0x90 => ("ADDITEMS", SETS),
        0x91 => ("FROZENSET", SETS),
        b'F' => ("FLOAT", OLD_PROTOCOL),
        b'I' => ("INT", OLD_PROTOCOL),
        b'L' => ("LONG", OLD_PROTOCOL),
        b'S' => ("STRING", OLD_PROTOCOL),
        b'V' => ("UNICODE", OLD_PROTOCOL),
        b'g' => ("GET", OLD_PROTOCOL),
        b'p' => ("PUT", OLD_PROTOCOL),
        _ => return None,
    })
}
