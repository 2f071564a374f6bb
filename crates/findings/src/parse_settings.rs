//! Thresholds of rules, as chosen with `--set`.

use super::rule::Rule;
use super::rules;
use super::settings::Settings;

/// Renamed thresholds: code of the rule, old name, new name. The old names are accepted for one version.
const RENAMED: [(&str, &str, &str); 2] = [("SL055", "rounds", "iterations"), ("SL058", "touched", "accessed")];

/// New name of a threshold of a rule, if `short` is its old name.
fn renamed(rule: &Rule, short: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(code, old, _)| *code == rule.code && *old == short).map(|(.., new)| *new)
}

/// Invalid threshold choice.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingsError {
    /// Not `CODE.NAME=NUMBER`.
    Malformed(String),
    /// The rule does not exist.
    UnknownRule(String),
    /// The rule has no such setting; the list names its settings.
    UnknownSetting(String, Vec<String>),
    /// Value out of range: name, value, minimum, maximum.
    OutOfRange(String, f64, f64, f64),
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(text) => {
                write!(f, "{text:?} is not a setting. Write CODE.NAME=NUMBER, such as SL001.share=10")
            }
            Self::UnknownRule(code) => {
                write!(f, "there is no rule {code}; docs/findings/README.md lists the built-in rules")
            }
            Self::UnknownSetting(name, known) if known.is_empty() => {
                write!(f, "unknown setting {name}: the rule has no settings")
            }
            Self::UnknownSetting(name, known) => {
                write!(f, "unknown setting {name}. The settings of the rule are {}", known.join(", "))
            }
            Self::OutOfRange(name, value, least, most) => {
                write!(f, "{name}={value} is out of range. Use a value from {least} to {most}")
            }
        }
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// Set a threshold from text such as `SL001.share=10`.
    ///
    /// Old names of renamed thresholds are accepted.
    ///
    /// # Errors
    /// Unknown rule or setting, malformed text, or a value out of range.
    pub fn set(&mut self, text: &str) -> Result<(), SettingsError> {
        let malformed = || SettingsError::Malformed(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(malformed)?;
        let (code, short) = name.trim().split_once('.').ok_or_else(malformed)?;
        let value: f64 = value.trim().parse().map_err(|_| malformed())?;
        let rule = rules::find(code).ok_or_else(|| SettingsError::UnknownRule(code.to_owned()))?;
        let short = renamed(rule, short).unwrap_or(short);
        let Some(setting) = rule.settings.iter().find(|s| s.name == short) else {
            let known = rule.settings.iter().map(|s| format!("{code}.{}", s.name)).collect();
            return Err(SettingsError::UnknownSetting(name.to_owned(), known));
        };
        let (least, most) = setting.range;
        if !(least..=most).contains(&value) {
            return Err(SettingsError::OutOfRange(name.to_owned(), value, least, most));
        }
        self.insert(rule.code, short, value);
        Ok(())
    }

    /// Note on the new name of a threshold, if a text such as `SL055.rounds=3` has the old one; `None` otherwise.
    pub fn renaming_note(text: &str) -> Option<String> {
        let (code, short) = text.split_once('=')?.0.trim().split_once('.')?;
        let rule = rules::find(code)?;
        let new = renamed(rule, short)?;
        let code = rule.code;
        Some(format!("{code}.{short} is now called {code}.{new}; the old name will be removed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_settings_are_rejected() {
        let rule = &rules::ALL[0];
        let mut settings = Settings::default();
        let setting = &rule.settings[0];
        let name = format!("{}.{}", rule.code, setting.name);
        settings.set(&format!("{name}={}", setting.range.1)).unwrap();
        assert_eq!(settings.get(rule, setting.name), setting.range.1);
        assert_eq!(Settings::default().get(rule, setting.name), setting.default);
        for bad in ["", "share=1", "SL999.share=1", &format!("{}.none=1", rule.code), &format!("{name}=x")] {
            assert!(settings.set(bad).is_err(), "{bad}");
        }
        assert!(matches!(settings.set(&format!("{name}=1e30")), Err(SettingsError::OutOfRange(..))));
        assert!(matches!(settings.set(&format!("{name}=nan")), Err(SettingsError::OutOfRange(..))));
    }

    #[test]
    fn old_names_set_the_renamed_thresholds() {
        for (code, old, new) in RENAMED {
            let rule = rules::find(code).unwrap();
            let mut settings = Settings::default();
            settings.set(&format!("{code}.{old}=70")).unwrap();
            assert_eq!(settings.get(rule, new), 70.0, "{code}.{old}");
            let note = format!("{code}.{old} is now called {code}.{new}; the old name will be removed");
            assert_eq!(Settings::renaming_note(&format!(" {code}.{old} = 70")), Some(note));
            assert_eq!(Settings::renaming_note(&format!("{code}.{new}=70")), None);
        }
    }
}
