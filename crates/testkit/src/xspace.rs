//! Writer of XSpace files, the format of `jax.profiler` and TensorFlow: planes, lines, events and their arguments, by
//! the field numbers of `xplane.proto`, and XLA programs by those of `hlo.proto`.
//!
//! ```
//! use stackline_testkit::xspace::{Event, Line, Plane, space};
//! let line = Line::new(7, "python", 0).with(Event::new("work", 1_000, 2_000));
//! assert!(!space(&[Plane::new(0, "/host:CPU").with(line)], &["host"]).is_empty());
//! ```

/// Value of an argument of an event or a plane.
#[derive(Clone, Debug, PartialEq)]
pub enum Stat {
    /// `int64_value`.
    Int(i64),
    /// `uint64_value`.
    Uint(u64),
    /// `double_value`.
    Float(f64),
    /// `str_value`.
    Text(String),
    /// `ref_value`: the text is stored among the plane's names.
    Name(String),
    /// `bytes_value`.
    Bytes(Vec<u8>),
}

/// An event of an XSpace file; times in ps, the start relative to its line.
#[derive(Clone, Debug)]
pub struct Event {
    name: String,
    offset_ps: i64,
    duration_ps: i64,
    stats: Vec<(String, Stat)>,
}

impl Event {
    /// Create an event of an XSpace file without arguments.
    pub fn new(name: &str, offset_ps: i64, duration_ps: i64) -> Self {
        Self { name: name.to_owned(), offset_ps, duration_ps, stats: Vec::new() }
    }

    /// Add an argument to an event of an XSpace file.
    #[must_use]
    pub fn stat(mut self, name: &str, value: Stat) -> Self {
        self.stats.push((name.to_owned(), value));
        self
    }
}

/// A line of an XSpace file: the events of a thread or a stream.
#[derive(Clone, Debug)]
pub struct Line {
    id: i64,
    name: String,
    began_ns: i64,
    events: Vec<Event>,
}

impl Line {
    /// Create a line (thread or stream) of an XSpace file without events, which begins at this time, ns.
    pub fn new(id: i64, name: &str, began_ns: i64) -> Self {
        Self { id, name: name.to_owned(), began_ns, events: Vec::new() }
    }

    /// Add an event to a line of an XSpace file.
    #[must_use]
    pub fn with(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }
}

/// Short name and arguments that all events of one name have.
#[derive(Clone, Debug)]
struct Kind {
    name: String,
    display_name: String,
    stats: Vec<(String, Stat)>,
}

/// A plane of an XSpace file: the lines of a host or a device, or metadata of programs.
#[derive(Clone, Debug)]
pub struct Plane {
    id: i64,
    name: String,
    lines: Vec<Line>,
    kinds: Vec<Kind>,
    stats: Vec<(String, Stat)>,
}

impl Plane {
    /// Create a plane (host or device) of an XSpace file without lines.
    pub fn new(id: i64, name: &str) -> Self {
        Self { id, name: name.to_owned(), lines: Vec::new(), kinds: Vec::new(), stats: Vec::new() }
    }

    /// Add a line to a plane of an XSpace file.
    #[must_use]
    pub fn with(mut self, line: Line) -> Self {
        self.lines.push(line);
        self
    }

    /// Add an argument to a plane of an XSpace file.
    #[must_use]
    pub fn stat(mut self, name: &str, value: Stat) -> Self {
        self.stats.push((name.to_owned(), value));
        self
    }

    /// Set a short name and arguments for all events of a name; an empty short name is ignored.
    #[must_use]
    pub fn kind(mut self, name: &str, display_name: &str, stats: &[(&str, Stat)]) -> Self {
        let stats = stats.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.kinds.push(Kind { name: name.to_owned(), display_name: display_name.to_owned(), stats });
        self
    }
}

/// An instruction of an XLA program: name, opcode, the operator that it came from (may be empty), and its source
/// line.
#[derive(Clone, Copy, Debug)]
pub struct Instruction<'a> {
    /// Name in the program.
    pub name: &'a str,
    /// Operation: `add`, `fusion`.
    pub opcode: &'a str,
    /// `jit(step)/add`; empty for none.
    pub operator: &'a str,
    /// File and line.
    pub line: (&'a str, u64),
}

/// Serialize an XLA program (`HloProto`) of one computation, with a source line for each instruction, as in files of
/// JAX before 0.8.
pub fn program(name: &str, instructions: &[Instruction<'_>]) -> Vec<u8> {
    let mut computation = bytes(1, b"main");
    for instruction in instructions {
        let origin = [
            bytes(2, instruction.operator.as_bytes()),
            bytes(3, instruction.line.0.as_bytes()),
            number(4, instruction.line.1),
        ];
        let mut message = [bytes(1, instruction.name.as_bytes()), bytes(2, instruction.opcode.as_bytes())].concat();
        if !instruction.operator.is_empty() {
            message.extend(bytes(7, &origin.concat()));
        }
        computation.extend(bytes(2, &message));
    }
    computation.extend(number(5, 1));
    bytes(1, &[bytes(1, name.as_bytes()), bytes(3, &computation)].concat())
}

/// Serialize planes and host names as an XSpace file.
pub fn space(planes: &[Plane], hosts: &[&str]) -> Vec<u8> {
    let planes = planes.iter().map(|plane| bytes(1, &encode_plane(plane)));
    planes.chain(hosts.iter().map(|host| bytes(4, host.as_bytes()))).collect::<Vec<_>>().concat()
}

/// List of distinct texts, each with a number, counted from 1.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    /// Number of a text in the list; a new text is added.
    fn number(&mut self, name: &str) -> u64 {
        let at = self.0.iter().position(|own| own == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        at as u64 + 1
    }

    fn stat(&mut self, (name, value): &(String, Stat)) -> Vec<u8> {
        let mut message = number(1, self.number(name));
        message.extend(match value {
            Stat::Float(value) => [&[0x11][..], &value.to_le_bytes()].concat(),
            Stat::Uint(value) => number(3, *value),
            Stat::Int(value) => number(4, value.cast_unsigned()),
            Stat::Text(text) => bytes(5, text.as_bytes()),
            Stat::Bytes(value) => bytes(6, value),
            Stat::Name(text) => number(7, self.number(text)),
        });
        message
    }

    fn stats(&mut self, field: u64, stats: &[(String, Stat)]) -> Vec<u8> {
        stats.iter().map(|stat| bytes(field, &self.stat(stat))).collect::<Vec<_>>().concat()
    }
}

/// Serialize a plane in protobuf's order of fields: names follow the records that refer to them.
fn encode_plane(plane: &Plane) -> Vec<u8> {
    let (mut names, mut kinds) = (Names::default(), Names::default());
    let mut lines = Vec::new();
    for line in &plane.lines {
        let mut message = [
            number(1, line.id.cast_unsigned()),
            bytes(2, line.name.as_bytes()),
            number(3, line.began_ns.cast_unsigned()),
        ]
        .concat();
        for event in &line.events {
            let mut own = number(1, kinds.number(&event.name));
            own.extend(number(2, event.offset_ps.cast_unsigned()));
            own.extend(number(3, event.duration_ps.cast_unsigned()));
            own.extend(names.stats(4, &event.stats));
            message.extend(bytes(4, &own));
        }
        lines.extend(bytes(3, &message));
    }
    for kind in &plane.kinds {
        kinds.number(&kind.name);
    }
    let mut table = Vec::new();
    for (at, name) in (1..).zip(&kinds.0) {
        let mut message = [number(1, at), bytes(2, name.as_bytes())].concat();
        if let Some(kind) = plane.kinds.iter().find(|kind| kind.name == *name) {
            if !kind.display_name.is_empty() {
                message.extend(bytes(4, kind.display_name.as_bytes()));
            }
            message.extend(names.stats(5, &kind.stats));
        }
        table.extend(bytes(4, &[number(1, at), bytes(2, &message)].concat()));
    }
    let own = names.stats(6, &plane.stats);
    let mut texts = Vec::new();
    for (at, name) in (1..).zip(&names.0) {
        let message = [number(1, at), bytes(2, name.as_bytes())].concat();
        texts.extend(bytes(5, &[number(1, at), bytes(2, &message)].concat()));
    }
    let id = if plane.id == 0 { Vec::new() } else { number(1, plane.id.cast_unsigned()) };
    [id, bytes(2, plane.name.as_bytes()), lines, table, texts, own].concat()
}

/// Encode a protobuf varint.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Encode a protobuf field that is an integer.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// Encode a protobuf field that has a length: bytes, a text or a message.
fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}
