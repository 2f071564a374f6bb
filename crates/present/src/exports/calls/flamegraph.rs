//! A flame graph as one SVG file that opens in a browser, where it can be searched and zoomed.

use super::{collapsed, run_title};
use inferno::flamegraph::{Options, from_lines};
use stackline_model::{CallMetric, CallingContextTree, Unit};
use std::io::{self, Write};

/// Draw a call tree, with all threads together, as an SVG flame graph.
///
/// # Errors
/// If nothing was measured, or `out` cannot be written to.
pub fn write(tree: &CallingContextTree, metric: CallMetric, out: &mut dyn Write) -> io::Result<()> {
    let lines: Vec<String> =
        collapsed::stacks(tree, metric).into_iter().map(|(stack, weight)| format!("{stack} {weight}")).collect();
    let mut options = Options::default();
    options.title = run_title(tree);
    options.subtitle = Some(metric.title(&tree.strings).to_owned());
    options.deterministic = true;
    options.hash = true;
    options.count_name = match metric.unit() {
        Unit::Ns => {
            options.factor = 1e-3;
            "µs"
        }
        Unit::Bytes => "bytes",
        _ => "times",
    }
    .to_owned();
    from_lines(&mut options, lines.iter().map(String::as_str), out)
}
