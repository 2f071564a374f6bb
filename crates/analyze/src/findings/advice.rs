//! Advice that depends on what a trace has: where a rule's own would not fit the machine.

use super::rule::{Rule, RuleInfo};
use super::work::{gpus, uses_gpu};
use serde_json::Value;
use stackline_model::Trace;
use std::sync::Arc;

/// What to do, and a few lines before and after.
struct Advice {
    text: &'static str,
    example: (&'static str, &'static str),
}

/// By code: what to do in a program that has no GPU.
const WITHOUT_GPU: &[(&str, Advice)] = &[
    (
        "SL009",
        Advice {
            text: "Give the DataLoader workers, or more of them (num_workers), with persistent_workers, and leave them cores: \
                   torch.set_num_threads; make loading cheaper: see SL010.",
            example: (
                "loader = DataLoader(data, batch_size=64)",
                "loader = DataLoader(data, batch_size=64, num_workers=4, persistent_workers=True)",
            ),
        },
    ),
    (
        "SL010",
        Advice {
            text: "Prepare the data once and store the result; else prepare whole batches instead of single items, or do it in \
                   workers of the DataLoader.",
            example: (
                "def __getitem__(self, i):\n    return to_tensor(Image.open(self.files[i]).resize((224, 224)))",
                "def __getitem__(self, i):  # resized once, before the training\n    return torch.load(self.small[i])",
            ),
        },
    ),
    (
        "SL029",
        Advice {
            text: "Log every so many steps; keep values as tensors and make text of them then; let another thread write.",
            example: ("print(f\"loss {loss.item()}\")", "if step % 100 == 0:\n    print(f\"loss {loss.item()}\")"),
        },
    ),
];

/// Of tensor cores that know no TF32.
const WITHOUT_TF32: Advice = Advice {
    text: "Use autocast with float16: these tensor cores know neither TF32 nor bfloat16 (from compute capability 8 on, such as \
           A100); keep dimensions multiples of 8.",
    example: ("y = x @ w", "with torch.autocast(\"cuda\", dtype=torch.float16):\n    y = x @ w"),
};

/// What people are told of a rule where it found something in this trace.
pub(super) fn info(rule: &Rule, trace: &Trace) -> Arc<RuleInfo> {
    let advice = match rule.code {
        "SL018" => (!gpus(trace).iter().any(knows_tf32)).then_some(&WITHOUT_TF32),
        code if !uses_gpu(trace) => WITHOUT_GPU.iter().find(|(of, _)| *of == code).map(|(_, advice)| advice),
        _ => None,
    };
    let info = rule.info();
    let Some(Advice { text, example: (before, after) }) = advice else { return info };
    let example = Some(((*before).to_owned(), (*after).to_owned()));
    Arc::new(RuleInfo { advice: (*text).to_owned(), example, ..(*info).clone() })
}

/// Compute capability 8 or more; where a trace does not say it, all models but those before.
fn knows_tf32(gpu: &Value) -> bool {
    let name = gpu["name"].as_str().unwrap_or_default();
    let is_older = ["V100", "T4", "TITAN", "RTX 20", "Quadro RTX"].iter().any(|model| name.contains(model));
    gpu["computeMajor"].as_i64().map_or(!is_older, |major| major >= 8)
}
