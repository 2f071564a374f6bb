//! Tests of the texts.

use super::{METHODOLOGY, told};
use crate::rules::ALL;

#[test]
fn each_rule_tells_how_it_measures() {
    for rule in ALL {
        assert!(told(rule.code).is_some(), "{}: write it here", rule.code);
        let page = rule.page();
        assert!(page.contains("\n## How the gain is estimated\n"), "{}", rule.code);
    }
    let codes: Vec<&str> = METHODOLOGY.iter().map(|(code, ..)| *code).collect();
    let all: Vec<&str> = ALL.iter().map(|rule| rule.code).collect();
    assert_eq!(codes, all, "each once, in order");
}

/// Texts name settings and edits that there are.
#[test]
fn what_they_name_exists() {
    let edits = ["remove", "fuse", "overlap", "more-workers", "set", "scale", "scale 0.5"];
    for (code, _, text) in METHODOLOGY {
        let rule = ALL.iter().find(|rule| rule.code == *code).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let setting = name.strip_prefix(&format!("{code}."));
            assert!(
                setting.is_none_or(|name| rule.settings.iter().any(|setting| setting.name == name)),
                "{code} has no setting {name}"
            );
            assert!(!name.starts_with("SL") || setting.is_some(), "{code} names {name}");
        }
        let has_edit = edits.iter().any(|edit| text.contains(&format!("`{edit}`")));
        let is_replayed = rule.measured().iter().any(|way| matches!(way, super::Replay | super::Speculative));
        assert!(has_edit || text.contains("(`scale` by") || !is_replayed, "{code}: which edit?");
    }
}
