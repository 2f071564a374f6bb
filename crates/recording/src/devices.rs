//! Types of recorder streams: accelerators, their queues and clocks, operations of devices, and the calls that launch
//! them.
//!
//! Ids of devices and queues are local to the process. A launch and the operations that it launched have the same
//! correlation id.

use serde::{Deserialize, Serialize};

/// Accelerator that the process uses, with its sizes and peak rates as its driver reports them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Id within the stream.
    pub id: u32,
    /// Number of the device in the process, as its runtime counts (`cudaGetDevice`, `hipGetDevice`).
    pub number: u32,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Name of the vendor; empty if unknown.
    pub vendor: String,
    /// Product name; empty if unknown.
    pub name: String,
    /// Unique id of the device, the same in all processes; empty if unknown.
    pub uuid: String,
    /// Address on the PCI bus, such as `0000:3b:00.0`; empty if unknown.
    pub bus_id: String,
    /// Memory in bytes, 0 if unknown.
    pub memory_bytes: u64,
    /// Streaming multiprocessors (NVIDIA) or compute units (AMD), 0 if unknown.
    pub multiprocessors: u32,
    /// Threads of a warp (NVIDIA) or work-items of a wavefront (AMD), 0 if unknown.
    pub warp_size: u32,
    /// Compute capability: major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// Peak rates of memory and arithmetic.
    pub peak_rates: PeakRates,
    /// Clock of the times of its operations.
    pub clock: OperationClock,
}

/// Kind of an accelerator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A GPU.
    #[default]
    Gpu,
    /// A TPU.
    Tpu,
    /// Another accelerator.
    Other,
}

/// Peak rates of a device. Unknown ones are `None`, or missing in the list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeakRates {
    /// Peak memory bandwidth in bytes/s.
    pub memory_bandwidth: Option<f64>,
    /// Highest clock in Hz.
    pub clock_rate: Option<f64>,
    /// Peak rates in flop/s by number format: `fp64`, `fp32`, `tf32`, `fp16`, `bf16`, `fp8`.
    pub flops: Vec<(String, f64)>,
}

/// Clock of the times of a device's operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationClock {
    /// `CLOCK_MONOTONIC` of the host: the driver converts the times.
    #[default]
    Host,
    /// A clock of the device, in ns. [`ClockReading`]s relate it to the host's clock.
    Device,
}

/// Queue of a device that runs its operations in order: a CUDA or HIP stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Id within the stream.
    pub id: u32,
    /// The device.
    pub device: u32,
    /// Number of the queue on its device.
    pub number: u64,
    /// Priority: lower numbers run first.
    pub priority: i32,
    /// Name of the queue; empty without one.
    pub name: String,
}

/// Simultaneous times of a device's clock and of the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The device.
    pub device: u32,
    /// Time of the device's clock in ns.
    pub device_ns: i64,
    /// Time of the host, `CLOCK_MONOTONIC`.
    pub host_ns: i64,
    /// Largest difference from the true time of the host in ns: half of the time that the reading took.
    pub error_ns: u64,
}

/// Call of a thread into the runtime or the driver of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Thread of the call.
    pub thread: u32,
    /// Calling context, without the call itself.
    pub node: u32,
    /// Name of the call, a text: `cudaLaunchKernel`.
    pub name: u32,
    /// Interface of the call.
    pub interface: Interface,
    /// Correlation id of the call and of the operations that it launched; 0 without one.
    pub correlation: u64,
    /// ns since the end of the previous launch of the thread (negative: outer calls end after inner ones). For the
    /// first one after a [`crate::Record::Restart`], since the zero of `CLOCK_MONOTONIC`.
    pub start_delta_ns: i64,
    /// Duration in ns.
    pub duration_ns: u64,
}

/// Interface of a call for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Interface {
    /// Runtime: CUDA's runtime, HIP.
    #[default]
    Runtime,
    /// Driver: CUDA's driver, HSA.
    Driver,
}

/// Operation of a device: a kernel, copy or fill that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Queue of the operation.
    pub queue: u32,
    /// Correlation id of the call that launched it; 0 without one. All kernels of a graph have that of its launch.
    pub correlation: u64,
    /// ns since the end of the previous operation of the queue, by the [`Device::clock`]. For the first one after a
    /// [`crate::Record::Restart`], since the zero of that clock.
    pub start_delta_ns: i64,
    /// Duration in ns.
    pub duration_ns: u64,
    /// Kind of the operation.
    pub work: Work,
}

/// Kind of an operation of a device, with its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Work {
    /// A kernel.
    Kernel {
        /// Name, a text.
        name: u32,
        /// Number of blocks (AMD: work-groups) in each dimension; 0 if unknown.
        grid: [u32; 3],
        /// Number of threads of a block (AMD: work-items) in each dimension; 0 if unknown.
        block: [u32; 3],
        /// Shared memory of a block in bytes.
        shared_bytes: u32,
        /// Registers of a thread, 0 if unknown.
        registers: u32,
    },
    /// A copy.
    Copy {
        /// Direction of the copy.
        direction: CopyDirection,
        /// Kind of the memory that is read.
        from: MemoryKind,
        /// Kind of the memory that is written.
        to: MemoryKind,
        /// Number of bytes.
        bytes: u64,
    },
    /// A fill of memory with a value.
    Fill {
        /// Kind of the memory.
        memory: MemoryKind,
        /// Number of bytes.
        bytes: u64,
    },
}

impl Default for Work {
    fn default() -> Self {
        Self::Fill { memory: MemoryKind::Unknown, bytes: 0 }
    }
}

/// Direction of a copy between host and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CopyDirection {
    /// Unknown.
    #[default]
    Unknown,
    /// Copy from the host to the device.
    HostToDevice,
    /// Copy from the device to the host.
    DeviceToHost,
    /// Copy within the device.
    DeviceToDevice,
    /// Copy within the host.
    HostToHost,
    /// Copy from another device.
    PeerToPeer,
}

/// Kind of memory that an operation of a device reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Unknown.
    #[default]
    Unknown,
    /// Pageable memory of the host.
    Pageable,
    /// Page-locked memory of the host.
    Pinned,
    /// Memory of a device.
    Device,
    /// An array of a device.
    Array,
    /// Unified memory.
    Managed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::{ChunkWriter, CompiledOperation, CompiledProgram, HEADER, Reader, Record};
    use proptest::prelude::*;

    /// Number of the first kind of records of devices.
    const FIRST: u32 = 35;

    fn sizes() -> impl Strategy<Value = [u32; 3]> {
        (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(x, y, z)| [x, y, z])
    }

    fn memory() -> impl Strategy<Value = MemoryKind> {
        use MemoryKind::{Array, Device, Managed, Pageable, Pinned, Unknown};
        proptest::sample::select(vec![Unknown, Pageable, Pinned, Device, Array, Managed])
    }

    fn direction() -> impl Strategy<Value = CopyDirection> {
        use CopyDirection::{DeviceToDevice, DeviceToHost, HostToDevice, HostToHost, PeerToPeer, Unknown};
        proptest::sample::select(vec![Unknown, HostToDevice, DeviceToHost, DeviceToDevice, HostToHost, PeerToPeer])
    }

    fn work() -> impl Strategy<Value = Work> {
        prop_oneof![
            (any::<u32>(), sizes(), sizes(), any::<u32>(), any::<u32>()).prop_map(
                |(name, grid, block, shared_bytes, registers)| Work::Kernel {
                    name,
                    grid,
                    block,
                    shared_bytes,
                    registers
                }
            ),
            (direction(), memory(), memory(), any::<u64>()).prop_map(|(direction, from, to, bytes)| Work::Copy {
                direction,
                from,
                to,
                bytes
            }),
            (memory(), any::<u64>()).prop_map(|(memory, bytes)| Work::Fill { memory, bytes }),
        ]
    }

    fn device() -> impl Strategy<Value = Device> {
        let rate = || proptest::option::of(any::<u32>().prop_map(f64::from));
        let kinds = vec![DeviceKind::Gpu, DeviceKind::Tpu, DeviceKind::Other];
        let clocks = vec![OperationClock::Host, OperationClock::Device];
        let numbers = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>(), any::<u32>());
        let texts = (".{0,9}", ".{0,9}", ".{0,9}", ".{0,9}");
        let rates = (rate(), rate(), proptest::collection::vec((".{0,4}", any::<u32>().prop_map(f64::from)), 0..3));
        let capability = proptest::option::of((any::<u32>(), any::<u32>()));
        let chosen = (proptest::sample::select(kinds), proptest::sample::select(clocks), capability);
        (numbers, texts, rates, chosen).prop_map(|(numbers, texts, rates, (kind, clock, compute_capability))| {
            let (id, number, memory_bytes, multiprocessors, warp_size) = numbers;
            let (vendor, name, uuid, bus_id) = texts;
            let (memory_bandwidth, clock_rate, flops) = rates;
            let peak_rates = PeakRates { memory_bandwidth, clock_rate, flops };
            Device {
                id,
                number,
                kind,
                vendor,
                name,
                uuid,
                bus_id,
                memory_bytes,
                multiprocessors,
                warp_size,
                compute_capability,
                peak_rates,
                clock,
            }
        })
    }

    fn program() -> impl Strategy<Value = Record> {
        let fused = proptest::collection::vec(".{0,4}", 0..3);
        let operation =
            (".{0,9}", ".{0,9}", fused, ".{0,9}", any::<u32>()).prop_map(|(kernel, operator, fused, file, line)| {
                CompiledOperation { kernel, operator, fused, file, line }
            });
        (".{0,9}", proptest::collection::vec(operation, 0..3))
            .prop_map(|(name, operations)| Record::Compiled(CompiledProgram { name, operations }))
    }

    fn record() -> impl Strategy<Value = Record> {
        let queue = (any::<u32>(), any::<u32>(), any::<u64>(), any::<i32>(), ".{0,9}").prop_map(
            |(id, device, number, priority, name)| Record::Queue(Queue { id, device, number, priority, name }),
        );
        let reading = (any::<u32>(), any::<i64>(), any::<i64>(), any::<u64>()).prop_map(
            |(device, device_ns, host_ns, error_ns)| {
                Record::Clock(ClockReading { device, device_ns, host_ns, error_ns })
            },
        );
        let interface = proptest::sample::select(vec![Interface::Runtime, Interface::Driver]);
        let times = || (any::<u64>(), any::<i64>(), any::<u64>());
        let launch = (any::<u32>(), any::<u32>(), any::<u32>(), interface, times()).prop_map(
            |(thread, node, name, interface, (correlation, start_delta_ns, duration_ns))| {
                Record::Launch(Launch { thread, node, name, interface, correlation, start_delta_ns, duration_ns })
            },
        );
        let activity =
            (any::<u32>(), times(), work()).prop_map(|(queue, (correlation, start_delta_ns, duration_ns), work)| {
                Record::Activity(Activity { queue, correlation, start_delta_ns, duration_ns, work })
            });
        prop_oneof![
            device().prop_map(|device| Record::Device(Box::new(device))),
            queue,
            reading,
            launch,
            activity,
            program(),
            Just(Record::Restart),
            any::<u32>().prop_map(|id| Record::Text { id, text: "gemm".to_owned() }),
        ]
    }

    fn chunk(records: &[Record]) -> Vec<u8> {
        let mut writer = ChunkWriter::new();
        records.iter().for_each(|record| writer.push(record).unwrap());
        writer.finish().to_vec()
    }

    proptest! {
        #[test]
        fn records_survive_a_round_trip(records in proptest::collection::vec(record(), 1..20)) {
            let file = [HEADER.as_slice(), &chunk(&records)].concat();
            let mut reader = Reader::new(&file).unwrap();
            prop_assert_eq!(reader.by_ref().collect::<Vec<Record>>(), records);
            prop_assert_eq!((reader.damage(), reader.unknown().count()), (None, 0));
        }

        /// A chunk that is torn anywhere hides no chunk after it.
        #[test]
        fn torn_chunks_hide_no_later_records(
            torn in proptest::collection::vec(record(), 1..9),
            later in proptest::collection::vec(record(), 1..9),
            at in any::<prop::sample::Index>(),
        ) {
            let (torn, last) = (chunk(&torn), chunk(&later));
            let kept = 1 + at.index(torn.len() - 1);
            let file = [HEADER.as_slice(), &torn[..kept], &last].concat();
            let mut reader = Reader::new(&file).unwrap();
            prop_assert_eq!(reader.by_ref().collect::<Vec<Record>>(), later);
            prop_assert_eq!(reader.skipped(), kept);
        }
    }

    /// A reader that knows only earlier kinds skips each block by its length and finds the records after it.
    #[test]
    fn older_readers_can_skip_each_kind() {
        let text = || Record::Text { id: 0, text: "gemm".to_owned() };
        let records = [
            Record::Device(Box::default()),
            Record::Queue(Queue::default()),
            Record::Clock(ClockReading::default()),
            Record::Launch(Launch::default()),
            Record::Activity(Activity::default()),
            Record::Compiled(CompiledProgram::default()),
        ];
        assert_eq!(FIRST + records.len() as u32, Record::KINDS);
        for (kind, record) in (FIRST..).zip(records) {
            let chunk = chunk(&[record, text()]);
            let (block, rest) = Block::open(&chunk[8..]).unwrap();
            assert_eq!((block.kind, block.left), (kind, 1));
            let (mut known, rest) = Block::open(rest).unwrap();
            assert_eq!(known.next(), Some(text()));
            assert!(rest.is_empty());
        }
    }

    /// Typical operations of one queue: differences of times keep them short.
    #[test]
    fn operations_take_few_bytes() {
        let kernel = |at: u64| {
            let (grid, block) = ([at as u32 % 2_000, 1, 1], [256, 1, 1]);
            let work = Work::Kernel { name: at as u32 % 90, grid, block, shared_bytes: 8_192, registers: 64 };
            let (correlation, duration_ns) = (1_000_000 + at, 9_000 + at % 500);
            Record::Activity(Activity { queue: 3, correlation, start_delta_ns: 2_000, duration_ns, work })
        };
        let kernels: Vec<Record> = (0..1_000).map(kernel).collect();
        let bytes = chunk(&kernels).len();
        assert!(bytes < 24 * 1_000, "{bytes} bytes");
    }
}
