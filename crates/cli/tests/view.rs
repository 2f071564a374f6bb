//! Tests of `view`: the address and the browser.

#![cfg(target_os = "linux")]
use crate::common;

use common::{stackline, write_sample};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program in place of the one that starts browsers: it writes down its arguments.
fn fake_browser(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let program = bin.join("xdg-open");
    std::fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$SEEN.part\" && mv \"$SEEN.part\" \"$SEEN\"\n")
        .unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    bin
}

#[test]
fn the_browser_is_not_started_with_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let (bin, seen) = (fake_browser(folder.path()), folder.path().join("seen"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut child = stackline(&["view", &write_sample(folder.path(), 0)])
        .env("PATH", path)
        .env("SEEN", &seen)
        .env("BROWSER", "some")
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    while !seen.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let arguments = std::fs::read_to_string(&seen).unwrap();
    let token = url.trim_end_matches('/').rsplit('/').next().unwrap();
    assert!(token.len() == 32 && !arguments.contains(token), "{arguments}");
    let page = PathBuf::from(arguments.trim());
    assert_eq!(std::fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&page).unwrap().contains(&format!("content=\"0;url={url}\"")));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(!page.exists(), "it goes with the server");
}
