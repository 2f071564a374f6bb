//! Actions that DrGPUM lacks: each on a program that was solved by hand, and on programs with too little information.

use stackline_memory::replay::Replay;
use stackline_memory::suggest::{Action, Suggestion, describe, suggestions};
use stackline_memory::{Certainty, MemoryAnalysis, ObjectUsage, Rules, patterns, tables};
use stackline_model::{MemoryDeviceId, MemoryTrace, Values};

const MIB: u64 = 1 << 20;

fn trace(text: &str) -> MemoryTrace {
    stackline_ingest::memory::text::read("actions", text).unwrap()
}

/// Suggestions of one action.
fn suggestions_of(text: &str, action: &str) -> Vec<(String, Suggestion)> {
    let trace = trace(text);
    let usage = ObjectUsage::new(&trace, Rules::default());
    let made = suggestions(&usage, &patterns::find(&usage)).into_iter();
    made.filter(|one| one.action.name() == action).map(|one| (describe(&trace, &one), one)).collect()
}

/// Only suggestion of an action: text, bytes, cost in ns, certainty, and the peak before and after.
fn one(text: &str, action: &str) -> (String, u64, u64, Certainty, [u64; 2]) {
    let found = suggestions_of(text, action);
    assert_eq!(found.len(), 1, "{found:?}");
    let (what, suggestion) = found.into_iter().next().unwrap();
    let (trace, list) = (trace(text), [suggestion]);
    let mut replay = Replay::new(&trace, MemoryDeviceId(0), &list);
    let before = replay.peak().bytes;
    assert!(replay.apply(0));
    (what, list[0].bytes, list[0].cost_ns, list[0].certainty, [before, replay.peak().bytes])
}

/// Forward computes `h` from `x`, and `y` from `h`; backward reads `h`.
fn step(relu: &str, meanwhile: &str) -> String {
    format!(
        "o x 1000 kind=input; o w 500 kind=parameter; a h 1000 kind=activation; k {relu} x[:]>h[:] t=0 dur=40 \
         via=operator-level; a y 800; k \"aten::mm\" h[:],w[:]>y[:] t=50 dur=100; a g 700; k loss y[:]>g[:] t=150 dur=9; \
         f y; {meanwhile}; k \"aten::mm\" g[:],h[:]>g[:] t=900 dur=80 at=train.py:30:backward; f h; f g"
    )
}

#[test]
fn activations_are_recomputed_for_backward() {
    let text = step("\"aten::relu\"", "");
    let (what, bytes, cost, certainty, peaks) = one(&text, "recompute");
    assert_eq!(
        what,
        "free h after kernel aten::mm (call 3) and recompute it before kernel aten::mm (call 7, train.py:30 backward) \
         (activation checkpointing): repeat kernel aten::relu (call 1)"
    );
    assert_eq!((bytes, cost, certainty), (1000, 40, Certainty::Partial));
    // x, w, h, y, g; without h while the loss is made. The peak is then that of mm: x, w, h, y.
    assert_eq!(peaks, [4000, 3300]);
}

/// `addmm` copies the bias to its result and adds to it; both are recomputed.
#[test]
fn inputs_prepared_by_an_operator_are_recomputed_with_it() {
    let with_bias = |at: &str| {
        let made = format!(
            "c h b call=\"aten::copy_\" t=5 dur=3 {at}; k \"aten::addmm\" x[:],h[:]>h[:] t=0 dur=40 at=\"\":0:\"aten::addmm\""
        );
        let text = step("\"aten::relu\"", "").replace("k \"aten::relu\" x[:]>h[:] t=0 dur=40", &made);
        format!("o b 8 kind=parameter; {text}")
    };
    let inside = with_bias("at=\"\":0:\"aten::addmm\" at=\"\":0:\"aten::copy_\"");
    let (what, bytes, cost, ..) = one(&inside, "recompute");
    assert!(
        what.contains("recompute it before kernel aten::mm")
            && what.ends_with("kernel aten::addmm (call 2, aten::addmm)"),
        "{what}"
    );
    assert_eq!((bytes, cost), (1000, 40));
    // A copy by the program is another writer.
    assert_eq!(suggestions_of(&with_bias(""), "recompute"), []);
    // The bias must be unchanged.
    let changed = inside.replace("f y;", "s b t=200; f y;");
    assert_eq!(suggestions_of(&changed, "recompute"), []);
}

#[test]
fn freed_inputs_are_recomputed_first() {
    // x is freed after relu; mm recomputes it from live inputs.
    let text = "o i 300 kind=input; o w 500 kind=parameter; a x 1000; k \"aten::mm\" i[:],w[:]>x[:] t=0 dur=25; \
                a h 1000 kind=activation; k \"aten::relu\" x[:]>h[:] t=30 dur=40; f x; a y 3000; k next h[:]>y[:] t=90 dur=9; \
                k more y[:]>y[:]; f y; k back h[:] t=200 dur=5 at=train.py:30:backward; f h";
    let (what, bytes, cost, _, peaks) = one(text, "recompute");
    assert!(
        what.ends_with("(activation checkpointing): repeat kernel aten::mm (call 1) and kernel aten::relu (call 3)"),
        "{what}"
    );
    assert_eq!((bytes, cost), (1000, 65));
    // h is needed while y is computed; at `back`, x exists once more: i, w, h, x.
    assert_eq!(peaks, [4800, 4800]);
    let found = suggestions_of(text, "recompute");
    let Action::Recompute { scratch, needs, .. } = &found[0].1.action else { panic!("{found:?}") };
    assert_eq!((*scratch, needs.len()), (1000, 2));
    let trace = trace(text);
    let list = [found[0].1.clone()];
    let mut replay = Replay::new(&trace, MemoryDeviceId(0), &list);
    assert!(replay.apply(0));
    let back = trace.calls.len() as u32 - 2;
    assert_eq!([back - 1, back].map(|at| replay.at(at)), [800, 2800]);
    // Another input may be newer than the freed one.
    let two =
        text.replace("a h 1000", "a r 10; k \"aten::mm\" i[:]>r[:]; a h 1000").replace("x[:]>h[:]", "x[:],r[:]>h[:]");
    assert_eq!(suggestions_of(&two, "recompute").len(), 1);
    // Two levels are too many: w is freed, too.
    let gone = text.replace("o w 500 kind=parameter", "a w 500; k init >w[:]").replace("f x;", "f x; f w;");
    assert!(suggestions_of(&gone, "recompute").is_empty());
}

#[test]
fn random_results_are_not_recomputed() {
    let none = |relu: &str, meanwhile: &str| {
        let text = step(relu, meanwhile);
        assert!(suggestions_of(&text, "recompute").is_empty(), "{text}");
    };
    none("relu", "");
    none("\"mine::relu\"", "");
    for random in [
        "native_dropout",
        "_standard_gamma",
        "_sample_dirichlet",
        "poisson",
        "binomial",
        "rrelu_with_noise",
        "_cudnn_rnn",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_flash_attention_forward",
        "multinomial",
        "exponential",
        "geometric",
        "cauchy",
        "log_normal",
        "normal",
    ] {
        none(&format!("\"aten::{random}\""), "");
    }
    none("\"aten::relu\"", "k other x[:]>x[:]");
    none("\"aten::relu\"", "h x");
    none("\"aten::relu\"", "f x");
    none("\"aten::relu\"", "k unknown opaque");
    let sure = step("\"aten::relu\"", "");
    for (from, to) in [
        (" dur=40", ""),
        (" at=train.py:30:backward", ""),
        ("a h 1000 kind=activation", "a h 1000"),
        ("x[:]>h[:]", "x[:],h[:]>h[:]"),
        ("x[:]>h[:]", "x[:]>x[:],h[:]"),
    ] {
        let text = sure.replace(from, to);
        assert!(text != sure && suggestions_of(&text, "recompute").is_empty(), "{text}");
    }
}

/// In a chain, inputs of a recomputation stay.
#[test]
fn chains_keep_inputs_of_recomputations() {
    let mut text = "o h0 100 kind=input; ".to_owned();
    for layer in 1..=6 {
        let before = layer - 1;
        text += &format!(
            "a h{layer} 100 kind=activation operator=relu at=model.py:5:forward; k \"aten::relu\" h{before}[:]>h{layer}[:] dur=10; "
        );
    }
    text += "a t 1000; k loss h6[:]>t[:] dur=1; f t; ";
    for layer in (1..=6).rev() {
        text += &format!("k grad h{layer}[:] dur=1 at=train.py:9:backward; f h{layer}; ");
    }
    let trace = trace(&text);
    let analysis = MemoryAnalysis::new(&trace, 1);
    let at = analysis.ranked.iter().position(|one| one.suggestion.action.name() == "recompute").unwrap();
    let again = &analysis.ranked[at].suggestion;
    assert_eq!((again.objects(), again.total_cost_ns()), (5, Some(50)));
    // h6 is needed for the loss. Of the others, every second one stays as input of the next one.
    assert_eq!(analysis.ranked[at].savings, [300]);
    let table = tables::apply(&trace, &analysis.ranked, &[at + 1]).unwrap();
    assert_eq!(table.column("peak_after").unwrap().values, Values::I64(vec![Some(1700 - 300)]));
}

const IN_PLACE: &str = "o i 64; a x 64 kind=temporary dtype=f32 operator=mm; k \"aten::mm\" i[:]>x[:]; \
                        a y 64 dtype=f32 operator=\"aten::relu\"; k \"aten::relu\" x[:]>y[:]; f x; k next y[:]; f y";

#[test]
fn operators_overwrite_their_input_in_place() {
    let (what, bytes, cost, certainty, peaks) = one(IN_PLACE, "in place");
    assert_eq!(
        what,
        "let aten::relu write y in place, into the memory of x (inplace=True, +=, or the operator with a trailing _)"
    );
    assert_eq!((bytes, cost, certainty, peaks), (64, 0, Certainty::Partial, [192, 128]));
    let added = IN_PLACE.replace("k \"aten::mm\" i[:]>x[:]", "c x i; k \"aten::addmm\" i[:],x[:]>x[:]");
    assert_eq!(suggestions_of(&added, "in place").len(), 1, "a bias, and what is added to it");
}

#[test]
fn objects_without_accesses_are_unused() {
    let removed: Vec<String> =
        suggestions_of("a A 100; a B 100; k z >; f A; f B; end", "remove").into_iter().map(|one| one.0).collect();
    assert_eq!(removed, ["remove A", "remove B"]);
}

/// Calls as in recordings: `F.relu` calls `aten::relu`, which runs `aten::clamp_min`.
#[test]
fn outermost_operators_overwrite_their_input() {
    let nested = |operators: &[&str]| {
        let frames: Vec<String> = operators.iter().map(|name| format!("at=\"\":0:\"aten::{name}\"")).collect();
        format!("at=train.py:9:block at=functional.py:1777:relu {}", frames.join(" "))
    };
    let with = |outer: &str| {
        let relu = nested(&[outer, "clamp_min"]);
        let text = IN_PLACE.replace("k \"aten::relu\" x[:]>y[:]", &format!("k \"aten::clamp_min\" x[:]>y[:] {relu}"));
        text.replace("a y 64", &format!("a y 64 operator=\"aten::clamp_min\" {relu}"))
            .replace(" operator=\"aten::relu\"", "")
    };
    let (what, bytes, _, certainty, peaks) = one(&with("relu"), "in place");
    assert!(
        what.starts_with("let aten::relu write y (functional.py:1777 relu) in place, into the memory of x"),
        "{what}"
    );
    assert_eq!((bytes, certainty, peaks), (64, Certainty::Partial, [192, 128]));
    assert!(suggestions_of(&with("conv2d"), "in place").is_empty(), "no form for it");
    // Nested operators write objects that are not the result.
    let before = format!("k \"aten::clamp_min\" i[:]>i[:] {}", nested(&["relu", "clamp_min"]));
    let parts = with("relu").replace("k \"aten::clamp_min\"", &format!("{before}; k \"aten::clamp_min\""));
    assert!(suggestions_of(&parts, "in place").is_empty(), "two parts");
}

#[test]
fn needed_inputs_are_not_overwritten() {
    for (from, to) in [
        // Different size, type or kind; unknown types; no in-place form; another reader before or after; saved for
        // backward; partial access.
        ("a y 64", "a y 128"),
        ("a y 64 dtype=f32", "a y 64 dtype=i32"),
        ("a y 64 dtype=f32", "a y 64"),
        ("x 64 kind=temporary", "x 64 kind=activation"),
        ("x 64 kind=temporary", "x 64"),
        ("k \"aten::relu\"", "k \"aten::softmax\""),
        ("k \"aten::relu\"", "k relu"),
        ("f x; k next y[:]", "k next x[:],y[:]; f x"),
        ("a y 64", "k other x[:]; a y 64"),
        ("x[:]>y[:]", "x[0:32]>y[:]"),
        ("x[:]>y[:]", "i[:],x[:]>y[:]"),
        ("k \"aten::relu\"", "s y; k \"aten::relu\""),
        ("a y 64", "k unknown opaque; a y 64"),
        ("x[:]>y[:]", "x[:]>y[:] at=train.py:9:backward"),
        ("x[:]>y[:]", "x[:]>y[:] at=\"torch/optim/adam.py\":9:step"),
        // Within an operator that has no in-place form, and that also allocated the input.
        ("x[:]>y[:]", "x[:]>y[:] at=c:1:\"aten::layer_norm\" at=c:1:\"aten::relu\""),
    ] {
        let text = IN_PLACE.replace(from, to);
        assert!(text != IN_PLACE && suggestions_of(&text, "in place").is_empty(), "{from} {to}");
    }
    let within = IN_PLACE.replace("operator=mm", "operator=mm at=c:1:\"aten::silu\" at=c:1:\"aten::mm\"");
    assert_eq!(suggestions_of(&within, "in place").len(), 1);
    let own = within.replace("x[:]>y[:]", "x[:]>y[:] at=c:1:\"aten::silu\" at=c:1:\"aten::relu\"");
    assert!(suggestions_of(&own, "in place").is_empty(), "both are silu's own");
}

#[test]
fn possibly_aliased_inputs_are_not_overwritten() {
    let with = |operator: &str, reads: &str| {
        let text = IN_PLACE.replace("aten::relu", operator).replace("x[:]>y[:]", &format!("{reads}>y[:]"));
        suggestions_of(&text, "in place").len()
    };
    // Two objects are two arguments; one object may be both, `x + x.t()`.
    for operator in ["aten::add", "aten::sub", "aten::mul", "aten::div"] {
        assert_eq!([with(operator, "x[:],i[:]"), with(operator, "x[:]"), with(operator, "i[:],x[:]")], [1, 0, 0]);
    }
    assert_eq!([with("aten::relu", "x[:]"), with("aten::relu", "x[:],i[:]")], [1, 0]);
    // 2 ** x; for more than two tensors, the order of arguments is unknown.
    for operator in ["aten::pow", "aten::addcmul", "aten::lerp", "aten::clamp", "aten::masked_fill"] {
        assert_eq!([with(operator, "x[:]"), with(operator, "x[:],i[:]")], [0, 0], "{operator}");
    }
}

#[test]
fn inputs_live_at_the_truncation_are_not_overwritten() {
    let broken = IN_PLACE.replace("f x; ", "");
    assert!(suggestions_of(&broken, "in place").is_empty());
    assert_eq!(suggestions_of(&format!("{broken}; end"), "in place").len(), 1);
}

#[test]
fn smaller_dtypes_are_inferred() {
    let text = "a h 4096 kind=activation dtype=f32; k one >h[:]; k two h[:]; f h";
    let (what, bytes, _, certainty, peaks) = one(text, "smaller dtype");
    assert_eq!(what, "keep h in bf16 instead of f32; this changes numerical results");
    assert_eq!((bytes, certainty, peaks), (2048, Certainty::Inferred, [4096, 2048]));
    let count = |kind: &str, dtype: &str, bytes: u64| {
        suggestions_of(&format!("a h {bytes} {kind} {dtype}; k one >h[:]; k two h[:]; f h"), "smaller dtype").len()
    };
    assert_eq!(count("kind=\"optimizer state\"", "dtype=float32", 4096), 1);
    assert_eq!(count("kind=parameter", "dtype=f64", 4096), 1);
    assert_eq!(count("kind=parameter", "dtype=f32", 4096), 0);
    assert_eq!(count("kind=activation", "dtype=bf16", 4096), 0);
    assert_eq!(count("kind=activation", "dtype=i64", 4096), 0);
    assert_eq!(count("kind=activation", "", 4096), 0);
    assert_eq!(count("", "dtype=f32", 4096), 0);
    assert_eq!(count("kind=activation", "dtype=f32", 512), 0);
    // The suggestion has no pattern, and no combination includes it.
    let trace = trace(text);
    let analysis = MemoryAnalysis::new(&trace, 1);
    let table =
        tables::suggestions_table(&trace, &analysis.ranked, &tables::listed(&analysis.ranked, None), &analysis.peaks);
    assert_eq!(table.column("against").unwrap().values, Values::Str(vec![None]));
    assert_eq!(analysis.combination(MemoryDeviceId(0)).unwrap().chosen, Vec::<usize>::new());
}

/// 100 MB take 4 ms in each direction; the gap between the uses is 5 ms, or unknown.
#[test]
fn copies_cost_the_time_that_idle_time_does_not_hide() {
    let text = |middle: &str, dur: &str| {
        format!(
            "a x 100000000; a y 64; k one >x[:] t=0 {dur}; k two y[:] t=1000 {dur}; k three y[:] t={middle} {dur}; \
             k four x[:] t={middle} {dur}; f x; f y"
        )
    };
    let cost = |text: String| one(&text, "offload").2;
    assert_eq!(cost(text("5000500", "dur=500")), 3_000_000);
    assert_eq!(cost(text("9000500", "dur=500")), 0);
    assert_eq!(cost(text("9000500", "")), 8_000_000, "without durations there are no times");
}

/// `wide` is freed too late: without it the peak falls by 4096 bytes, to the height of a later moment. `dull` alone
/// lowers the peak by less; `small` saves nothing, because it is freed by then.
#[test]
fn suggestions_that_lower_the_peak_are_first_and_useless_ones_counted() {
    let text = "a small 8; k use small[:]>small[:]; a x 64; k one x[:]; k two x[:]; f small; \
                a dull 100; a wide 4096; k three wide[:]; a last 8192; k four last[:]; f wide; \
                a also 4096; k five also[:],last[:]; f also; f last; f dull; f x; end";
    let trace = trace(text);
    let analysis = MemoryAnalysis::new(&trace, 1);
    let names: Vec<(String, u64, i64)> = analysis
        .ranked
        .iter()
        .filter(|one| one.suggestion.pattern != stackline_memory::Pattern::RedundantAllocation)
        .map(|one| (trace.object_name(one.suggestion.object), one.lowers, one.savings[0]))
        .collect();
    let expected = [("dull", 100, 100), ("x", 64, 64), ("wide", 0, 4096), ("small", 0, 0)];
    assert_eq!(names, expected.map(|(name, lowers, saved)| (name.to_owned(), lowers, saved)));
    let listed = tables::listed(&analysis.ranked, None);
    let nothing = analysis.ranked.len() - listed.len();
    assert!(nothing > 0 && listed.iter().all(|at| analysis.ranked[*at].savings[0] > 0));
    let notes = tables::suggestion_notes(&trace, &analysis.ranked, None);
    assert!(notes[0].ends_with("they lower no memory peak."), "{notes:?}");
    let table = tables::suggestions_table(&trace, &analysis.ranked, &listed, &analysis.peaks);
    let Values::I64(lowers) = &table.column("lowers_peak").unwrap().values else { panic!("{table:?}") };
    assert_eq!(lowers[0], Some(100));
}

#[test]
fn expandable_segments_reserve_less() {
    let text = format!(
        "device \"cuda:0\"; a x {0} at=train.py:3:step; a y {0}; f x; f y; a z {1}; f z; end",
        15 * MIB,
        45 * MIB
    );
    let found = suggestions_of(&text, "expandable segments");
    assert_eq!(found.len(), 1);
    // Segments of 16, 16 and 46 MiB; or one that grows to 20, 40 and 60.
    assert_eq!((found[0].1.bytes, found[0].1.certainty), (18 * MIB, Certainty::Inferred));
    assert!(found[0].0.starts_with("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; "), "{}", found[0].0);
    let trace = trace(&text);
    let analysis = MemoryAnalysis::new(&trace, 1);
    let number =
        1 + analysis.ranked.iter().position(|one| one.suggestion.action == Action::ExpandableSegments).unwrap();
    let table = tables::apply(&trace, &analysis.ranked, &[number]).unwrap();
    let value = |name: &str| table.column(name).unwrap().values.clone();
    let is = |mib: u64| Values::I64(vec![Some(i64::try_from(mib * MIB).unwrap())]);
    assert_eq!(["peak_before", "peak_after", "reserved_before", "reserved_after"].map(value), [45, 45, 78, 60].map(is));
    let table =
        tables::suggestions_table(&trace, &analysis.ranked, &tables::listed(&analysis.ranked, None), &analysis.peaks);
    let Values::Str(places) = &table.column("place").unwrap().values else { panic!("{table:?}") };
    assert_eq!(places[number - 1], None, "a setting has no line");
    assert!(suggestions_of(&text.replace("cuda:0", "cpu"), "expandable segments").is_empty());
    let one = format!("device \"cuda:0\"; a x {0}; f x; a x {0}; f x; end", 20 * MIB);
    assert!(suggestions_of(&one, "expandable segments").is_empty(), "segments fit");
}

/// `zero_grad(set_to_none=False)` before the forward pass: the zeros are removed together with the gradient, which then
/// exists from the backward pass on.
#[test]
fn gradients_are_freed_until_the_backward_pass() {
    let text = "a w 100 kind=parameter; h w; a g 4000 kind=gradient; s g[:]; k bwd w,g>g; k opt g,w>w; \
                s g[:] call=\"aten::zero_\"; a big 9000; k fwd w>big; f big; k bwd w,g>g; k opt g,w>w; f g; f w; end";
    let (what, bytes, _, _, peaks) = one(text, "set to none");
    assert_eq!(
        what,
        "set gradient g to None after kernel opt (call 5) instead of filling it; kernel bwd (call 10) allocates it again"
    );
    assert_eq!((bytes, peaks), (4000, [13_100, 9100]));
    // The destination of a device copy is needed there, because the source may be freed later.
    let copied = text.replace("s g[:] call=\"aten::zero_\"", "c g w");
    assert!(copied != text && suggestions_of(&copied, "set to none").iter().all(|(_, one)| one.fills == 0), "{copied}");
}

/// Slices that are filled and read back separately are allocated one at a time; an access to the whole object needs all
/// slices.
#[test]
fn slices_may_be_filled_one_by_one() {
    let each = "h x[0:100]; k s x[0:100]>x[0:100]; d x[0:100]; h x[100:200]; k s x[100:200]>x[100:200]; \
                h x[200:300]; k s x[200:300]>x[200:300];";
    let (what, _, _, _, peaks) = one(&format!("a x 300; {each} f x; a b 10; k t b>b; f b; end"), "split");
    assert_eq!((&what[..], peaks), ("allocate the 3 slices of x one at a time", [300, 100]));
    // All slices are filled first: at least they can be freed one at a time.
    let first = "a x 300; h x[0:100]; h x[100:200]; h x[200:300]; k s x[0:100]>x[0:100]; k s x[100:200]>x[100:200]; a b 150; \
                 k s b,x[200:300]>x[200:300]; f x; f b; end";
    assert_eq!(one(first, "split").4, [450, 300]);
    for whole in ["s x;", "h x;", "d x;"] {
        let text = format!("a x 300; {whole} {each} f x; end");
        assert!(suggestions_of(&text, "split").is_empty(), "{whole}");
    }
}

/// In a loop, each object could reuse the memory of the previous one; without a limit, each lookup would visit all.
#[test]
fn number_of_successive_users_of_memory_is_limited() {
    const OBJECTS: u64 = 300;
    let text: Vec<String> = (0..OBJECTS).map(|at| format!("a o{at} 1000; k f >o{at}[:]; k g o{at}[:]>")).collect();
    let trace = trace(&text.join("; "));
    let usage = ObjectUsage::new(&trace, Rules::default());
    let list: Vec<Suggestion> = suggestions(&usage, &patterns::find(&usage))
        .into_iter()
        .filter(|one| matches!(one.action, Action::Reuse { .. }))
        .collect();
    let mut replay = Replay::new(&trace, MemoryDeviceId(0), &list);
    let applied = (0..list.len()).filter(|&one| replay.apply(one)).count() as u64;
    let memories = replay.blocks().filter(|(_, spans)| !spans.is_empty()).count() as u64;
    assert_eq!(memories + applied, OBJECTS, "each other one has that of another");
    assert!((OBJECTS.div_ceil(64)..OBJECTS / 32).contains(&memories), "{memories}");
    assert_eq!(replay.peak().bytes, 1000 * memories);
}
