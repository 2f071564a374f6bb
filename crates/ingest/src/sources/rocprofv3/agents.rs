//! GPUs of the machine by what records call them.

use serde_json::{Map, Value, json};
use stackline_model::DEVICE_PROPERTIES;
use std::collections::BTreeMap;

/// What a record calls a CPU or GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Agent {
    /// By a handle, or by its number among all agents.
    Number(i64),
    /// By its number among GPUs.
    Gpu(i64),
    /// Any CPU.
    Cpu,
}

impl Agent {
    /// `Agent 4`, `GPU 0`, `CPU 1`, or a number alone, as tables of CSV have it.
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

/// What is known of a GPU, in Kineto's words. What is not recorded is left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gpu<'a> {
    /// Among GPUs; without one it is the next.
    pub(super) number: Option<i64>,
    pub(super) name: &'a str,
    /// Bytes.
    pub(super) memory: Option<i64>,
    pub(super) compute_units: Option<i64>,
    /// Work-items of a wave.
    pub(super) wave: Option<i64>,
    /// Waves that a compute unit holds at a time.
    pub(super) waves: Option<i64>,
    /// Work-items of a group at most.
    pub(super) group: Option<i64>,
}

/// Agents that are GPUs.
#[derive(Debug, Default)]
pub(super) struct Agents {
    /// The number among GPUs.
    gpus: BTreeMap<Agent, i64>,
    described: Vec<Value>,
}

impl Agents {
    /// Adds a GPU by the number or handle that records call it by.
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

    /// Another number that records may call a GPU by, unless one is called so already.
    pub(super) fn call_too(&mut self, agent: i64, gpu: i64) {
        self.gpus.entry(Agent::Number(agent)).or_insert(gpu);
    }

    /// The number of a GPU among GPUs; none for a CPU. Where no agents are described, the agent's own.
    pub(super) fn gpu(&self, agent: Agent) -> Option<i64> {
        match agent {
            Agent::Cpu => None,
            Agent::Gpu(number) => Some(number),
            Agent::Number(number) if self.gpus.is_empty() => Some(number),
            Agent::Number(_) => self.gpus.get(&agent).copied(),
        }
    }

    /// The GPU that a kernel ran on: one that is not described has the agent's number.
    pub(super) fn of_kernel(&self, agent: Option<Agent>) -> i64 {
        match agent {
            Some(Agent::Number(number)) => self.gpu(Agent::Number(number)).unwrap_or(number),
            Some(agent) => self.gpu(agent).unwrap_or(0),
            None => 0,
        }
    }

    /// What the trace of a process says of its GPUs.
    pub(super) fn described(&self) -> Vec<(String, String)> {
        if self.described.is_empty() {
            return Vec::new();
        }
        vec![(DEVICE_PROPERTIES.to_owned(), Value::from(self.described.clone()).to_string())]
    }
}
