//! Reading TraceLens' reference tables: CSV whose cells may hold Python literals.

pub(crate) mod compare;

use serde_json::Value;
use std::path::Path;

/// A reference table.
pub(crate) struct Csv {
    header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Csv {
    /// Reads a file; `None` if there is none. A file with an empty line only is a table without rows.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut rows = records(&text);
        let header = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
        rows.retain(|r| r.len() == header.len());
        Some(Self { header, rows })
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.header.iter().any(|h| h == column)
    }

    pub(crate) fn get(&self, row: usize, column: &str) -> &str {
        let at = self.header.iter().position(|h| h == column).unwrap_or_else(|| panic!("no column {column}"));
        &self.rows[row][at]
    }
}

fn records(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let row = rows.last_mut().unwrap();
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                row.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            '\r' if !quoted => {}
            c => row.last_mut().unwrap().push(c),
        }
    }
    if rows.last().is_some_and(|r| r.len() == 1 && r[0].is_empty()) {
        rows.pop();
    }
    rows
}

/// Parses a Python literal into JSON: tuples and lists are arrays, `np.float64(x)` is `x`.
pub(crate) fn python(text: &str) -> Value {
    let mut parser = Python { rest: text };
    let value = parser.value();
    assert!(parser.rest.trim().is_empty(), "left over of {text:?}: {:?}", parser.rest);
    value
}

struct Python<'a> {
    rest: &'a str,
}

impl Python<'_> {
    fn eat(&mut self, prefix: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Value {
        for (open, close) in [("(", ")"), ("[", "]")] {
            if self.eat(open) {
                return self.items(close, Self::value).into();
            }
        }
        if self.eat("{") {
            let pairs = self.items("}", |p| {
                let key = p.value();
                assert!(p.eat(":"));
                (key.as_str().unwrap().to_owned(), p.value())
            });
            return Value::Object(pairs.into_iter().collect());
        }
        if self.eat("np.float64(") {
            let value = self.value();
            assert!(self.eat(")"));
            return value;
        }
        for (word, value) in [("None", Value::Null), ("True", true.into()), ("False", false.into())] {
            if self.eat(word) {
                return value;
            }
        }
        for quote in ['\'', '"'] {
            if self.eat(&quote.to_string()) {
                return self.string(quote).into();
            }
        }
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "+-.".contains(c))).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        number
            .parse::<i64>()
            .map(Value::from)
            .unwrap_or_else(|_| number.parse::<f64>().unwrap_or_else(|_| panic!("no number: {number}")).into())
    }

    fn items<T>(&mut self, close: &str, item: fn(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self));
            self.eat(",");
        }
        items
    }

    fn string(&mut self, quote: char) -> String {
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next().unwrap().1 {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    c => out.push(c),
                },
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return out;
                }
                c => out.push(c),
            }
        }
        panic!("open string: {out}");
    }
}

#[test]
fn python_literals() {
    let value = python("[{'a': np.float64(1.5), 'b': ((512,), ()), 'c': \"it's\", 'd': None, 'e': -2}]");
    assert_eq!(value, serde_json::json!([{"a": 1.5, "b": [[512], []], "c": "it's", "d": null, "e": -2}]));
}
