//! Valid JSON in any spelling gives the same result as serde_json.

use crate::oracle;
use proptest::collection::vec;
use proptest::prelude::*;
use stackline_ingest::{ReadOptions, read_bytes};

/// JSON whose numbers keep their spelling.
#[derive(Clone, Debug)]
enum Json {
    /// `null`, `true`, `false` or a number, with its spelling.
    Plain(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i32>().prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        (any::<i32>(), 0u32..100_000).prop_map(|(a, b)| format!("{a}.{b}")),
        (-999i32..999, 0u32..99, any::<bool>(), -30i32..30)
            .prop_map(|(a, b, upper, e)| format!("{a}.{b}{}{e:+}", if upper { 'E' } else { 'e' })),
        (1u64..u64::MAX).prop_map(|n| format!("{n}{n}")),
        Just("-0".to_owned()),
        Just("0.0".to_owned()),
    ]
}

/// A time in any spelling, within the valid range.
fn time() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u64..2_000_000_000_000_000, 0u32..1000).prop_map(|(us, ns)| format!("{us}.{ns:03}")),
        (0u64..2_000_000_000_000_000).prop_map(|us| us.to_string()),
        (-5000i64..5000, 0u32..100_000).prop_map(|(us, f)| format!("{us}.{f}")),
        (1u32..9999, -6i32..6).prop_map(|(m, e)| format!("{m}e{e}")),
        (1u32..9999, 0u32..99999, 0i32..6).prop_map(|(m, f, e)| format!("{m}.{f}E+{e}")),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,12}", any::<String>(), "[\\\\\"/{}\\[\\],: \n\tx]{0,10}"]
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        number().prop_map(Json::Plain),
        text().prop_map(Json::Text),
        prop::sample::select(vec!["null", "true", "false"]).prop_map(|w| Json::Plain(w.to_owned())),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Json::List), vec((text(), inner), 0..4).prop_map(Json::Object),]
    })
}

/// Pairs with distinct keys: duplicate keys are subject of another test.
fn members(max: usize) -> impl Strategy<Value = Vec<(String, Json)>> {
    vec((text(), value()), 0..max).prop_map(distinct)
}

fn distinct(mut members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let mut met = std::collections::BTreeSet::new();
    members.retain(|(key, _)| met.insert(key.clone()));
    members
}

fn record() -> impl Strategy<Value = Json> {
    let phase = prop::sample::select(vec!["X", "X", "X", "i", "I", "C", "B", "E", "b", "e", "s", "f", "M"]);
    let category = prop_oneof![
        prop::sample::select(vec!["cpu_op", "kernel", "cuda_runtime", "python_function", "Trace", "gpu_memcpy"])
            .prop_map(str::to_owned),
        text(),
    ];
    let key = prop_oneof![number().prop_map(Json::Plain), text().prop_map(Json::Text)];
    let own = (phase, text(), category, key.clone(), key, time(), time());
    (own, members(5), members(3), any::<u64>()).prop_map(|((ph, name, cat, pid, tid, ts, dur), args, others, order)| {
        let text = |t: &str| Json::Text(t.to_owned());
        let mut all = vec![
            ("ph".to_owned(), text(ph)),
            ("name".to_owned(), text(&name)),
            ("cat".to_owned(), text(&cat)),
            ("pid".to_owned(), pid),
            ("tid".to_owned(), tid),
            ("ts".to_owned(), Json::Plain(ts)),
            ("dur".to_owned(), Json::Plain(dur)),
            ("args".to_owned(), Json::Object(args)),
        ];
        const OWN: &[&str] = &["ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "id", "id2", "sf"];
        all.extend(others.into_iter().filter(|(key, _)| !OWN.contains(&key.as_str())));
        let choice_index = (order % all.len() as u64) as usize;
        all.rotate_left(choice_index);
        if order & 1024 != 0 {
            all.reverse();
        }
        Json::Object(all)
    })
}

fn document() -> impl Strategy<Value = Json> {
    (vec(record(), 1..6), members(3), members(3), any::<bool>()).prop_map(|(records, before, after, object)| {
        if !object {
            return Json::List(records);
        }
        let mut all = before;
        all.retain(|(key, _)| key != "traceEvents");
        all.push(("traceEvents".to_owned(), Json::List(records)));
        all.extend(after);
        Json::Object(distinct(all))
    })
}

/// Writes JSON with spacing and escapes chosen by a run of bytes.
struct Writer<'a> {
    out: String,
    choices: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Writer<'_> {
    fn choice(&mut self) -> u8 {
        self.choices.next().copied().unwrap_or(0)
    }

    fn space(&mut self) {
        const SPACES: &[&str] = &["", "", "", " ", "\n", "\r\n", "\t", "  \n\t "];
        let choice = usize::from(self.choice()) % SPACES.len();
        self.out.push_str(SPACES[choice]);
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            let must = matches!(c, '"' | '\\') || (c as u32) < 0x20;
            let style = self.choice() % 8;
            let short = match c {
                '"' => Some("\\\""),
                '\\' => Some("\\\\"),
                '/' => Some("\\/"),
                '\n' => Some("\\n"),
                '\t' => Some("\\t"),
                '\r' => Some("\\r"),
                '\u{8}' => Some("\\b"),
                '\u{c}' => Some("\\f"),
                _ => None,
            };
            match short {
                _ if !must && style < 6 => self.out.push(c),
                Some(short) if style < 7 => self.out.push_str(short),
                _ => {
                    let mut units = [0u16; 2];
                    for unit in c.encode_utf16(&mut units) {
                        let hex = if style == 6 { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
                        self.out.push_str(&hex);
                    }
                }
            }
        }
        self.out.push('"');
    }

    fn value(&mut self, json: &Json) {
        self.space();
        match json {
            Json::Plain(text) => self.out.push_str(text),
            Json::Text(text) => self.text(text),
            Json::List(items) => {
                self.out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    self.value(item);
                }
                self.space();
                self.out.push(']');
            }
            Json::Object(members) => {
                self.out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    self.space();
                    self.text(key);
                    self.space();
                    self.out.push(':');
                    self.value(value);
                }
                self.space();
                self.out.push('}');
            }
        }
        self.space();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn valid_documents_in_any_spelling(document in document(), choices in vec(any::<u8>(), 1..64)) {
        let mut writer = Writer { out: String::new(), choices: choices.iter().cycle() };
        writer.value(&document);
        let text = writer.out;
        let (records, others) = oracle::parse(text.as_bytes()).expect("valid JSON");
        let options = ReadOptions { threads: 1, ..ReadOptions::default() };
        let trace = read_bytes("random", text.as_bytes(), &options).map_err(|e| TestCaseError::fail(e.to_string()))?;
        if let Err(difference) = oracle::compare(&trace, &records, &others) {
            return Err(TestCaseError::fail(format!("{difference}\n{text}")));
        }
        crate::invariants::check(&trace).map_err(TestCaseError::fail)?;
    }
}
