//! Check that the modules of a folder import each other in one direction, without circles.

use std::collections::{BTreeMap, BTreeSet};

use crate::words::rust::{Token, scan};

/// Folders without circles of imports. A module counts with all modules inside it. Imports between a folder's own file
/// (`lib.rs`, `mod.rs`) and its modules are not checked, but names that it re-exports count as imports of their module.
const FOLDERS: &[&str] = &[
    "crates/calls/src",
    "crates/calls/src/build",
    "crates/critical-path/src",
    "crates/critical-path/src/ctda",
    "crates/critical-path/src/exact",
    "crates/critical-path/src/exact/what_if",
    "crates/critical-path/src/hta",
    "crates/findings/src",
    "crates/findings/src/call_tree",
    "crates/findings/src/rules",
    "crates/findings/src/rules/padding",
    "crates/findings/src/rules/rebuilt_constants",
    "crates/findings/src/uncovered",
    "crates/query/src",
    "crates/query/src/queries",
    "crates/query/src/queries/memory",
    "crates/record/src",
    "crates/record/src/extension",
    "crates/record/src/samples",
    "crates/record/src/session",
    "crates/record/src/stream",
    "xtask/src",
    "xtask/src/words",
];

/// First words of items that end with `;` or a block. Fields end with a comma.
const ITEMS: &[&str] = &[
    "async", "const", "enum", "extern", "fn", "impl", "let", "mod", "static", "struct", "trait", "type", "unsafe",
    "use",
];

/// Imported modules by importing module, each with a file that has the import.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// Code of one file: words and signs.
struct Module {
    /// Path from the root of the crate.
    path: Vec<String>,
    file: String,
    code: Vec<String>,
}

/// Path to an item, and its name if a `use` declaration has the path.
struct ItemPath<'c> {
    parts: Vec<&'c str>,
    name: Option<&'c str>,
}

/// Report each registered folder whose modules import each other in a circle, or that has no modules.
pub(crate) fn check(text_of: impl Fn(&str) -> String, faults: &mut Vec<String>) {
    for folder in FOLDERS {
        match imports(folder, &text_of) {
            Some(imports) => faults.extend(circle_fault(folder, &imports)),
            None => faults.push(format!("xtask/src/directions.rs: {folder} has no modules; remove it from the list")),
        }
    }
}

/// Fault of a folder with a circle of imports, with the modules and files of the circle; `None` without a circle.
fn circle_fault(folder: &str, imports: &Imports) -> Option<String> {
    let circle = find_circle(imports)?;
    let next = circle.iter().cycle().skip(1);
    let files: Vec<&str> = circle.iter().zip(next).map(|(from, to)| imports[*from][*to].as_str()).collect();
    let path = circle.iter().chain(circle.first()).copied().collect::<Vec<&str>>().join(" -> ");
    let files = files.join(", ");
    Some(format!(
        "{folder}: modules import each other in a circle: {path} ({files}); move the shared items to a module below them"
    ))
}

/// Find modules that import each other in a circle, in the order of their imports.
fn find_circle(imports: &Imports) -> Option<Vec<&str>> {
    let mut visited = BTreeSet::new();
    imports.keys().find_map(|module| circle_from(module, imports, &mut Vec::new(), &mut visited))
}

/// Find a circle among the direct and indirect imports of a module. `trail` has the modules that lead to it.
fn circle_from<'i>(
    module: &'i str,
    imports: &'i Imports,
    trail: &mut Vec<&'i str>,
    visited: &mut BTreeSet<&'i str>,
) -> Option<Vec<&'i str>> {
    if let Some(at) = trail.iter().position(|known| *known == module) {
        return Some(trail[at..].to_vec());
    }
    if !visited.insert(module) {
        return None;
    }
    trail.push(module);
    let mut imported = imports.get(module).into_iter().flat_map(BTreeMap::keys);
    let circle = imported.find_map(|next| circle_from(next, imports, trail, visited));
    trail.pop();
    circle
}

/// Imports between the modules of a folder; `None` if it has no modules.
fn imports(folder: &str, text_of: &impl Fn(&str) -> String) -> Option<Imports> {
    let own_file = format!("{folder}.rs");
    let roots = ["lib.rs", "mod.rs", "main.rs"].map(|name| format!("{folder}/{name}"));
    let root = roots.iter().chain([&own_file]).map(|file| text_of(file)).find(|text| !text.is_empty())?;
    let root = code_of(&root);
    let names = declared_modules(&root);
    let own_path = module_path(folder);
    let reexports: BTreeMap<&str, &str> = paths(&root)
        .into_iter()
        .filter_map(|used| Some((used.name?, reexporting_module(&used.parts, &names, &own_path)?)))
        .collect();
    let mut imports = Imports::new();
    for name in &names {
        let mut modules = Vec::new();
        add_module(&format!("{folder}/{name}"), text_of, &mut modules);
        for module in &modules {
            for used in paths(&module.code) {
                let Some(inner) = path_below(&own_path, &absolute_path(&module.path, &used.parts)) else { continue };
                let target = names.iter().find(|known| **known == inner).or_else(|| reexports.get(inner.as_str()));
                if let Some(target) = target.filter(|target| *target != name) {
                    let of_module = imports.entry((*name).to_owned()).or_default();
                    of_module.entry((*target).to_owned()).or_insert_with(|| module.file.clone());
                }
            }
        }
    }
    (!names.is_empty()).then_some(imports)
}

/// Module of a folder from which the folder's own file imports an item by this path; `None` for other imports.
fn reexporting_module<'n>(path: &[&str], names: &[&'n str], own_path: &[String]) -> Option<&'n str> {
    let is_absolute = matches!(path.first(), Some(&("crate" | "self" | "super")));
    let first = match is_absolute {
        true => path_below(own_path, &absolute_path(own_path, path))?,
        false => (*path.first()?).to_owned(),
    };
    names.iter().copied().find(|name| path.len() > 1 && *name == first)
}

/// Read a module and the modules inside it. `base` is its file without the extension, or its folder.
fn add_module(base: &str, text_of: &impl Fn(&str) -> String, modules: &mut Vec<Module>) {
    let files = [format!("{base}.rs"), format!("{base}/mod.rs")];
    let Some((text, file)) = files.into_iter().map(|file| (text_of(&file), file)).find(|(text, _)| !text.is_empty())
    else {
        return;
    };
    let code = code_of(&text);
    for inner in declared_modules(&code) {
        add_module(&format!("{base}/{inner}"), text_of, modules);
    }
    modules.push(Module { path: module_path(base), file, code });
}

/// Path of a module from the root of its crate, by its file without the extension.
fn module_path(base: &str) -> Vec<String> {
    let inside = base.split_once("/src").map_or("", |(_, inside)| inside);
    inside.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Path from the root of the crate, for a path that begins with `crate`, `self` or `super`; empty for other paths.
fn absolute_path(module: &[String], path: &[&str]) -> Vec<String> {
    let mut absolute = match path.first() {
        Some(&("self" | "super")) => module.to_vec(),
        Some(&"crate") => Vec::new(),
        _ => return Vec::new(),
    };
    for part in path {
        match *part {
            "crate" | "self" => {}
            "super" => _ = absolute.pop(),
            name => absolute.push(name.to_owned()),
        }
    }
    absolute
}

/// First part of an absolute path below a folder's module; `None` if the path is not below it.
fn path_below(folder: &[String], path: &[String]) -> Option<String> {
    path.strip_prefix(folder)?.first().cloned()
}

/// Names of the modules that code declares in files of their own, without those of tests.
fn declared_modules(code: &[String]) -> Vec<&str> {
    let declarations = code.windows(3).filter(|parts| parts[0] == "mod" && parts[2] == ";");
    declarations.map(|parts| parts[1].as_str()).collect()
}

/// Paths in `use` declarations, and others that begin with `crate`, `self` or `super`.
fn paths(code: &[String]) -> Vec<ItemPath<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = code.get(at) {
        match word.as_str() {
            "use" => at = add_use_tree(code, at + 1, &[], &mut found),
            "crate" | "self" | "super" => {
                let mut parts = vec![word.as_str()];
                at += 1;
                while code[at..].len() > 2 && code[at] == ":" && code[at + 1] == ":" {
                    parts.push(code[at + 2].as_str());
                    at += 3;
                }
                found.push(ItemPath { parts, name: None });
            }
            _ => at += 1,
        }
    }
    found
}

/// Add the paths of a `use` tree that begins at a position, and return the position after it. `prefix` is the path
/// before the tree.
fn add_use_tree<'c>(code: &'c [String], mut at: usize, prefix: &[&'c str], found: &mut Vec<ItemPath<'c>>) -> usize {
    let mut parts = prefix.to_vec();
    let mut alias = None;
    while let Some(part) = code.get(at) {
        match part.as_str() {
            "," | "}" | ";" => break,
            "{" => {
                at += 1;
                while code.get(at).is_some_and(|part| part != "}" && part != ";") {
                    at = add_use_tree(code, at, &parts, found);
                    at += usize::from(code.get(at).is_some_and(|part| part == ","));
                }
                return at + 1;
            }
            "as" => {
                alias = code.get(at + 1).map(String::as_str);
                at += 2;
            }
            ":" => at += 1,
            part => {
                parts.push(part);
                at += 1;
            }
        }
    }
    // `a::{self}` imports `a`.
    if parts.len() > 1 && parts.last() == Some(&"self") {
        parts.pop();
    }
    if let Some(name) = alias.or(parts.last().copied()) {
        found.push(ItemPath { parts, name: Some(name) });
    }
    at
}

/// Words and signs of a Rust source, without comments, literals and tests.
fn code_of(source: &str) -> Vec<String> {
    let mut code = Vec::new();
    scan(source, |_, token| match token {
        Token::Word(word) => code.push(word.to_owned()),
        Token::Sign(sign) => code.push(sign.to_string()),
        Token::Literal(_) | Token::Comment(_) => {}
    });
    without_tests(&code)
}

/// Remove all items and fields with an attribute such as `#[cfg(test)]` from code.
fn without_tests(code: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(code.len());
    let mut at = 0;
    while at < code.len() {
        let end = attribute_end(code, at).unwrap_or(at + 1);
        let words = &code[at..end];
        let has = |word: &str| words.iter().any(|part| part == word);
        if has("cfg") && has("test") && !has("not") {
            at = item_end(code, end);
        } else {
            kept.extend_from_slice(words);
            at = end;
        }
    }
    kept
}

/// Position after the attribute that begins at a position; `None` if none begins there.
fn attribute_end(code: &[String], at: usize) -> Option<usize> {
    let is_attribute = matches!(code.get(at..at + 2), Some([hash, bracket]) if hash == "#" && bracket == "[");
    is_attribute.then(|| tree_end(code, at + 1))
}

/// Position after the bracket that opens at a position and all that it encloses, or after any other word or sign.
fn tree_end(code: &[String], at: usize) -> usize {
    let mut depth = 0_usize;
    for (end, part) in code.iter().enumerate().skip(at) {
        match part.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return end + 1;
        }
    }
    code.len()
}

/// Position after the item or field that begins at a position, with its other attributes.
fn item_end(code: &[String], mut at: usize) -> usize {
    while let Some(end) = attribute_end(code, at) {
        at = end;
    }
    let is = |at: usize, word: &str| code.get(at).is_some_and(|part| part == word);
    if is(at, "pub") {
        at += 1;
        at = if is(at, "(") { tree_end(code, at) } else { at };
    }
    let is_item = code.get(at).is_some_and(|word| ITEMS.contains(&word.as_str()));
    while let Some(part) = code.get(at) {
        match part.as_str() {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "{" if is_item => return tree_end(code, at),
            ")" | "]" | "}" => return at,
            _ => at = tree_end(code, at),
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault of the folder `a/src` with these files; `None` without a circle.
    fn fault(files: &[(&str, &str)]) -> Option<String> {
        let text_of = |path: &str| {
            let file = files.iter().find(|(name, _)| path.strip_prefix("a/src/") == Some(*name));
            file.map(|(_, text)| (*text).to_owned()).unwrap_or_default()
        };
        circle_fault("a/src", &imports("a/src", &text_of).expect("a folder with modules"))
    }

    #[test]
    fn circles_are_reported_with_their_modules_and_files() {
        let found = fault(&[
            ("lib.rs", "mod w;\nmod x;\npub mod y;\nmod z;\n"),
            ("w.rs", "use crate::x::X;\n"),
            ("x.rs", "use crate::y::Y;\n"),
            ("y.rs", "use std::fmt;\nuse super::{w2::W, z::{self, Z}};\n"),
            ("z.rs", "fn f() { crate::x::g::<u8>() }\n"),
        ]);
        let expected = "a/src: modules import each other in a circle: x -> y -> z -> x \
                        (a/src/x.rs, a/src/y.rs, a/src/z.rs); move the shared items to a module below them";
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[test]
    fn names_that_the_folder_reexports_belong_to_their_module() {
        let x = ("x.rs", "use super::y::f;\n");
        let y = ("y.rs", "use crate::{Alias, b::C};\n");
        assert!(fault(&[("lib.rs", "mod x;\nmod y;\npub use self::x::{A, X as Alias};\n"), x, y]).is_some());
        assert!(fault(&[("lib.rs", "mod x;\nmod y;\nuse x::X as Alias;\n"), x, y]).is_some());
        assert!(fault(&[("lib.rs", "mod x;\nmod y;\nstruct Alias;\n"), x, y]).is_none());
    }

    #[test]
    fn modules_count_with_those_inside_them() {
        let root = ("lib.rs", "mod x;\nmod y;\npub struct Shared;\n");
        let x = ("x/mod.rs", "mod inner;\nstruct Own;\n");
        let inner = |text: &'static str| ("x/inner.rs", text);
        let y = ("y.rs", "use crate::x;\nuse crate::Shared;\n");
        assert!(fault(&[root, x, inner("use super::super::y::Y;\n"), y]).is_some());
        assert!(fault(&[root, x, inner("use super::Own;\nuse super::super::Shared;\n"), y]).is_none());
    }

    #[test]
    fn tests_comments_and_literals_are_no_imports() {
        let y = "//! [`crate::x`]\n\
            #[cfg(test)]\nuse crate::x::X;\n\
            struct Q {\n#[cfg(test)]\n#[serde(skip)]\npub(crate) a: crate::x::A,\nb: u8,\n#[cfg(test)]\nc: crate::x::A }\n\
            const A: &str = \"crate::x::X\"; /* super::x::X */\n\
            #[cfg(test)]\npub(super) mod tests { use crate::x::X; const C: char = '}'; const D: char = '{'; fn f() { crate::x::f() } }\n";
        let x = ("x.rs", "use crate::y::Y;\n#[cfg_attr(test, derive(A))]\nstruct X;\n");
        assert!(fault(&[("lib.rs", "mod x;\nmod y;\n"), x, ("y.rs", y)]).is_none());
        let with_import = format!("{y}use crate::x::X;\n");
        assert!(fault(&[("lib.rs", "mod x;\nmod y;\n"), x, ("y.rs", with_import.as_str())]).is_some());
        let of_tests = fault(&[("lib.rs", "mod x;\n#[cfg(test)]\nmod y;\n"), x, ("y.rs", "use crate::x::X;\n")]);
        assert!(of_tests.is_none());
    }

    #[test]
    fn folders_without_modules_are_reported() {
        let mut faults = Vec::new();
        check(|_| String::new(), &mut faults);
        assert_eq!(faults.len(), FOLDERS.len());
        assert!(faults[0].contains("no modules"));
    }
}
