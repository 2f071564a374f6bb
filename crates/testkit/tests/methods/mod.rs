//! Comparison of the methods with ground truth: their coverage, the operations on their path, and the errors of their
//! times. The table is in `docs/explanation/critical-path-accuracy.md`.

mod found;
mod table;

use stackline_testkit::simulator::{Profile, simulate};
use table::{Accuracy, Sample};

/// Page with the table.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/critical-path-accuracy.md");

/// Accuracy of each method.
type Methods = Vec<(&'static str, Accuracy)>;

/// Results of each method on one program, in the order of [`found::METHODS`].
fn sample(seed: u64) -> Vec<Option<Sample>> {
    let run = simulate(seed, &Profile::any(seed));
    let trace = stackline_ingest::read_bytes("t.json", run.json().as_bytes(), &Default::default()).unwrap();
    let truth = found::truth(&run, &trace);
    let window_ns = run.truth().window_ns as f64;
    found::METHODS.iter().map(|(_, find)| Some(Sample::new(&truth, &find(&trace)?, window_ns))).collect()
}

/// Accuracy of each method over the first programs, and over those that are easier for `hta` and `ctda`: none polls
/// instead of waiting, and none has a thread that holds the GIL for long. Independent of the number of threads.
fn measure(programs: u64) -> (Methods, Methods) {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let of_thread = |thread: u64| (thread..programs).step_by(threads as usize).map(sample).collect::<Vec<_>>();
    let parts: Vec<Vec<_>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || of_thread(thread))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    let in_order = |seed: u64| &parts[(seed % threads) as usize][(seed / threads) as usize];
    let over = |is_included: &dyn Fn(&Profile) -> bool| {
        let mut all: Methods = found::METHODS.iter().map(|(name, _)| (*name, Accuracy::default())).collect();
        for seed in (0..programs).filter(|&seed| is_included(&Profile::any(seed))) {
            for ((_, accuracy), sample) in all.iter_mut().zip(in_order(seed)) {
                accuracy.add(sample.as_ref());
            }
        }
        all
    };
    (over(&|_| true), over(&|profile| !profile.polls && !profile.gil))
}

fn accuracy_of<'a>(all: &'a [(&'static str, Accuracy)], method: &str) -> &'a Accuracy {
    &all.iter().find(|(name, _)| *name == method).unwrap().1
}

/// Check the results that hold for any number of programs.
fn check(all: &[(&'static str, Accuracy)]) {
    let (exact, ctda, hta) = (accuracy_of(all, "exact"), accuracy_of(all, "ctda"), accuracy_of(all, "hta"));
    assert!(exact.covered() >= 100.0 - 1e-9);
    assert!(exact.gpu_recall() > 99.0 && exact.gpu_precision() > 99.0);
    assert!(exact.operator_recall() > 99.0 && exact.operator_precision() > 99.0);
    assert!(exact.error() < 1e-9, "{}", exact.error());
    assert!(ctda.gpu_recall() > hta.gpu_recall());
    assert!(exact.error() < ctda.error() && ctda.error() < hta.error(), "{} {}", ctda.error(), hta.error());
}

#[test]
fn methods_over_some_programs() {
    let (all, easier) = measure(200);
    println!("{}", table::text(200, &all, &easier));
    check(&all);
}

/// With `STACKLINE_BLESS=1` the table is written into its page; `STACKLINE_SIM_PROGRAMS` sets the number of programs.
#[test]
#[ignore = "long: cargo test --locked -p stackline-testkit --test it methods -- --ignored --nocapture"]
fn methods_over_ten_thousand_programs() {
    let programs = std::env::var("STACKLINE_SIM_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let (all, easier) = measure(programs);
    let text = table::text(programs, &all, &easier);
    println!("{text}");
    if std::env::var_os("STACKLINE_BLESS").is_some() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        std::fs::write(PAGE, table::put_into(&page, &text)).unwrap();
    }
    check(&all);
}

/// The page has the markers for the table, so that the long test cannot fail at its end.
#[test]
fn page_has_markers_for_the_table() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(table::put_into(&page, "a table").contains("\na table\n"));
}
