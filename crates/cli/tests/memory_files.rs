//! Tests of several memory files: ranks of a job, or one program over time.

use crate::common;
use crate::memory_diff::snapshot;

use common::{failure, run, stackline, stdout};
use serde_json::Value;
use std::path::Path;

const MIB: u64 = 1 << 20;

fn tables(args: &[&str]) -> Value {
    let document: Value = serde_json::from_str(&stdout(&[args, &["--format", "json"]].concat())).unwrap();
    document["tables"].clone()
}

/// Output for people as one line, since it is wrapped.
fn words(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn column(table: &Value, name: &str) -> Vec<Value> {
    table["rows"].as_array().unwrap().iter().map(|row| row[name].clone()).collect()
}

/// Four ranks, of which the third one holds 24 MiB more at line 7; files of settings lie next to them.
fn ranks(folder: &Path) {
    std::fs::create_dir_all(folder.join("step_10")).unwrap();
    for rank in 0..4 {
        let more = if rank == 2 { 32 } else { 8 };
        snapshot(folder, &format!("step_10/rank{rank}_snapshot.json"), &[(3, 40), (5, 10), (7, more)]);
    }
    std::fs::write(folder.join("config.json"), r#"{"lr": 0.1}"#).unwrap();
}

#[test]
fn ranks_are_rows_and_the_outlier_is_named() {
    let folder = tempfile::tempdir().unwrap();
    ranks(folder.path());
    let path = folder.path().to_str().unwrap();
    for command in ["memory", "report"] {
        let output = run(&[command, path]);
        let (text, message) = (words(&output.stdout), words(&output.stderr));
        assert!(output.status.success(), "{message}");
        assert!(
            text.contains("The files are 4 ranks of one job, one file each. The median peak is 58.00 MiB."),
            "{text}"
        );
        assert!(text.contains("Rank 2 differs most from the median: its peak is 82.00 MiB (+41.4 %)"), "{text}");
        assert!(text.contains("train.py:7 step: 32.00 MiB instead of 8192 KiB"), "{text}");
        assert!(message.contains("Next: stackline memory ") && message.ends_with("rank2_snapshot.json"), "{message}");
    }
    let found_tables = tables(&["memory", path]);
    let ranks = &found_tables["memory_ranks"];
    assert_eq!(column(ranks, "rank"), [0, 1, 2, 3]);
    assert_eq!(column(ranks, "bytes"), [58 * MIB, 58 * MIB, 82 * MIB, 58 * MIB]);
    assert_eq!(
        column(ranks, "owners")[2],
        "train.py:3 step 40.00 MiB, train.py:7 step 32.00 MiB, train.py:5 step 10.00 MiB"
    );
    let difference = &found_tables["memory_rank_difference"];
    assert_eq!(
        (column(difference, "place"), column(difference, "change")),
        (vec!["train.py:7 step".into()], vec![(24 * MIB).into()])
    );
    // One of them, as its file.
    let of_file = tables(&["memory", folder.path().join("step_10/rank2_snapshot.json").to_str().unwrap()]);
    assert_eq!(tables(&["memory", path, "--rank", "2"]), of_file);
    let (code, message) = failure(&["memory", path, "--rank", "4"]);
    assert!(code == Some(2) && message.contains("rank 4 is not in the input; the input has ranks 0 to 3"), "{message}");
    let (code, message) = failure(&["memory", path, "--curve"]);
    assert!(code == Some(2) && message.contains("--curve") && message.contains("rank0_snapshot.json"), "{message}");
}

/// A later step of each rank stands for it; ranks that are alike are no finding.
#[test]
fn last_file_of_a_rank_is_used() {
    let folder = tempfile::tempdir().unwrap();
    ranks(folder.path());
    std::fs::create_dir_all(folder.path().join("step_100")).unwrap();
    for rank in 0..4 {
        snapshot(folder.path(), &format!("step_100/rank{rank}_snapshot.json"), &[(3, 40)]);
    }
    let text = words(stdout(&["memory", folder.path().to_str().unwrap()]).as_bytes());
    assert!(text.contains("The peak of no rank differs from the median by 1 % or more."), "{text}");
    assert!(
        text.contains("Only the last file of each rank is shown (4 left out)") && text.contains("step_100/rank3"),
        "{text}"
    );
}

/// Files without ranks are a series, in the order of the numbers in their names; one line grows each time.
#[test]
fn series_of_files_show_growth_by_line() {
    let folder = tempfile::tempdir().unwrap();
    for (step, leaked) in [(5, 2), (50, 4), (100, 6)] {
        snapshot(folder.path(), &format!("snapshot_{step}.json"), &[(3, 40), (9, leaked), (11, 10 - leaked / 2)]);
    }
    let path = folder.path().to_str().unwrap();
    let found_tables = tables(&["memory", path]);
    assert_eq!(
        column(&found_tables["memory_series"], "file"),
        ["snapshot_5.json", "snapshot_50.json", "snapshot_100.json"]
    );
    assert_eq!(column(&found_tables["memory_series"], "bytes"), [51 * MIB, 52 * MIB, 53 * MIB]);
    let growth = &found_tables["memory_growth"];
    assert_eq!(column(growth, "place"), ["train.py:9 step", "train.py:11 step"]);
    assert_eq!(column(growth, "change"), [4 * 1_048_576, -2 * 1_048_576]);
    assert_eq!(column(growth, "grows"), [2, 0]);
    let output = run(&["report", path]);
    let (shown, message) = (words(&output.stdout), words(&output.stderr));
    assert!(shown.contains("3 memory files in time order"), "{shown}");
    assert!(
        shown.contains(
            "The memory of source line train.py:9 step grew most, from 2048 KiB to 6144 KiB. The memory of this line \
             grew in 2 of the 2 intervals"
        ),
        "{shown}"
    );
    assert!(message.contains("Next: stackline diff ") && message.ends_with("snapshot_100.json"), "{message}");
    // The same files one by one.
    let files = [5, 50, 100].map(|step| folder.path().join(format!("snapshot_{step}.json")).display().to_string());
    let named: Vec<&str> = std::iter::once("memory").chain(files.iter().map(String::as_str)).collect();
    assert_eq!(column(&tables(&named)["memory_growth"], "change"), [4 * 1_048_576, -2 * 1_048_576]);
    let (code, message) = failure(&["memory", path, "--rank", "0"]);
    assert!(code == Some(2) && message.contains("have no ranks"), "{message}");
}

/// Each file has a device of its own: the ranks of one machine.
#[test]
fn ranks_come_from_devices_if_names_have_none() {
    let folder = tempfile::tempdir().unwrap();
    for (at, name) in ["a.json", "b.json"].into_iter().enumerate() {
        let path = snapshot(folder.path(), name, &[(3, 40)]);
        let mut moved: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        (0..at).for_each(|_| moved["device_traces"].as_array_mut().unwrap().insert(0, Value::Array(Vec::new())));
        std::fs::write(&path, moved.to_string()).unwrap();
    }
    let found_tables = tables(&["memory", folder.path().to_str().unwrap()]);
    assert_eq!(column(&found_tables["memory_ranks"], "rank"), [0, 1]);
    assert_eq!(column(&found_tables["memory_ranks"], "file"), ["a.json", "b.json"]);
}

/// An unreadable input does not exclude the others, and is named.
#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    ranks(folder.path());
    std::fs::write(folder.path().join("step_10/rank9_snapshot.pickle"), b"\x80\x04\x95\x10\x00").unwrap();
    let text = words(stdout(&["memory", folder.path().to_str().unwrap()]).as_bytes());
    assert!(
        text.contains("4 ranks of one job") && text.contains("skipped 1 × a file of the archive or directory"),
        "{text}"
    );
}

/// Packs files of a folder.
fn archive(folder: &Path, target: &Path, files: &[&str]) {
    let is_packed = target.extension().is_some_and(|end| end == "gz");
    let mut tar = std::process::Command::new("tar");
    tar.arg(if is_packed { "-czf" } else { "-cf" }).arg(target).arg("-C").arg(folder).args(files);
    assert!(tar.status().unwrap().success());
}

/// Archives and folders of memory are imported together with traces.
#[test]
fn archives_and_folders_are_imported_with_traces() {
    let folder = tempfile::tempdir().unwrap();
    let trace = common::write_sample(folder.path(), 0);
    let snapshots = folder.path().join("snapshots");
    std::fs::create_dir_all(&snapshots).unwrap();
    for (name, mib) in [("one.json", 4), ("two.json", 8)] {
        snapshot(&snapshots, name, &[(3, mib)]);
    }
    archive(&snapshots, &folder.path().join("one.tar"), &["one.json"]);
    archive(&snapshots, &folder.path().join("both.tar.gz"), &["one.json", "two.json"]);
    for (input, traces, peak) in [("one.tar", 0, 4), ("both.tar.gz", 2, 4), ("snapshots", 2, 4)] {
        let target = folder.path().join(format!("{input}.stackline"));
        let (input, target) = (folder.path().join(input), target.to_str().unwrap());
        stdout(&["import", &trace, input.to_str().unwrap(), "-o", target]);
        assert!(stdout(&["steps", target]).contains("steps"));
        let output = stackline(&["memory", target]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("{peak}.00 MiB")) || text.contains(&format!(" {peak}096 ")), "{text}");
        assert_eq!(text.contains(&format!("1 of {traces} memory traces in the input")), traces > 0, "{text}");
    }
}

/// An archive of several is shown as a folder of them is.
#[test]
fn archives_of_several_files_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    ranks(folder.path());
    let files: Vec<String> = (0..4).map(|rank| format!("rank{rank}_snapshot.json")).collect();
    let packed = folder.path().join("ranks.tar.gz");
    archive(&folder.path().join("step_10"), &packed, &files.iter().map(String::as_str).collect::<Vec<_>>());
    let path = packed.to_str().unwrap();
    for command in ["memory", "report"] {
        let output = run(&[command, path]);
        let (text, message) = (words(&output.stdout), words(&output.stderr));
        assert!(output.status.success() && text.contains("4 ranks of one job"), "{text} {message}");
        assert!(message.ends_with("ranks.tar.gz --rank 2"), "{message}");
    }
    let one = folder.path().join("step_10/rank2_snapshot.json");
    assert_eq!(tables(&["memory", path, "--rank", "2"]), tables(&["memory", one.to_str().unwrap()]));
    // In a folder, too; a member of another kind makes it no archive of memory alone.
    let within = folder.path().join("within");
    std::fs::create_dir(&within).unwrap();
    std::fs::rename(&packed, within.join("ranks.tar.gz")).unwrap();
    assert_eq!(column(&tables(&["memory", within.to_str().unwrap()])["memory_ranks"], "rank"), [0, 1, 2, 3]);
    let (code, message) = failure(&["memory", within.to_str().unwrap(), "--by", "path"]);
    assert!(
        code == Some(2) && message.contains("--by needs one memory trace") && message.contains("contains several"),
        "{message}"
    );
}

/// Files of the same names in several folders are distinguished, and the commands to run next open those that are shown.
#[test]
fn folders_with_equal_file_names_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (name, mib) in [("run_a", 4), ("run_b", 8)] {
        std::fs::create_dir(path(name)).unwrap();
        snapshot(&folder.path().join(name), "snapshot.json", &[(3, mib)]);
    }
    let found_tables = tables(&["memory", &path("run_a"), &path("run_b")]);
    let files = [path("run_a/snapshot.json"), path("run_b/snapshot.json")];
    assert_eq!(column(&found_tables["memory_series"], "file"), files);
    let message = words(&run(&["memory", &path("run_a"), &path("run_b")]).stderr);
    assert!(message.ends_with(&files.join(" ")), "{message}");
    for (name, mib) in [("before", 4), ("after", 8)] {
        std::fs::create_dir(path(name)).unwrap();
        for rank in 0..2 {
            snapshot(&folder.path().join(name), &format!("rank{rank}.json"), &[(3, mib + 4 * rank)]);
        }
    }
    let both = [path("before"), path("after")];
    let shown = column(&tables(&["memory", &both[0], &both[1]])["memory_ranks"], "file");
    let message = words(&run(&["memory", &both[0], &both[1]]).stderr);
    let next = message.rsplit_once(' ').unwrap().1.to_owned();
    assert!(shown.contains(&next.clone().into()), "{shown:?} {message}");
    let of_rank = tables(&["memory", &both[0], &both[1], "--rank", "1"]);
    assert_eq!(of_rank, tables(&["memory", shown[1].as_str().unwrap()]));
}

/// Options of one memory trace mean nothing to several, also those that have defaults.
#[test]
fn options_of_one_memory_trace_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    ranks(folder.path());
    let path = folder.path().to_str().unwrap();
    for option in [
        ["--by", "place"],
        ["--peaks", "2"],
        ["--set", "SL056.kernels=100"],
        ["--min-gain", "1"],
        ["--source-root", "."],
    ] {
        let (code, message) = failure(&[&["memory", path], &option[..]].concat());
        assert!(code == Some(2) && message.contains(&format!("{} needs one memory trace", option[0])), "{message}");
        assert!(run(&[&["memory", path, "--rank", "1"], &option[..]].concat()).status.success(), "{option:?}");
    }
}

/// The report for a language model describes the relation between several files.
#[test]
fn agent_reports_cover_several_files() {
    let folder = tempfile::tempdir().unwrap();
    ranks(folder.path());
    let path = folder.path().to_str().unwrap();
    let files = [0, 2].map(|rank| format!("{path}/step_10/rank{rank}_snapshot.json"));
    for inputs in [&[path][..], &[&files[0], &files[1]]] {
        let shown = stdout(&[&["report"], inputs, &["--for-agent"]].concat());
        let text = words(shown.as_bytes());
        assert!(text.contains("Rank 2 differs most from the median: its peak is 82.00 MiB (+41.4 %)"), "{shown}");
        assert!(
            shown.contains("\n- rank 2, bytes 82.00 MiB, ") && shown.contains("\nMore: stackline memory "),
            "{shown}"
        );
        assert!(shown.len() <= 4096, "{}", shown.len());
    }
    let shown = stdout(&["report", path, "--for-agent", "--rank", "2"]);
    assert!(shown.contains("Report of device memory.") && shown.ends_with("--rank 2\n"), "{shown}");
}

/// GPUs of several hosts have the same numbers: a row each.
#[test]
fn repeated_gpu_numbers_are_not_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for (name, mib) in [("host0_gpu0", 4), ("host0_gpu1", 4), ("host1_gpu0", 8), ("host1_gpu1", 4)] {
        snapshot(folder.path(), &format!("{name}.json"), &[(3, mib)]);
    }
    let path = folder.path().to_str().unwrap();
    let ranks = &tables(&["memory", path])["memory_ranks"];
    assert_eq!(column(ranks, "rank"), [Value::Null, Value::Null, Value::Null, Value::Null]);
    let output = run(&["memory", path]);
    let (text, message) = (words(&output.stdout), words(&output.stderr));
    assert!(text.contains("one row for each of 4 memory files") && !text.contains("left out"), "{text}");
    assert!(text.contains("host1_gpu0.json differs most from the median: its peak is 8192 KiB (+100.0 %)"), "{text}");
    assert!(text.contains("Highest memory peak of each file") && !text.to_lowercase().contains("each rank"), "{text}");
    assert!(message.ends_with("host1_gpu0.json"), "{message}");
    let (code, message) = failure(&["memory", path, "--rank", "0"]);
    assert!(code == Some(2) && message.contains("have no ranks"), "{message}");
    snapshot(folder.path(), "host1_gpu0.json", &[(3, 4)]);
    let text = words(&run(&["memory", path]).stdout);
    assert!(text.contains("The peak of no file differs from the median by 1 % or more."), "{text}");
}

/// A file without allocations has no peak: it is compared with nothing.
#[test]
fn files_without_a_peak_are_excluded() {
    let folder = tempfile::tempdir().unwrap();
    for (step, mib) in [(1, 4), (3, 8), (4, 9)] {
        snapshot(folder.path(), &format!("snapshot_{step}.json"), &[(3, mib)]);
    }
    let empty = r#"{"segments": [], "device_traces": []}"#;
    for name in ["snapshot_2.json", "snapshot_5.json"] {
        std::fs::write(folder.path().join(name), empty).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let series = &tables(&["memory", path])["memory_series"];
    assert_eq!(column(series, "change"), [Value::Null, Value::Null, (4 * MIB).into(), MIB.into(), Value::Null]);
    let output = run(&["memory", path]);
    let (text, message) = (words(&output.stdout), words(&output.stderr));
    assert!(text.contains("the highest peak is 4096 KiB in the first and 9216 KiB in the last"), "{text}");
    assert!(text.contains("in 2 of the 2 intervals"), "{text}");
    assert!(text.contains("Files without allocations were not compared: snapshot_2.json, snapshot_5.json."), "{text}");
    assert!(message.ends_with("snapshot_4.json"), "{message}");
}

/// One peak is no series, and grows by nothing.
#[test]
fn single_peaks_are_not_a_series() {
    let folder = tempfile::tempdir().unwrap();
    snapshot(folder.path(), "snapshot_1.json", &[(3, 4)]);
    std::fs::write(folder.path().join("snapshot_2.json"), r#"{"segments": [], "device_traces": []}"#).unwrap();
    let text = words(&run(&["memory", folder.path().to_str().unwrap()]).stdout);
    assert!(text.contains("Only 1 of 2 memory files contains allocations. Its highest peak is 4096 KiB."), "{text}");
    assert!(!text.contains("1 files") && !text.contains("grew most"), "{text}");
    assert!(text.contains("Files without allocations were not compared: snapshot_2.json."), "{text}");
}

/// Names identify the file of a rank: the others are not read.
#[test]
fn selected_rank_is_read_alone() {
    let folder = tempfile::tempdir().unwrap();
    ranks(folder.path());
    let path = folder.path().to_str().unwrap();
    let whole = tables(&["memory", path, "--rank", "2"]);
    std::fs::write(folder.path().join("step_10/rank1_snapshot.json"), b"\x80\x04\x95\x10\x00").unwrap();
    assert_eq!(tables(&["memory", path, "--rank", "2"]), whole);
    // A damaged one says so, and not that there is none of this rank.
    let (_, message) = failure(&["memory", path, "--rank", "1"]);
    assert!(message.contains("rank1_snapshot.json"), "{message}");
}

/// A folder with a profile, however small, is no folder of only memory data.
#[test]
fn profiles_are_not_ignored() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.json", "b.json"] {
        snapshot(folder.path(), name, &[(3, 4)]);
    }
    let is_alone = || run(&["memory", folder.path().to_str().unwrap()]).status.success();
    assert!(is_alone());
    let speedscope = r#"{"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": "f"}]},
        "profiles": [{"type": "sampled", "name": "p", "unit": "seconds", "startValue": 0, "endValue": 1, "samples": [[0]], "weights": [1]}]}"#;
    std::fs::write(folder.path().join("profile.speedscope.json"), speedscope).unwrap();
    assert!(!is_alone());
}

/// Commands for one memory trace take the only file of a folder, and name the number of several.
#[test]
fn folders_of_memory_files_count_as_their_files() {
    let folder = tempfile::tempdir().unwrap();
    ranks(folder.path());
    let path = folder.path().to_str().unwrap();
    for arguments in [&["findings", path][..], &["diff", path, path]] {
        let (code, message) = failure(arguments);
        assert!(code.is_some_and(|code| code > 1), "{code:?}");
        let message = words(message.as_bytes());
        assert!(message.contains("the input contains 4 memory traces; give only one memory trace"), "{message}");
    }
    let one = tempfile::tempdir().unwrap();
    let file = snapshot(one.path(), "only.json", &[(3, 40)]);
    std::fs::write(one.path().join("config.json"), r#"{"lr": 0.1}"#).unwrap();
    let path = one.path().to_str().unwrap();
    assert_eq!(stdout(&["memory", path]), stdout(&["memory", &file]));
    assert!(run(&["findings", path]).status.success());
}

/// Of several traces with memory events, the output says that it is of the first, and how to select another.
#[test]
fn traces_of_other_ranks_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..3 {
        let bytes = 4096 * (rank + 1);
        let trace = stackline_testkit::mini::trace(&format!(
            "file distributedInfo={{\"rank\": {rank}, \"world_size\": 3}}
             1/1 cpu_op            aten::empty 10..30
             1/1 cpu_instant_event [memory]    @20    Bytes={bytes} Addr=65536 Device Id=0 Device Type=1 Total Allocated={bytes} Total Reserved=65536"
        ));
        std::fs::write(folder.path().join(format!("rank{rank}.json")), trace).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let all = words(&run(&["memory", path]).stdout);
    let sentence = "Shown is the first of 3 traces with memory events in the input; --rank selects another one.";
    assert!(all.contains(sentence), "{all}");
    let of_rank = words(&run(&["memory", path, "--rank", "2"]).stdout);
    assert!(of_rank.contains("rank2.json") && !of_rank.contains("Shown is"), "{of_rank}");
    let file = folder.path().join("rank0.json");
    assert!(!words(&run(&["memory", file.to_str().unwrap()]).stdout).contains("Shown is"));
}
