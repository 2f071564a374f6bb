//! File names that are independent of the location of a program and its libraries.

use super::calls::Calls;
use stackline_recording::FrameKey;

/// Folders of installed packages.
const LIBRARIES: [&str; 2] = ["/site-packages/", "/dist-packages/"];

/// Shortener of the paths of source files to names that do not depend on the machine.
#[derive(Debug, Default)]
pub(super) struct Files {
    root: String,
}

impl Files {
    pub(super) fn new(calls: &Calls) -> Self {
        Self { root: root(calls) }
    }

    /// Path of a program's file relative to the program's root folder; `None` for files outside of it.
    fn program_path<'b>(&self, file: &'b str) -> Option<&'b str> {
        file.strip_prefix(&self.root).filter(|_| !self.root.is_empty())
    }

    /// Name of a library's file below its search path; `None` for other files. Programs that run inside a library's
    /// folder are not libraries; an environment below the program's folder is.
    fn library<'b>(&self, file: &'b str) -> Option<&'b str> {
        let slash = self.root.len().saturating_sub(1);
        library(if self.program_path(file).is_some() { &file[slash..] } else { file })
    }

    /// Short name of a file: relative to the directory of the program, or for a library as PyTorch's profiler writes
    /// it, below the search path of Python.
    pub(super) fn short_name<'b>(&self, file: &'b str) -> &'b str {
        self.library(file).or(self.program_path(file)).unwrap_or(file)
    }

    /// Short name of a file; for a library, with the folder before it, such as `site-packages`.
    pub(super) fn marked_name<'b>(&self, file: &'b str) -> &'b str {
        let Some(name) = self.library(file) else { return self.short_name(file) };
        let folder = file[..file.len() - name.len()].trim_end_matches('/');
        &file[folder.rfind('/').map_or(0, |slash| slash + 1)..]
    }
}

/// Root folder of the program's files: the working directory of the command, so that names can be opened from there.
/// The root is derived from the script, whose path the command contains as typed and Python in full. If the path was
/// typed in full, the root is the folder of the script.
fn root(calls: &Calls) -> String {
    let is_script = |word: &&String| word.ends_with(".py");
    let Some(script) = calls.process.command.iter().find(is_script) else { return String::new() };
    let script = script.trim_start_matches("./");
    let files = calls.frames.iter().filter_map(|frame| match *frame {
        FrameKey::Python { file, .. } => Some(calls.text(file)),
        _ => None,
    });
    let short_name = |file: &str| {
        let folder = file.strip_suffix(script)?;
        match script.starts_with('/') {
            true => script.rfind('/').map(|end| script[..=end].to_owned()).filter(|_| folder.is_empty()),
            false => folder.ends_with('/').then(|| folder.to_owned()),
        }
    };
    files.into_iter().find_map(short_name).unwrap_or_default()
}

/// Name of a file of an installed package or of Python, below its search path; `None` for other files.
fn library(file: &str) -> Option<&str> {
    let package = LIBRARIES.iter().filter_map(|folder| file.rfind(folder).map(|at| &file[at + folder.len()..]));
    let standard = || file.rfind("/lib/python3.").and_then(|at| file[at + 1..].splitn(3, '/').nth(2));
    package.min_by_key(|rest| rest.len()).or_else(standard)
}

#[cfg(test)]
mod tests {
    use super::Files;

    #[test]
    fn file_names_are_independent_of_locations() {
        let files = Files { root: "/data/me/job/".to_owned() };
        let names = |file: &str| [files.short_name(file).to_owned(), files.marked_name(file).to_owned()];
        assert_eq!(names("/data/me/job/net/layer.py"), ["net/layer.py", "net/layer.py"]);
        let package = "/data/me/job/env/lib/python3.11/site-packages/torch/nn/linear.py";
        assert_eq!(names(package), ["torch/nn/linear.py", "site-packages/torch/nn/linear.py"]);
        assert_eq!(names("/usr/lib/python3.11/queue.py"), ["queue.py", "python3.11/queue.py"]);
        assert_eq!(names("/elsewhere/a.py"), ["/elsewhere/a.py", "/elsewhere/a.py"]);
    }
}
