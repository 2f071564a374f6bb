//! Check of the licenses of all dependencies against the list in `deny.toml`, without `cargo deny`.
//!
//! `cargo deny` does this and more, but takes minutes to build; `./dev test` uses it where it is installed. This check
//! reads the same file and needs nothing but `cargo metadata`, so it runs everywhere.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use crate::files;

/// Check all dependencies against `deny.toml`; fail if a license is not allowed, a crate is banned, or a source is a
/// git repository.
pub(crate) fn run() -> Result<()> {
    let deny = std::fs::read_to_string(files::root().join("deny.toml")).context("deny.toml")?;
    let allowed = toml_strings(&deny, "licenses", "allow").context("deny.toml: no `allow` under [licenses]")?;
    let banned = toml_strings(&deny, "bans", "deny").unwrap_or_default();
    let metadata = files::cargo_metadata(&["--locked"])?;
    let (mut faults, mut seen, mut count) = (Vec::new(), BTreeSet::new(), 0);
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let (name, version) = (package["name"].as_str().unwrap_or("?"), package["version"].as_str().unwrap_or("?"));
        count += 1;
        if banned.iter().any(|ban| ban == name) {
            faults.push(format!("{name} {version}: banned in deny.toml"));
        }
        match package["license"].as_str() {
            None => faults.push(format!("{name} {version}: no license expression")),
            Some(expression) if is_met(expression, &allowed, &mut seen) => {}
            Some(expression) => faults.push(format!("{name} {version}: {expression} is not allowed by deny.toml")),
        }
        let source = package["source"].as_str().unwrap_or("");
        if source.starts_with("git+") {
            faults.push(format!("{name} {version}: comes from a git repository"));
        }
    }
    for fault in &faults {
        println!("{fault}");
    }
    for unused in allowed.iter().filter(|license| !seen.contains(*license)) {
        println!("note: {unused} is allowed in deny.toml but no dependency needs it");
    }
    println!("licenses: {count} packages, {} faults", faults.len());
    if faults.is_empty() { Ok(()) } else { bail!("{} faults", faults.len()) }
}

/// Strings of array `key` in table `table` of a TOML file with one item per line, or all on one line.
fn toml_strings(toml: &str, table: &str, key: &str) -> Option<Vec<String>> {
    let after = toml.split_once(&format!("\n[{table}]"))?.1;
    let section = after.split_once("\n[").map_or(after, |(section, _)| section);
    let array = section.split_once(&format!("\n{key} = ["))?.1.split_once(']')?.0;
    let uncommented = array.lines().map(|line| line.split('#').next().unwrap_or(""));
    Some(uncommented.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned).collect())
}

/// True if the licenses in `allowed` satisfy an SPDX expression (`OR`, `AND`, parentheses, `WITH`, the old `/`).
/// Licenses that it uses are added to `seen`.
fn is_met(expression: &str, allowed: &[String], seen: &mut BTreeSet<String>) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    let ok = any_of(&words, &mut at, allowed, seen);
    ok && at == words.len()
}

/// Evaluate the terms of `OR` from word `at` on.
fn any_of(words: &[&str], at: &mut usize, allowed: &[String], seen: &mut BTreeSet<String>) -> bool {
    let mut ok = all_of(words, at, allowed, seen);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        ok |= all_of(words, at, allowed, seen);
    }
    ok
}

/// Evaluate the terms of `AND` from word `at` on.
fn all_of(words: &[&str], at: &mut usize, allowed: &[String], seen: &mut BTreeSet<String>) -> bool {
    let mut ok = one(words, at, allowed, seen);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        ok &= one(words, at, allowed, seen);
    }
    ok
}

/// Evaluate one license or an expression in parentheses.
fn one(words: &[&str], at: &mut usize, allowed: &[String], seen: &mut BTreeSet<String>) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let ok = any_of(words, at, allowed, seen);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return ok && closed;
    }
    let mut license = word.to_owned();
    if words.get(*at) == Some(&"WITH") {
        license = format!("{word} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    let ok = allowed.contains(&license);
    if ok {
        seen.insert(license);
    }
    ok
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_valid(expression: &str) -> bool {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        is_met(expression, &allowed, &mut BTreeSet::new())
    }

    #[test]
    fn expressions() {
        assert!(is_valid("MIT OR GPL-3.0"));
        assert!(is_valid("GPL-3.0/MIT"));
        assert!(is_valid("(MIT OR GPL-3.0) AND Apache-2.0"));
        assert!(is_valid("Apache-2.0 WITH LLVM-exception OR BSL-1.0"));
        assert!(!is_valid("MIT AND GPL-3.0"));
        assert!(!is_valid("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!is_valid("GPL-3.0-only WITH LLVM-exception"));
        assert!(!is_valid("MIT )"));
        assert!(!is_valid(""));
    }

    #[test]
    fn toml_lists() {
        let toml = "# x\n[bans]\nx = 1\n[licenses]\nconfidence = 0.9\nallow = [\n  \"MIT\", # \"not this\"\n  \"Zlib\",\n]\n[other]\n";
        assert_eq!(toml_strings(toml, "licenses", "allow").unwrap(), ["MIT", "Zlib"]);
        assert_eq!(toml_strings(toml, "bans", "allow"), None);
    }
}
