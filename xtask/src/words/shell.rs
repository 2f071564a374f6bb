//! Texts within shell scripts: comments and printed texts.

use super::literals::{Part, is_word, prose_lines, push_line};

/// Commands and functions that print their arguments.
const PRINTING: &[&str] = &["die", "echo", "need", "printf", "say"];

/// Comments of whole lines, with the lines that they begin in. Adjacent lines are one part.
pub(super) fn comments(source: &str) -> Vec<Part> {
    let mut found = Vec::new();
    let mut next_line = 0;
    for (at, text) in source.lines().enumerate() {
        if let Some(text) = comment(text) {
            push_line(&mut found, (at + 1, text), at + 1 == next_line);
            next_line = at + 2;
        }
    }
    found
}

/// Texts of several words in double quotes, in lines that print.
pub(super) fn messages(source: &str) -> Vec<Part> {
    let prints = |line: &str| line.split(|c| !is_word(c)).any(|word| PRINTING.contains(&word));
    let lines = source.lines().enumerate().filter(|&(_, line)| comment(line).is_none() && prints(line));
    let quoted = |(at, line): (usize, &str)| -> Vec<Part> {
        line.split('"').skip(1).step_by(2).map(|text| (at + 1, text.to_owned())).collect()
    };
    lines.flat_map(quoted).flat_map(prose_lines).collect()
}

/// Text of a line that is a comment; `None` for other lines and for the line that names the interpreter.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix('#').filter(|text| !text.starts_with('!'))
}

#[cfg(test)]
mod tests {
    use super::{comments, messages};

    #[test]
    fn comments_of_scripts() {
        let source = "#!/bin/sh\n# One\n# two.\n#   a b  c\n  # Three.\necho \"# no\" # no\n";
        let expected = [(2, " One\n two."), (4, "   a b  c"), (5, " Three.")];
        assert_eq!(comments(source), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn printed_texts() {
        let source =
            "a=\"not this one\"\n# say \"nor this\"\nif b; then say \"one two\" \"$c\"; fi\nd || die \"three four\"\n";
        let expected = [(3, "one two"), (4, "three four")];
        assert_eq!(messages(source), expected.map(|(line, text)| (line, text.to_owned())));
    }
}
