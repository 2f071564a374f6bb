//! Check that relative links in Markdown lead to files and headings, and that the index links every page of `docs/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The page that lists all others.
const INDEX: &str = "docs/README.md";

/// A relative link: `[text](path#anchor)`; `path` is empty for a heading of the same page.
#[derive(Debug, PartialEq)]
struct Link {
    path: String,
    anchor: Option<String>,
}

/// Report each broken link, each anchor without a heading, and each page that the index does not link to.
pub(crate) fn check(paths: &[String], text_of: impl Fn(&str) -> String, faults: &mut Vec<String>) {
    let pages: BTreeMap<&str, String> =
        paths.iter().filter(|path| path.ends_with(".md")).map(|path| (path.as_str(), text_of(path))).collect();
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages.iter().map(|(&page, text)| (page, anchors(text))).collect();
    let mut indexed = Vec::new();
    for (&page, text) in &pages {
        for Link { path, anchor } in links(text) {
            let resolved = if path.is_empty() { page.to_owned() } else { resolve(page, &path) };
            let folder = format!("{resolved}/");
            if !paths.iter().any(|known| *known == resolved || known.starts_with(&folder)) {
                faults.push(format!("{page}: the link to {path} leads nowhere"));
            } else if let Some(anchor) = anchor
                && anchors.get(resolved.as_str()).is_some_and(|known| !known.contains(&anchor))
            {
                faults.push(format!("{page}: the link to {path}#{anchor}: {resolved} has no such heading"));
            }
            if page == INDEX {
                indexed.push(resolved);
            }
        }
    }
    for page in pages.keys().filter(|page| page.starts_with("docs/") && **page != INDEX) {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !indexed.iter().any(|target| target == page || (target == folder && folder != "docs")) {
            faults.push(format!("{page}: {INDEX} does not link to it (nor to its folder)"));
        }
    }
}

/// Lines of a Markdown page outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Relative links of a Markdown page outside of code, in order. Web addresses are left out.
fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for line in prose(text) {
        for part in line.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") || target.contains('`') {
                continue;
            }
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target, None),
            };
            found.push(Link { path: path.to_owned(), anchor });
        }
    }
    found
}

/// Anchors of a page's headings, as GitHub and mdBook make them: a repeated heading gets `-1`, `-2`, …
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in prose(text) {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let slug = slug(title.trim());
        let count = counts.entry(slug.clone()).or_default();
        found.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    found
}

/// Anchor of a heading: its text in lower case, with dashes for spaces, and without markup and punctuation.
fn slug(title: &str) -> String {
    let mut text = String::new();
    let mut rest = title;
    // `[text](target)` counts as its text.
    while let Some((before, link)) = rest.split_once("](") {
        text.push_str(before);
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text.chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .flat_map(char::to_lowercase)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// Path from the root to the target of a relative link on a page.
fn resolve(page: &str, target: &str) -> String {
    let mut path: PathBuf = Path::new(page).parent().map_or_else(PathBuf::new, PathBuf::from);
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(texts: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = texts.iter().map(|(path, _)| (*path).to_owned()).collect();
        let text_of =
            |page: &str| texts.iter().find(|(path, _)| *path == page).map_or("", |(_, text)| *text).to_owned();
        let mut faults = Vec::new();
        check(&paths, text_of, &mut faults);
        faults
    }

    #[test]
    fn broken_links_and_pages_missing_in_the_index() {
        let index = "[a](a) [top](../README.md#set-up) [web](https://example.org/x)\n```text\n[no](no)\n```\n";
        let faults = faults(&[
            ("README.md", "# Set up\n![gone](docs/img/gone.svg)"),
            ("docs/README.md", index),
            ("docs/a/x.md", ""),
            ("docs/y.md", ""),
        ]);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("docs/img/gone.svg") && faults[1].starts_with("docs/y.md"));
    }

    #[test]
    fn anchors_without_a_heading() {
        let page = "# Long names, `code` & [links](x.md)\n\n## Twice\n\n## Twice\n\n```sh\n# No heading\n```\n";
        let links = "[1](x.md#long-names-code--links) [2](x.md#twice) [3](x.md#twice-1) [4](#own) [5](x.md#twice-2)\n\
                     [6](#other) [7](x.md#no-heading) [8](../c.rs#L3)\n# Own\n";
        let faults = faults(&[("c.rs", ""), ("docs/README.md", links), ("docs/x.md", page)]);
        let broken: Vec<_> = faults.iter().filter(|fault| fault.contains("no such heading")).collect();
        assert_eq!(broken.len(), 3, "{faults:?}");
        assert!(
            broken[0].contains("x.md#twice-2") && broken[1].contains("#other") && broken[2].contains("#no-heading")
        );
    }
}
