//! GPUs of the machine by the identifiers of records.

use serde_json::{Map, Value, json};
use stackline_model::DEVICE_PROPERTIES;
use std::collections::BTreeMap;

/// Identifier of a CPU or GPU in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Agent {
    /// A handle, or a number among all agents.
    Number(i64),
    /// A number among GPUs.
    Gpu(i64),
    /// Any CPU.
    Cpu,
}

impl Agent {
    /// Parse `Agent 4`, `GPU 0`, `CPU 1`, or a number alone, as in CSV tables; `None` without a number.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (word, number) = text.rsplit_once(' ').unwrap_or(("", text));
        let number = number.parse().ok()?;
        match word {
            "CPU" => Some(Self::Cpu),
            "GPU" => Some(Self::Gpu(number)),
            _ => Some(Self::Number(number)),
        }
    }
}

/// Properties of a GPU, named like Kineto's. Unrecorded ones are omitted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gpu<'a> {
    /// Number among GPUs; the next one if it is missing.
    pub(super) number: Option<i64>,
    pub(super) name: &'a str,
    /// Size in bytes.
    pub(super) memory: Option<i64>,
    pub(super) compute_units: Option<i64>,
    /// Work-items per wave.
    pub(super) wave: Option<i64>,
    /// Limit on concurrent waves of a compute unit.
    pub(super) waves: Option<i64>,
    /// Limit on work-items of a group.
    pub(super) group: Option<i64>,
}

/// GPUs of a machine by the agent identifiers of records.
#[derive(Debug, Default)]
pub(super) struct Agents {
    /// Number among GPUs, by agent.
    gpus: BTreeMap<Agent, i64>,
    described: Vec<Value>,
}

impl Agents {
    /// Add a GPU by the number or handle that records use.
    pub(super) fn add(&mut self, agent: i64, gpu: &Gpu<'_>) {
        let number = gpu.number.unwrap_or(self.described.len() as i64);
        self.gpus.insert(Agent::Number(agent), number);
        let threads = gpu.waves.zip(gpu.wave).map(|(waves, wave)| waves.saturating_mul(wave));
        let numbers = [
            ("totalGlobalMem", gpu.memory),
            ("numSms", gpu.compute_units),
            ("warpSize", gpu.wave),
            ("maxThreadsPerBlock", gpu.group),
            ("maxThreadsPerMultiprocessor", threads),
        ];
        let mut device = Map::new();
        device.insert("id".to_owned(), json!(number));
        if !gpu.name.is_empty() {
            device.insert("name".to_owned(), json!(gpu.name));
        }
        device.extend(numbers.into_iter().filter_map(|(key, number)| Some((key.to_owned(), json!(number?)))));
        self.described.push(Value::Object(device));
    }

    /// Add another identifier of a GPU, unless it is in use.
    pub(super) fn add_alias(&mut self, agent: i64, gpu: i64) {
        self.gpus.entry(Agent::Number(agent)).or_insert(gpu);
    }

    /// Device number of an agent, which counts only GPUs; `None` for a CPU. The agent's own number if no agents are
    /// described.
    pub(super) fn gpu(&self, agent: Agent) -> Option<i64> {
        match agent {
            Agent::Cpu => None,
            Agent::Gpu(number) => Some(number),
            Agent::Number(number) if self.gpus.is_empty() => Some(number),
            Agent::Number(_) => self.gpus.get(&agent).copied(),
        }
    }

    /// Device number for the agent of a kernel; an undescribed GPU has the agent's number.
    pub(super) fn of_kernel(&self, agent: Option<Agent>) -> i64 {
        match agent {
            Some(Agent::Number(number)) => self.gpu(Agent::Number(number)).unwrap_or(number),
            Some(agent) => self.gpu(agent).unwrap_or(0),
            None => 0,
        }
    }

    /// Metadata entries that describe the GPUs, for a trace.
    pub(super) fn described(&self) -> Vec<(String, String)> {
        if self.described.is_empty() {
            return Vec::new();
        }
        vec![(DEVICE_PROPERTIES.to_owned(), Value::from(self.described.clone()).to_string())]
    }
}
