//! Findings of memory traces: per code, a program with a finding, and a similar one without.

use stackline_engine::{findings_of_memory, memory_findings, memory_rules};
use stackline_findings::{Finding, Findings, MemoryFindings, Options, Reason, Settings, Support, rules};
use stackline_memory::{MemoryAnalysis, Pattern, Rules};
use stackline_model::MemoryTrace;
use stackline_timeline::confidence::Confidence;

fn read(text: &str) -> MemoryTrace {
    let trace = stackline_ingest::memory::text::read("program", text).unwrap();
    trace.check().unwrap();
    trace
}

fn found(text: &str) -> MemoryFindings {
    let trace = read(text);
    memory_findings(&MemoryAnalysis::new(&trace, 1), 0.5, &|_| true)
}

/// Code, program with a finding, bytes saved at the first peak, and program without a finding.
const CASES: [(&str, &str, Option<u64>, &str); 11] = [
    (
        "SL050",
        "a big 4096; a early 1024; k one big>big; k two early>early; f big; f early; end",
        Some(1024),
        "a big 4096; k one big>big; a early 1024; k two early>early; f big; f early; end",
    ),
    (
        "SL051",
        "a x 1024; k one x>x; a big 4096; k two big>big; f x; f big; end",
        Some(1024),
        "a x 1024; k one x>x; f x; a big 4096; k two big>big; f big; end",
    ),
    (
        "SL052",
        "a one 4096; k first one>one; a two 4096; k second two>two; f one; f two; end",
        Some(4096),
        "a one 4096; k first one>one; a two 4096; k second one,two>two; f one; f two; end",
    ),
    (
        "SL053",
        "a unused 4096; a x 64; k one x>x; f unused; f x; end",
        Some(4096),
        "a used 4096; a x 64; k one x,used>x; f used; f x; end",
    ),
    (
        "SL054",
        "a filled 4096; s filled; a x 64; k one x>x; f filled; f x; end",
        Some(4096),
        "a filled 4096; s filled; a x 64; k one x,filled>x; f filled; f x; end",
    ),
    (
        "SL055",
        "a kept 4096; k one kept>kept; a x 64; k two x>x; f x; end",
        Some(4096),
        "a kept 4096; k one kept>kept; a x 64; k two x>x; f x; f kept; end",
    ),
    (
        "SL056",
        "a idle 4096; k one idle>idle; a x 64; k two x>x; k three idle>x; f idle; f x; end",
        Some(4096),
        "a busy 4096; k one busy>busy; a x 64; k two busy>x; k three busy>x; f busy; f x; end",
    ),
    (
        "SL057",
        "a twice 4096; s twice; h twice; k one twice>twice; d twice; f twice; end",
        None,
        "a once 4096; h once; k one once>once; d once; f once; end",
    ),
    (
        "SL058",
        "a padded 4096; a x 64; k one padded[0:1024]>x; f padded; f x; end",
        Some(3072),
        "a full 4096; a x 64; k one full[0:4000]>x; f full; f x; end",
    ),
    (
        "SL059",
        "a table 4096; a x 64; k one table[0:64*9+64:4096]>x; f table; f x; end",
        None,
        "a table 4096; a x 64; k one table[0:64*2+64:4096*2]>x; f table; f x; end",
    ),
    (
        "SL060",
        "a parts 4096; a x 64; k part parts[0:2048]>x; k part parts[2048:4096]>x; f parts; f x; end",
        Some(4096),
        "a parts 4096; a x 64; k part parts[0:3000]>x; k part parts[1000:4096]>x; f parts; f x; end",
    ),
];

#[test]
fn each_code_is_reported_only_for_its_case() {
    for (code, fires, saved, quiet) in CASES {
        let found_by_rules = found(fires);
        let mine: Vec<&Finding> = found_by_rules.findings.iter().filter(|finding| finding.rule.code == code).collect();
        let [finding] = mine[..] else { panic!("{code}: {:?}", titles(&found_by_rules)) };
        assert_eq!(finding.memory.as_ref().map(|saved| saved.bytes), saved, "{code}: {}", finding.title);
        assert!(finding.gain.is_none() && finding.support == Support::Exact, "{code}");
        let found_by_rules = found(quiet);
        assert!(
            found_by_rules.findings.iter().all(|finding| finding.rule.code != code),
            "{code}: {:?}",
            titles(&found_by_rules)
        );
    }
}

/// With other settings of its rule, the same program has the same finding, or none; default values change nothing.
#[test]
fn thresholds_are_configurable() {
    let codes = |text: &str, choice: &str| -> Vec<String> {
        let mut options = Options::default();
        if !choice.is_empty() {
            options.settings.set(choice).unwrap();
        }
        let trace = read(text);
        let findings = findings_of_memory(&trace, &options, &|_| true);
        findings.findings.iter().map(|finding| finding.rule.code.clone()).collect()
    };
    for (code, choice) in [
        ("SL050", "kernels=2"),
        ("SL051", "kernels=2"),
        ("SL056", "kernels=2"),
        ("SL058", "accessed=20"),
        // The name of an earlier version.
        ("SL058", "touched=20"),
        ("SL059", "variation=500"),
    ] {
        let (_, text, ..) = CASES.iter().find(|case| case.0 == code).unwrap();
        assert!(codes(text, "").contains(&code.to_owned()), "{code}");
        assert!(!codes(text, &format!("{code}.{choice}")).contains(&code.to_owned()), "{code}");
    }
    let nearly = "a one 4096; k first one>one; a two 3000; k second two>two; f one; f two; end";
    assert!(!codes(nearly, "").contains(&"SL052".to_owned()));
    assert!(codes(nearly, "SL052.tolerance=50").contains(&"SL052".to_owned()));
    assert_eq!(memory_rules(&Settings::default()), Rules::default());
}

/// The histogram of accesses is in the text and in the numbers of the evidence.
#[test]
fn access_histograms_are_reported() {
    let histogram_findings = found(CASES.iter().find(|case| case.0 == "SL059").unwrap().1);
    let finding = histogram_findings.findings.iter().find(|finding| finding.rule.code == "SL059").unwrap();
    assert!(finding.title.ends_with(": 4032 B once, 64 B 9 times"), "{}", finding.title);
    let facts: Vec<(&str, f64)> = finding
        .facts
        .iter()
        .map(|fact| (fact.name.as_str(), fact.value))
        .filter(|fact| fact.0.contains(" accessed "))
        .collect();
    assert_eq!(facts, [("bytes accessed once by the kernel", 4032.0), ("bytes accessed 9 times by the kernel", 64.0)]);
}

fn titles(found: &MemoryFindings) -> Vec<String> {
    found.findings.iter().map(|finding| format!("{} {}", finding.rule.code, finding.title)).collect()
}

#[test]
fn patterns_and_rules_have_the_same_codes() {
    let codes: Vec<&str> = rules::memory_rules().map(|rule| rule.code).collect();
    assert_eq!(codes, Pattern::all().map(Pattern::code).collect::<Vec<_>>());
}

/// `y` has no match of its own, or one with another object: both findings name the object that it could overwrite.
#[test]
fn findings_mention_possible_in_place_operators() {
    let text = "o i 4096; a x 4096 kind=temporary dtype=f32; k \"aten::mm\" i[:]>x[:]; a y 4096 dtype=f32; \
                k \"aten::relu\" x[:]>y[:]; f x; k next y[:]; f y; end";
    let earlier = "a z 4096 dtype=f32; k make i[:]>z[:]; k last z[:]; ";
    let with_other = text.replace("a x 4096", &format!("{earlier}a x 4096")).replace("f y;", "f y; f z;");
    for text in [text, &with_other] {
        let found_here = found(text);
        let title = titles(&found_here).into_iter().find(|title| title.contains("in place")).unwrap();
        let start = "SL052 y (4096 B): the memory object could be computed in place, in the memory of x, which is not \
                     read afterwards; let ";
        assert!(title.starts_with(start), "{title}");
    }
}

#[test]
fn objects_of_one_line_are_one_finding() {
    let found_here = found(
        "a big 65536 at=train.py:9:build
         a one 4096 at=train.py:20:step; a two 4096 at=train.py:20:step; a three 8192 at=train.py:20:step
         k first big>big at=train.py:30:step
         f one; f two; f three; f big; end",
    );
    let [finding] = &found_here.findings[..] else { panic!("{:?}", titles(&found_here)) };
    assert_eq!(finding.place.text(), "train.py:20 in step");
    assert!(
        finding
            .title
            .starts_with("3 memory objects (16.00 KiB), the largest three: memory is never accessed; remove three"),
        "{}",
        finding.title
    );
    let saved = finding.memory.as_ref().unwrap();
    assert_eq!((saved.bytes, saved.low_bytes, saved.high_bytes, saved.peak_bytes), (16_384, 16_384, 16_384, 81_920));
    assert_eq!((saved.device.as_str(), finding.confidence), ("gpu:0", Confidence::High));
    assert_eq!(finding.edit_labels, ["remove"]);
    assert_eq!(found_here.peaks[0].mended_bytes, Some(65_536));
}

#[test]
fn unique_modules_are_named() {
    let module = |second: &str| {
        let found_here = found(&format!(
            "a one 4096 module=layers.0 at=net.py:3:forward; a two 4096 module={second} at=net.py:3:forward
             a x 64; k first x>x; f one; f two; f x; end"
        ));
        found_here.findings[0].place.module.clone()
    };
    assert_eq!((module("layers.1"), module("layers.0")), (None, Some("layers.0".to_owned())));
}

/// An opaque kernel may use objects without recorded uses.
#[test]
fn inferred_findings_have_lower_bound_zero() {
    let found_here = found("a x 1024; k one x>x; a big 4096; k two big>big opaque; f x; f big; end");
    let finding = found_here.findings.iter().find(|finding| finding.rule.code == "SL051").unwrap();
    let saved = finding.memory.as_ref().unwrap();
    assert_eq!((saved.bytes, saved.low_bytes, saved.high_bytes), (1024, 0, 1024));
    assert!(finding.is_unsure() && finding.support == Support::Inferred);
}

/// If another moment is as high, the peak does not fall. A suggestion that lowers the peak comes first, and both are
/// reported.
#[test]
fn suggestions_that_lower_the_peak_precede_those_that_save_at_one_moment() {
    let text = "a dull 100; a wide 4096; k one wide; a last 8192; k two last; f wide; \
                a also 4096; k three also,last; f also; f last; f dull; end";
    let found = Findings::from_memory(found(text));
    let gains: Vec<(&str, u64, u64, u64)> = found
        .findings
        .iter()
        .filter_map(|finding| {
            let saved = finding.memory.as_ref()?;
            Some((finding.rule.code.as_str(), saved.lowers_bytes, saved.low_bytes, saved.bytes))
        })
        .collect();
    assert_eq!(gains[0], ("SL053", 100, 100, 100));
    assert!(gains.contains(&("SL051", 0, 0, 4096)), "{gains:?}");
}

/// Memory findings are ranked by bytes, after findings that save time.
#[test]
fn more_bytes_come_first() {
    let found =
        Findings::from_memory(found("a small 1024; a large 4096; a x 64; k one x>x; f small; f large; f x; end"));
    let bytes: Vec<u64> = found.findings.iter().map(|finding| finding.memory.as_ref().unwrap().bytes).collect();
    assert_eq!(bytes, [4096, 1024]);
    assert_eq!((found.step_ns, found.combined), (0, None));
}

/// Objects to offload are needed, and objects that an opaque kernel may use are uncertain: neither counts as wasted.
#[test]
fn needed_and_inferred_objects_are_not_wasted() {
    let percents = |text: &str| {
        let found_here = found(text);
        (found_here.peaks[0].saved_percent().unwrap(), found_here.peaks[0].waste_percent().unwrap())
    };
    let unused = "a big 4096; a x 4096; k one x>x; f big; f x; end";
    assert_eq!(percents(unused), (50.0, 50.0));
    let idle = "a kept 4096; k one >kept; a x 4096; k two x>x; f x; k three kept; f kept; end";
    assert_eq!(percents(idle), (50.0, 0.0));
    let guess = "a x 4096; k one x>x; a big 4096; k two big>big opaque; f x; f big; end";
    assert_eq!(percents(guess), (50.0, 0.0));
}

#[test]
fn ignored_findings_are_excluded_from_total_savings() {
    let trace = read("a small 1024; a large 4096; a x 64; k one x>x; f small; f large; f x; end");
    let analysis = MemoryAnalysis::new(&trace, 1);
    let found_here = memory_findings(&analysis, 0.5, &|finding| !finding.title.contains("large"));
    assert_eq!((found_here.findings.len(), found_here.ignored.len()), (1, 1));
    assert_eq!((found_here.peaks[0].bytes, found_here.peaks[0].mended_bytes), (5184, Some(4160)));
    let little = memory_findings(&analysis, 50.0, &|_| true);
    assert_eq!((little.findings.len(), little.small.len()), (1, 1));
}

#[test]
fn each_device_has_its_own_peak() {
    let found_here = found(
        "a x 64; a one 1024; device \"gpu:1\"; a two 4096; a y 64; k first x>x; k second y>y; f one; f two; f x; f y; end",
    );
    let saved: Vec<(&str, u64, u64)> = found_here
        .findings
        .iter()
        .filter_map(|finding| finding.memory.as_ref())
        .map(|saved| (saved.device.as_str(), saved.bytes, saved.peak_bytes))
        .collect();
    // The device with the highest peak comes first.
    assert_eq!(saved, [("gpu:1", 4096, 4160), ("gpu:1", 64, 4160), ("gpu:0", 1024, 1088)]);
}

#[test]
fn rules_without_recorded_data_are_skipped() {
    let missing = |text: &str| {
        let found_here = found(text);
        let short = |reason: &Reason| reason.short().to_owned();
        found_here.unchecked.iter().map(|one| (one.rule.code.clone(), short(&one.reason))).collect::<Vec<_>>()
    };
    // The source has no accesses.
    let snapshot = missing("a x 64; f x");
    assert_eq!(snapshot.len(), 11);
    assert!(snapshot[0].1.contains("memory accesses"), "{snapshot:?}");
    // Which bytes are touched is not told; the program did not end.
    let open: Vec<String> = missing("a x 64; k one x>x; f x").into_iter().map(|(code, _)| code).collect();
    assert_eq!(open, ["SL055", "SL058", "SL059", "SL060"]);
    let alone = Findings::from_memory_only(found("a x 64; k one x[0:60]>x[0:60]; f x; end"));
    assert_eq!(alone.rules.len(), rules::ALL.len());
    assert!(alone.unchecked.iter().all(|one| one.reason.sentence() == "the trace has only memory events"));
}

/// In a trace that ends before the program, memory left per training iteration is reported without a gain.
#[test]
fn growth_is_reported_without_a_gain() {
    let iterations = |kept: &str| {
        let iteration = |at: usize| {
            format!(
                "a loss{at} 1024 at=train.py:12:step; {kept} a tmp{at} 64 at=torch/optim/adam.py:5:step; f tmp{at}; ",
                kept = kept.replace('N', &at.to_string())
            )
        };
        (0..8).map(iteration).collect::<String>()
    };
    let found_here = found(&iterations(""));
    assert_eq!(
        titles(&found_here),
        ["SL055 7 memory objects (7168 B), the largest loss0: memory grows by 1024 B per training iteration: memory \
             of 7 of 7 iterations is still live at the end of the recording"]
    );
    let leak = &found_here.findings[0];
    assert_eq!((&leak.rule.code[..], leak.support, leak.confidence), ("SL055", Support::Inferred, Confidence::Low));
    assert_eq!((leak.place.file.as_deref(), leak.place.line, &leak.memory), (Some("train.py"), Some(12), &None));
    assert!(found_here.unchecked.iter().all(|one| one.rule.code != "SL055"));
    let fixed = found(&iterations("f lossN;"));
    assert!(fixed.findings.is_empty() && fixed.unchecked.iter().all(|one| one.rule.code != "SL055"));
}

#[test]
fn findings_are_independent_of_the_number_of_peaks() {
    // Two objects save the same at the highest peak; only the second one is live at the next.
    let two = "a x 4096; a y 4096; a w 8192; k one w>w; f w; f x; a z 9000; k two z>z; f z; f y; end";
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/memory");
    let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    for text in files.chain([two.to_owned()]) {
        let trace = read(&text);
        let found = |peaks| memory_findings(&MemoryAnalysis::new(&trace, peaks), 0.5, &|_| true);
        assert_eq!(found(1), found(2));
        assert_eq!(found(1), found(5));
    }
}

fn h100(name: &str) -> MemoryTrace {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/memory-h100");
    stackline_ingest::memory::read_path(&folder.join(format!("{name}.pickle.gz"))).unwrap()
}

#[test]
fn leaks_and_failed_requests_of_real_snapshots_are_reported() {
    let findings_for = |name| findings_of_memory(&h100(name), &Options::default(), &|_| true);
    let leak = findings_for("leak");
    let titles: Vec<&str> = leak.findings.iter().map(|finding| finding.title.as_str()).collect();
    assert_eq!(titles.len(), 1, "{titles:?}");
    assert!(
        titles[0].contains(
            "the autograd graph of the model call in this line keeps memory alive, and this memory grows by 50.74 MiB"
        ),
        "{titles:?}"
    );
    assert_eq!((leak.findings[0].place.line, leak.findings[0].place.function.as_deref()), (Some(105), Some("leak")));
    assert!(leak.notes.is_empty());
    let failed = findings_for("out-of-memory");
    let words =
        ["out of memory: a memory request of 28.61 MiB failed at ", "benches/gpu/snapshots.py:69 out_of_memory;"];
    assert!(failed.notes.iter().any(|note| words.iter().all(|words| note.contains(words))), "{:?}", failed.notes);
}
