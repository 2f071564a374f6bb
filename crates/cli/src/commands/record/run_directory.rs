//! Run directory of a recording, and the environment of the recorded processes.

use crate::failure::{unreadable, wrong_use};
use anyhow::{Context, Result};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const BOOTSTRAP: [(&str, &str); 2] = [
    ("sitecustomize.py", include_str!("../../../../record/bootstrap/sitecustomize.py")),
    ("_stackline_bootstrap.py", include_str!("../../../../record/bootstrap/_stackline_bootstrap.py")),
];
/// The recorder's file.
const RECORDER: &str = "libstackline_record.so";
/// Path of the recorder inside an installed Python package, if this program is one of its scripts.
const PACKAGED: &str = "stackline/_stackline_record.so";
/// Names the recorder's file.
const RECORDER_VARIABLE: &str = "STACKLINE_RECORDER";

/// Run directory of a new recording.
pub(super) struct RunDirectory {
    /// Path as given, for messages.
    given: PathBuf,
    /// Absolute path, since processes change their directories.
    run: PathBuf,
}

impl RunDirectory {
    /// Create the run directory with the files that inject the recorder: at `output`, or named after the command.
    pub(super) fn create(output: Option<&Path>, command: &[OsString]) -> Result<Self> {
        let given = match output {
            Some(path) => make(path)?,
            None => make_unused_directory(&name(command))?,
        };
        let located = || format!("{}: cannot create a run directory", given.display());
        let run = fs::canonicalize(&given).with_context(located)?;
        let place = Self { given, run };
        if let Err(error) = place.fill() {
            place.give_up();
            return Err(error);
        }
        Ok(place)
    }

    /// Create the directory of event streams and the files that inject the recorder.
    fn fill(&self) -> Result<()> {
        if self.run.as_os_str().to_string_lossy().contains(':') {
            return Err(wrong_use(format!("{}: PYTHONPATH cannot contain a path with a colon", self.run.display())));
        }
        let located = || format!("{}: cannot write", self.run.display());
        fs::create_dir(self.run.join("streams")).with_context(located)?;
        let inject = self.inject_directory();
        fs::create_dir(&inject).with_context(located)?;
        for (name, text) in BOOTSTRAP {
            fs::write(inject.join(name), text).with_context(located)?;
        }
        Ok(())
    }

    /// Directory with the recorder's `sitecustomize`, which precedes others in `PYTHONPATH`.
    fn inject_directory(&self) -> PathBuf {
        self.run.join("inject")
    }

    /// Environment variables that make the recorded command load the recorder.
    pub(super) fn environment(&self, recorder: &Path) -> Result<Vec<(&'static str, OsString)>> {
        let inherited = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty());
        let paths = std::iter::once(self.inject_directory()).chain(inherited.iter().flat_map(std::env::split_paths));
        Ok(vec![
            ("STACKLINE_RECORD", self.run.clone().into()),
            (RECORDER_VARIABLE, recorder.to_owned().into()),
            ("PYTHONPATH", std::env::join_paths(paths)?),
        ])
    }

    /// Absolute path of the run directory.
    pub(super) fn path(&self) -> &Path {
        &self.run
    }

    /// Path of the run directory as the user typed it.
    pub(super) fn shown(&self) -> String {
        self.given.display().to_string()
    }

    /// Remove the files of the run directory that only the start of the recorded command needed.
    pub(super) fn remove_bootstrap(&self) {
        // Files that cannot be removed are part of a run, and readers ignore them.
        let _ = fs::remove_dir_all(self.inject_directory());
    }

    /// Remove the files that inject the recorder, and the run directory if it is empty, because nothing was recorded.
    pub(super) fn give_up(&self) {
        self.remove_bootstrap();
        // Best effort, and only for empty directories: files that a process wrote stay.
        let _ = fs::remove_dir(self.run.join("streams"));
        let _ = fs::remove_dir(&self.run);
    }
}

/// Create a directory and return its path. Error if it exists.
fn make(path: &Path) -> Result<PathBuf> {
    match fs::create_dir(path) {
        Ok(()) => Ok(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(wrong_use(format!("{} exists already; choose another name with -o", path.display())))
        }
        Err(error) => {
            let advice = "cannot create a run directory here; choose another directory with -o";
            Err(error).with_context(|| format!("{}: {advice}", path.display()))
        }
    }
}

/// Create the directory `NAME.stackline`, or `NAME-2.stackline` and so on if that name exists, and return its path.
fn make_unused_directory(name: &str) -> Result<PathBuf> {
    let numbered = |number: u32| match number {
        1 => format!("{name}.stackline"),
        _ => format!("{name}-{number}.stackline"),
    };
    for number in 1..10_000 {
        let path = PathBuf::from(numbered(number));
        if fs::symlink_metadata(&path).is_err() {
            return make(&path);
        }
    }
    Err(wrong_use(format!(
        "{name}.stackline, {name}-2.stackline and all further names up to {name}-9999.stackline exist; choose a name with -o"
    )))
}

/// Default name of the run: the script, module, or command.
fn name(command: &[OsString]) -> String {
    let words: Vec<&Path> = command.iter().map(Path::new).collect();
    let script = words.iter().find(|word| word.extension().is_some_and(|extension| extension == "py"));
    let module = || {
        let at = command.iter().position(|word| word == "-m")?;
        command.get(at + 1).map(|module| Path::new(module.as_os_str()))
    };
    let stem = match (script, module()) {
        (Some(script), _) => script.file_stem(),
        (None, Some(module)) => Some(module.as_os_str()),
        (None, None) => words.first().and_then(|word| word.file_stem()),
    };
    let name: String = stem.map(OsStr::to_string_lossy).unwrap_or_default().chars().map(plain).collect();
    if name.trim_matches('.').is_empty() { "run".to_owned() } else { name }
}

/// Replace a character that directory names should not contain by `-`.
fn plain(letter: char) -> char {
    if letter.is_control() || matches!(letter, '/' | '\\' | ':') { '-' } else { letter }
}

/// Paths of recorder libraries in Python packages below a library directory (`python3.11/site-packages/stackline/…`),
/// newest first.
fn packaged_recorders(libraries: &Path) -> Vec<PathBuf> {
    let pythons = fs::read_dir(libraries).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_python = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python"));
    let packages =
        pythons.filter(is_python).flat_map(|python| ["site-packages", "dist-packages"].map(|p| python.join(p)));
    let files = packages.map(|folder| folder.join(PACKAGED));
    let mut found: Vec<_> = files.filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file))).collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, file)| file).collect()
}

/// Find the recorder's library: in the environment variable, in this program's directory, or in the installation.
pub(super) fn recorder() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(RECORDER_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from) {
        return fs::canonicalize(&path).with_context(|| {
            format!(
                "{}: no recorder library at this path, to which the environment variable {RECORDER_VARIABLE} is set",
                path.display()
            )
        });
    }
    let program = std::env::current_exe()
        .and_then(fs::canonicalize)
        .context("cannot determine where this program is installed")?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let places = [folder.join(RECORDER), folder.join("../lib/stackline").join(RECORDER)];
    // Fedora keeps packages with machine code apart.
    let packages = ["../lib", "../lib64"].into_iter().flat_map(|libraries| packaged_recorders(&folder.join(libraries)));
    let found = places.into_iter().chain(packages).find_map(|place| fs::canonicalize(place).ok());
    found.ok_or_else(|| {
        unreadable(format!(
            "the recorder library {RECORDER} is neither in {} nor in ../lib/stackline relative to it; build it with \
             `cargo build --release \
             -p stackline-record`, or set {RECORDER_VARIABLE}",
            folder.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::{PACKAGED, name, packaged_recorders};
    use std::ffi::OsString;

    #[test]
    fn recorders_of_packages_are_found() {
        let prefix = tempfile::tempdir().unwrap();
        assert!(packaged_recorders(&prefix.path().join("none")).is_empty());
        let file = prefix.path().join("python3.12/site-packages").join(PACKAGED);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::create_dir_all(prefix.path().join("python3.11/site-packages")).unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(packaged_recorders(prefix.path()), [file]);
    }

    #[test]
    fn runs_are_named_after_their_program() {
        let name_for = |command: &str| name(&command.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(name_for("python -u examples/train_gpt.py --steps 3"), "train_gpt");
        assert_eq!(name_for("torchrun --nproc-per-node 2 train.py"), "train");
        assert_eq!(name_for("python -m pkg.train x"), "pkg.train");
        assert_eq!(name_for("/usr/bin/python3.11 -c pass"), "python3");
        assert_eq!(name_for(".."), "run");
    }
}
