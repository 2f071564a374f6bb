//! Devices of one stream: their queues, operations and clock readings, and the calls of threads for them.

use super::calls::{Calls, ThreadCalls};
use super::device_clock::DeviceClock;
use super::id_tables::store;
use super::times::time;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_recording::{
    Activity, ClockReading, CompiledOperation, CompiledProgram, Device, Interface, Launch, OperationClock, Queue,
    Record, Work,
};

/// Limit on durations of operations in ns (nine years); longer ones are damage.
pub(super) const MAX_DURATION_NS: i64 = 1 << 58;
/// Limit on correlation IDs; larger ones are damage.
const MAX_CORRELATION: u64 = 1 << 53;

/// Devices of a stream, with their queues, operations and clock readings.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// Devices by ID, with placeholders for lost ones, which no queue refers to.
    pub(super) devices: Vec<Device>,
    pub(super) queues: Vec<DeviceQueue>,
    /// Operations in their recorded order.
    pub(super) operations: Vec<Operation>,
    readings: Vec<ClockReading>,
    /// Compiled kernels by name; `None` if several programs have different ones of that name.
    compiled: FxHashMap<String, Option<CompiledOperation>>,
    /// Undefined IDs, with placeholders in their tables.
    device_holes: FxHashSet<u32>,
    queue_holes: FxHashSet<u32>,
}

/// Queue of a device, with the end of its last operation.
#[derive(Debug, Default)]
pub(super) struct DeviceQueue {
    pub(super) queue: Queue,
    last_end: i64,
}

/// Operation of a device, in times of [`Device::clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) queue: u32,
    /// Correlation ID, 0 without one.
    pub(super) correlation: i64,
    pub(super) work: Work,
}

/// Call of a thread into the runtime or driver of a device, in `CLOCK_MONOTONIC` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaunchCall {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Call-tree node of the caller.
    pub(super) node: u32,
    /// Name, as a text number.
    pub(super) name: u32,
    pub(super) interface: Interface,
    /// Correlation ID, 0 without one.
    pub(super) correlation: i64,
}

impl Devices {
    /// Clock of a device's operations, with its readings if it is not the host's clock.
    pub(super) fn clock(&self, device: &Device) -> DeviceClock {
        let is_own = device.clock == OperationClock::Device;
        DeviceClock::new(self.readings.iter().filter(|reading| is_own && reading.device == device.id))
    }

    /// Devices that the stream has defined, by ID.
    pub(super) fn known_devices(&self) -> impl Iterator<Item = &Device> {
        let by_id = (0..).zip(&self.devices);
        by_id.filter(|(id, _)| !self.device_holes.contains(id)).map(|(_, device)| device)
    }

    /// Operators of a compiled kernel; `None` for other kernels, and if programs differ in the kernel of that name.
    pub(super) fn compiled(&self, kernel: &str) -> Option<&CompiledOperation> {
        self.compiled.get(kernel)?.as_ref()
    }

    /// Reset the bases of the differences of times to 0.
    pub(super) fn restart_deltas(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.last_end = 0);
    }

    /// Check if the stream has defined a device.
    fn has_device(&self, id: u32) -> bool {
        (id as usize) < self.devices.len() && !self.device_holes.contains(&id)
    }

    /// Queue that the stream has defined; `None` for other IDs.
    fn queue(&mut self, id: u32) -> Option<&mut DeviceQueue> {
        self.queues.get_mut(id as usize).filter(|_| !self.queue_holes.contains(&id))
    }

    /// Store a queue, or the new description of a known one; `None` if its device is unknown.
    fn add_queue(&mut self, queue: Queue, lost: usize) -> Option<()> {
        if !self.has_device(queue.device) {
            return None;
        }
        match self.queue(queue.id) {
            Some(known) => {
                known.queue = queue;
                Some(())
            }
            None => {
                let id = queue.id;
                store((&mut self.queues, &mut self.queue_holes), id, lost, DeviceQueue { queue, last_end: 0 })
            }
        }
    }

    /// Store a clock reading; `None` if its device is unknown or a time is invalid.
    fn add_reading(&mut self, reading: ClockReading) -> Option<()> {
        time(0, reading.device_ns)?;
        time(0, reading.host_ns)?;
        self.has_device(reading.device).then(|| self.readings.push(reading))
    }

    /// Store the kernels of a compiled program by name.
    fn add_program(&mut self, program: CompiledProgram) {
        for operation in program.operations {
            let known = self.compiled.entry(operation.kernel.clone()).or_insert_with(|| Some(operation.clone()));
            if known.as_ref() != Some(&operation) {
                *known = None;
            }
        }
    }

    /// Add an operation that starts `start_delta_ns` after the end of its queue's last one. `None` if the queue, the
    /// name or a time is invalid.
    fn add_operation(&mut self, activity: &Activity, has_name: bool) -> Option<()> {
        let &Activity { queue: id, correlation: correlation_id, start_delta_ns, duration_ns, work } = activity;
        let queue = self.queue(id)?;
        let start = time(queue.last_end, start_delta_ns)?;
        let end = time(start, i64::try_from(duration_ns).ok().filter(|&ns| ns <= MAX_DURATION_NS)?)?;
        queue.last_end = end;
        let correlation = correlation(correlation_id).filter(|_| has_name)?;
        self.operations.push(Operation { start, end, queue: id, correlation, work });
        Some(())
    }
}

impl ThreadCalls {
    /// Add a call for a device that starts `start_delta_ns` after the last one's end. `None` if the node, the name or a
    /// time is invalid.
    fn add_launch(&mut self, launch: &Launch, has_name: bool) -> Option<()> {
        let start = time(self.last_launch, launch.start_delta_ns)?;
        let end = time(start, i64::try_from(launch.duration_ns).ok()?)?;
        self.last_launch = end;
        let correlation = correlation(launch.correlation).filter(|_| has_name && self.has_node(launch.node))?;
        let (node, name, interface) = (self.visible_node(launch.node), launch.name, launch.interface);
        self.launches.push(LaunchCall { start, end, node, name, interface, correlation });
        Some(())
    }

    /// Check if the thread has individual calls of operators or into runtimes of devices.
    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty() || !self.launches.is_empty()
    }
}

impl Calls {
    /// Apply a stream record of a device, of its programs, or of a call for it; `None` if it refers to an undefined
    /// entry. `lost` is the number of skipped bytes before it.
    pub(super) fn apply_device_record(&mut self, record: Record, lost: usize) -> Option<()> {
        match record {
            Record::Device(device) => {
                let id = device.id;
                store((&mut self.devices.devices, &mut self.devices.device_holes), id, lost, *device)
            }
            Record::Queue(queue) => self.devices.add_queue(queue, lost),
            Record::Clock(reading) => self.devices.add_reading(reading),
            Record::Launch(launch) => {
                let has_name = self.has_text(launch.name);
                self.thread(launch.thread)?.add_launch(&launch, has_name)
            }
            Record::Activity(activity) => {
                let has_name = match activity.work {
                    Work::Kernel { name, .. } => self.has_text(name),
                    _ => true,
                };
                self.devices.add_operation(&activity, has_name)
            }
            Record::Compiled(program) => {
                self.devices.add_program(program);
                Some(())
            }
            _ => Some(()),
        }
    }

    /// Largest correlation ID of the process, 0 if there are none.
    pub(super) fn last_correlation(&self) -> i64 {
        let of_launches = self.threads.iter().flat_map(|thread| &thread.launches).map(|launch| launch.correlation);
        let of_operations = self.devices.operations.iter().map(|operation| operation.correlation);
        of_launches.chain(of_operations).max().unwrap_or(0)
    }
}

/// Correlation ID of a record; `None` if so large that the stream must be damaged.
fn correlation(id: u64) -> Option<i64> {
    i64::try_from(id).ok().filter(|_| id <= MAX_CORRELATION)
}
