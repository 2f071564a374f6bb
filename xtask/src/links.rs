//! Relative links in Markdown pages lead to files, and every page under `docs/` is reachable from its index.

use std::path::{Component, Path, PathBuf};

/// The page that lists all others.
const INDEX: &str = "docs/README.md";

/// One line per link that leads nowhere and per page that nothing leads to.
pub(crate) fn check(paths: &[String], text_of: impl Fn(&str) -> String, faults: &mut Vec<String>) {
    let mut reached = Vec::new();
    for page in paths.iter().filter(|path| path.ends_with(".md")) {
        for target in links(&text_of(page)) {
            let resolved = resolve(page, &target);
            let folder = format!("{resolved}/");
            if !paths.iter().any(|path| *path == resolved || path.starts_with(&folder)) {
                faults.push(format!("{page}: the link to {target} leads nowhere"));
            }
            if page == INDEX {
                reached.push(resolved);
            }
        }
    }
    for page in paths.iter().filter(|path| path.starts_with("docs/") && path.ends_with(".md") && *path != INDEX) {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !reached.iter().any(|target| target == page || (target == folder && folder != "docs")) {
            faults.push(format!("{page}: {INDEX} does not link to it (nor to its folder)"));
        }
    }
}

/// Targets of `[text](target)` outside code blocks, without anchors and web addresses.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        for part in line.split("](").skip(1).filter(|_| !code) {
            let target = part.split([')', '#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") && !target.contains('`')
            {
                found.push(target.to_owned());
            }
        }
    }
    found
}

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

    #[test]
    fn broken_links_and_lonely_pages() {
        let paths = ["docs/README.md", "docs/a/x.md", "docs/y.md", "README.md"].map(str::to_owned);
        let text = |page: &str| {
            match page {
                "docs/README.md" => {
                    "[a](a) [top](../README.md#set-up) [web](https://example.org/x)\n```text\n[no](no)\n```\n"
                }
                "README.md" => "![gone](docs/img/gone.svg)",
                _ => "",
            }
            .to_owned()
        };
        let mut faults = Vec::new();
        check(&paths, text, &mut faults);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("docs/img/gone.svg") && faults[1].starts_with("docs/y.md"));
    }
}
