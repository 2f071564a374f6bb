//! Names of frames that log, print or save, for rules about waits and about logging.

use super::kind_in;

pub(super) const TORCH_SAVE: &str = "torch.save";
pub(super) const SAFETENSORS: &str = "safetensors";

/// Name parts of logging frames, with the kind in the title. Progress bars match only where they draw: as loops,
/// they enclose the work that they count.
const FRAMES: &[(&str, &[&str])] = &[
    ("print", &["<built-in function print>"]),
    ("Logging", &["logging/__init__.py(", "): info"]),
    ("Logging", &["logging/__init__.py(", "): debug"]),
    ("Logging", &["logging/__init__.py(", "): warning"]),
    ("Logging", &["logging/__init__.py(", "): error"]),
    ("Logging", &["logging/__init__.py(", "): log"]),
    ("Logging", &["logging/__init__.py(", "): _log"]),
    ("Text output", &["<built-in method write of _io."]),
    ("Text output", &["<method 'write' of '_io."]),
    ("Progress bar", &["tqdm/", "): update"]),
    ("Progress bar", &["tqdm/", "): refresh"]),
    ("Progress bar", &["tqdm/", "): display"]),
    ("Progress bar", &["tqdm/", "): set_postfix*"]),
    ("Progress bar", &["tqdm/", "): set_description*"]),
    ("TensorBoard", &["tensorboard/writer.py(", "): add_*"]),
    ("TensorBoard", &["tensorboardX/writer.py(", "): add_*"]),
    ("wandb", &["wandb/", "): log"]),
    ("mlflow", &["mlflow/", "): log_*"]),
    (TORCH_SAVE, &["torch/serialization.py(", "): save"]),
    (SAFETENSORS, &["safetensors/", "): save_file"]),
    ("numpy.save", &["numpy/lib/", "): save*"]),
    ("json.dump", &["json/__init__.py(", "): dump"]),
    ("csv.DictWriter", &["csv.py(", "): writerow*"]),
    ("to_csv", &["pandas/", "): to_csv"]),
    ("savefig", &["matplotlib/", "): savefig"]),
];

/// Kind of logging in a frame with this name, such as `savefig`; `None` for other frames.
pub(crate) fn kind_of(name: &str) -> Option<&'static str> {
    kind_in(FRAMES, name)
}
