//! Names of Python functions as findings write them: `augment`, `data.py: augment`, `data.py:7 in augment`.

use stackline_timeline::frame_names::frame;

/// Python function as the user typed it, with an optional file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function<'t> {
    /// File with or without folders, if given.
    file: Option<&'t str>,
    /// Name with or without class.
    name: &'t str,
}

impl<'t> Function<'t> {
    /// Parse a Python function such as `data.py:7 in augment`. A line number is ignored, because frames have the first
    /// line of their function, and findings the executed line.
    pub(super) fn parse(text: &'t str) -> Self {
        if let Some((place, name)) = text.rsplit_once(" in ") {
            let file = match place.rsplit_once(':') {
                Some((file, line)) if line.parse::<u32>().is_ok() => file,
                _ => place,
            };
            return Self { file: Some(file), name: name.trim() };
        }
        match text.split_once(".py:") {
            Some((file, name)) => Self { file: text.get(..file.len() + ".py".len()), name: name.trim() },
            None => Self { file: None, name: text },
        }
    }

    /// True if a frame with this name belongs to the function; a folder, file or class that the user omitted matches
    /// any.
    pub(super) fn matches_name(&self, name: &str) -> bool {
        let Some((file, _, function)) = frame(name) else { return false };
        let ends_with = |whole: &str, part: &str, separator: char| {
            whole.strip_suffix(part).is_some_and(|before| before.is_empty() || before.ends_with(separator))
        };
        !self.name.is_empty()
            && ends_with(function, self.name, '.')
            && self.file.is_none_or(|requested| ends_with(file, requested, '/'))
    }
}

#[cfg(test)]
mod tests {
    use super::Function;

    #[test]
    fn functions_are_known_with_and_without_file_line_and_class() {
        let matches_name = |typed: &str, frame: &str| Function::parse(typed).matches_name(frame);
        for typed in [
            "augment",
            "Data.augment",
            "data.py: augment",
            "data.py:augment",
            "data.py:7 in augment",
            "a/data.py in augment",
        ] {
            assert!(matches_name(typed, "a/data.py(5): Data.augment"), "{typed}");
        }
        for typed in ["ment", "ata.py: augment", "other.py:5 in augment", "data.py:7", "data.py:", "", "Other.augment"]
        {
            assert!(!matches_name(typed, "a/data.py(5): Data.augment"), "{typed}");
        }
        assert!(matches_name("step", "$train.py:12 step") && !matches_name("Linear_0", "nn.Module: Linear_0"));
    }
}
