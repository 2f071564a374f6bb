//! Names of files, the same wherever a program and its libraries lie.

use super::calls::Calls;
use stackline_recording::FrameKey;

/// Folders that installed packages lie in.
const LIBRARIES: [&str; 2] = ["/site-packages/", "/dist-packages/"];

/// What files are called.
#[derive(Debug, Default)]
pub(super) struct Files {
    root: String,
}

impl Files {
    pub(super) fn new(calls: &Calls) -> Self {
        Self { root: root(calls) }
    }

    /// A file of the program's own, as it can be opened from where that ran.
    fn own<'b>(&self, file: &'b str) -> Option<&'b str> {
        file.strip_prefix(&self.root).filter(|_| !self.root.is_empty())
    }

    /// What it is called if it is of a library. Programs that run inside of a library's folder are none; an environment below the
    /// program's folder is.
    fn library<'b>(&self, file: &'b str) -> Option<&'b str> {
        let slash = self.root.len().saturating_sub(1);
        library(if self.own(file).is_some() { &file[slash..] } else { file })
    }

    /// A file as it can be opened from where the program ran; one of a library as the profiler of PyTorch writes it, without the
    /// folder that Python found it in.
    pub(super) fn short<'b>(&self, file: &'b str) -> &'b str {
        self.library(file).or(self.own(file)).unwrap_or(file)
    }

    /// The same, but of a library with the last folder that says that it is one.
    pub(super) fn marked<'b>(&self, file: &'b str) -> &'b str {
        let Some(name) = self.library(file) else { return self.short(file) };
        let folder = file[..file.len() - name.len()].trim_end_matches('/');
        &file[folder.rfind('/').map_or(0, |slash| slash + 1)..]
    }
}

/// The folder that the program's files are named from: the one that the command ran in, so that names can be opened from
/// there. It is told by the script, whose path the command has as it was typed and Python in full. Of a script whose path was
/// typed in full it is the script's own.
fn root(calls: &Calls) -> String {
    let is_script = |word: &&String| word.ends_with(".py");
    let Some(script) = calls.process.command.iter().find(is_script) else { return String::new() };
    let script = script.trim_start_matches("./");
    let files = calls.frames.iter().filter_map(|frame| match *frame {
        FrameKey::Python { file, .. } => Some(calls.text(file)),
        _ => None,
    });
    let of = |file: &str| {
        let folder = file.strip_suffix(script)?;
        match script.starts_with('/') {
            true => script.rfind('/').map(|end| script[..=end].to_owned()).filter(|_| folder.is_empty()),
            false => folder.ends_with('/').then(|| folder.to_owned()),
        }
    };
    files.into_iter().find_map(of).unwrap_or_default()
}

/// What a file of an installed package, or of Python itself, is called below the folder that Python found it in.
fn library(file: &str) -> Option<&str> {
    let package = LIBRARIES.iter().filter_map(|folder| file.rfind(folder).map(|at| &file[at + folder.len()..]));
    let standard = || file.rfind("/lib/python3.").and_then(|at| file[at + 1..].splitn(3, '/').nth(2));
    package.min_by_key(|rest| rest.len()).or_else(standard)
}

#[cfg(test)]
mod tests {
    use super::Files;

    #[test]
    fn names_do_not_tell_where_things_lie() {
        let files = Files { root: "/data/me/job/".to_owned() };
        let names = |file: &str| [files.short(file).to_owned(), files.marked(file).to_owned()];
        assert_eq!(names("/data/me/job/net/layer.py"), ["net/layer.py", "net/layer.py"]);
        let package = "/data/me/job/env/lib/python3.11/site-packages/torch/nn/linear.py";
        assert_eq!(names(package), ["torch/nn/linear.py", "site-packages/torch/nn/linear.py"]);
        assert_eq!(names("/usr/lib/python3.11/queue.py"), ["queue.py", "python3.11/queue.py"]);
        assert_eq!(names("/elsewhere/a.py"), ["/elsewhere/a.py", "/elsewhere/a.py"]);
    }
}
