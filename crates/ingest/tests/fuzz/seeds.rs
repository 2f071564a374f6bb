//! Seed inputs of the fuzz targets: small excerpts of the generated training step, each damaged in every known way, so
//! that fuzzing starts from realistic traces. None of them is stored in the repository.

use stackline_recording::{
    Activity, ChunkWriter, ClockReading, CompiledOperation, CompiledProgram, CopyDirection, Device, Launch, MemoryKind,
    OperationClock, Process, Queue, Record, Thread, Work,
};
use stackline_testkit::xspace::{Event, Instruction, Line, Plane, Stat, program, space};
use stackline_testkit::{damage, demo, io, recording, scan};

/// Records per excerpt: the fuzzer is quickest on inputs of a few kilobytes.
const RECORDS: usize = 8;
const EXCERPTS: usize = 12;

/// Small exports of Nsight Systems and recordings of rocmProfileData and rocprofv3: pages of 512 bytes, with and without some tables.
fn exports() -> Option<Vec<Vec<u8>>> {
    const TEXTS: &str = "PRAGMA page_size = 512; CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');";
    const CALLS: &str = "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 5, 83886086, 7, 2), (9, 12, 83886086, 8, 2);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, correlationId INT, shortName INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (6, 20, 0, 7, 7, 1), (20, 30, 0, 7, 8, 1);";
    const RANGES: &str = "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT);
        INSERT INTO NVTX_EVENTS VALUES (0, 40, 59, 'ProfilerStep#3', 83886086), (1, 4, 59, 'aten::mm, seq = 4, sizes = [[2]]', 83886086);
        CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, smCount INT); INSERT INTO TARGET_INFO_GPU VALUES (0, 'a GPU', 4);";
    const RPD: &str = "PRAGMA page_size = 512; CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
        INSERT INTO rocpd_string VALUES (1, 'hipLaunchKernel'), (2, 'gemm'), (3, 'KernelExecution');
        CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT, apiName_id INT, args_id INT);
        INSERT INTO rocpd_api VALUES (1, 5, 6, 1, 5, 1, 2);
        CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INT, queueId INT, start INT, end INT, description_id INT, opType_id INT);
        INSERT INTO rocpd_op VALUES (1, 0, 0, 6, 20, 2, 3);
        CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INT, op_id INT); INSERT INTO rocpd_api_ops VALUES (1, 1, 1);";
    const ROCPD: &str = "PRAGMA page_size = 512; CREATE TABLE rocpd_info_agent_0 (id INTEGER PRIMARY KEY, type TEXT, type_index INT);
        INSERT INTO rocpd_info_agent_0 VALUES (2, 'GPU', 0);
        CREATE TABLE rocpd_kernel_dispatch_0 (id INTEGER PRIMARY KEY, pid INT, agent_id INT, stream_id INT, start INT, end INT, event_id INT);
        INSERT INTO rocpd_kernel_dispatch_0 VALUES (1, 5, 2, 0, 6, 20, 1);
        CREATE TABLE rocpd_event_0 (id INTEGER PRIMARY KEY, stack_id INT, extdata TEXT); INSERT INTO rocpd_event_0 VALUES (1, 7, '{\"message\": \"a\"}');
        CREATE TABLE rocpd_gpu_pc_sample_0 (id INTEGER PRIMARY KEY, timestamp INT, dispatch_id INT, correlation_id INT, code_object_id INT, code_object_offset INT, wave_issued INT, stall_reason INT);
        INSERT INTO rocpd_gpu_pc_sample_0 VALUES (1, 8, 0, 7, 2, 16, 0, 3), (2, 9, 0, 0, 0, 64, 1, 8);";
    let folder = tempfile::tempdir().ok()?;
    let export = |(i, sql): (usize, String)| {
        let path = folder.path().join(i.to_string());
        rusqlite::Connection::open(&path).ok()?.execute_batch(&sql).ok()?;
        std::fs::read(path).ok()
    };
    let each = [[TEXTS, CALLS, ""], [TEXTS, RANGES, ""], [TEXTS, CALLS, RANGES], [RPD, "", ""], [ROCPD, "", ""]]
        .map(|parts| parts.concat());
    each.into_iter().enumerate().map(export).collect()
}

/// Profiles of each form.
const PROFILES: &[&[u8]] = &[
    br#"{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"f","file":"a.py","line":3},{"name":"g"}]},"profiles":[{"type":"sampled","name":"t","unit":"seconds","samples":[[0,1],[0]],"weights":[0.5,2]},{"type":"evented","unit":"none","events":[{"type":"O","at":1,"frame":0},{"type":"O","at":2,"frame":1},{"type":"C","at":4,"frame":1},{"type":"C","at":5,"frame":0}]}]}"#,
    br#"{"meta":{"interval":2,"preprocessedProfileVersion":49},"threads":[{"name":"m","pid":"7","tid":8,"stringArray":["f","a.py"],"samples":{"stack":[1,null,0],"weight":[1,2,3],"weightType":"samples"},"stackTable":{"frame":[0,1],"prefix":[null,0]},"frameTable":{"func":[0,0],"line":[12,null]},"funcTable":{"name":[0],"fileName":[1],"lineNumber":[3],"resource":[-1]}}]}"#,
    b"main (train.py:3);step (train.py:12);gemm 12\nmain (train.py:3);step 3\nstart_thread;operator() (int) 7\n",
    b"\x0a\x04\x08\x01\x10\x02\x12\x06\x0a\x02\x02\x01\x12\x00\x22\x08\x08\x01\x22\x04\x08\x01\x10\x0c\x22\x08\x08\x02\x22\x04\x08\x01\x10\x07\x2a\x04\x08\x01\x10\x03\x32\x00\x32\x03cpu\x32\x02ns\x32\x01f",
];

/// A document of rocprofv3, and its tables of CSV.
const ROCPROFV3: &[&[u8]] = &[
    br#"{"rocprofiler-sdk-tool":[{"metadata":{"pid":9},"agents":[{"id":{"handle":7},"type":2,"name":"g","logical_node_type_id":0}],"strings":{"buffer_records":[{"kind":"HIP_RUNTIME_API","operations":["hipLaunchKernel"]}],"marker_api":[{"key":6,"value":"aten::mm, seq = 3"}]},"kernel_symbols":[{"kernel_id":1,"formatted_kernel_name":"gemm"}],"callback_records":{"counter_collection":[{"dispatch_data":{"dispatch_info":{"dispatch_id":1}},"records":[{"counter_id":{"handle":5},"value":1.5}]}]},"buffer_records":{"kernel_dispatch":[{"correlation_id":{"internal":7},"start_timestamp":20,"end_timestamp":30,"stream_id":{"handle":3},"dispatch_info":{"agent_id":{"handle":7},"queue_id":{"handle":2},"kernel_id":1,"dispatch_id":1,"workgroup_size":{"x":64,"y":1,"z":1},"grid_size":{"x":130,"y":2,"z":1}}}],"hip_api":[{"kind":0,"operation":0,"correlation_id":{"internal":7},"start_timestamp":11,"end_timestamp":12,"thread_id":9}],"memory_copy":[{"start_timestamp":40,"end_timestamp":41,"bytes":8}]}}]}"#,
    b"Kind,Agent_Id,Queue_Id,Stream_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z\nKERNEL_DISPATCH,Agent 1,2,3,\"gemm(int, float)\",7,200,300,64,1,1,130,2,1\n",
    b"\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n\"MARKER_CORE_API\",\"aten::mm, seq = 3, sizes = [[2]]\",9,9,6,100,150\n",
    b"Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Grid_Size,Kernel_Name,Workgroup_Size,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp\n1,1,Agent 1,1,9,1024,k,512,FETCH_SIZE,10.5,10,20\n",
    b"Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\nMEMORY_COPY,HOST_TO_DEVICE,0,1,3,10,20\n",
    b"\"Sample_Timestamp\",\"Dispatch_Id\",\"Instruction\",\"Instruction_Comment\",\"Correlation_Id\",\"Wave_Issued_Instruction\",\"Instruction_Type\",\"Stall_Reason\"\n21,1,\"s_endpgm\",\"a.hip:3\",7,0,\"T\",\"WAITCNT\"\n22,0,\"\",\"PC:64\",0,1,\"VALU\",\"S\"\n",
    br#"{"rocprofiler-sdk-tool":[{"metadata":{"pid":9},"code_objects":[{"code_object_id":2,"uri":"file:///g.so#offset=1"}],"strings":{"pc_sample_instructions":["s_endpgm"],"pc_sample_comments":["a.hip:3"]},"buffer_records":{"kernel_dispatch":[{"start_timestamp":20,"end_timestamp":30,"dispatch_info":{"dispatch_id":1}}],"pc_sample_stochastic":[{"record":{"timestamp":21,"dispatch_id":1,"corr_id":{"internal":7},"pc":{"code_object_id":2,"code_object_offset":16},"wave_issued":0,"snapshot":{"stall_reason":"WAITCNT"}},"inst_index":0},{"record":{"timestamp":22,"pc":{"code_object_id":0,"code_object_offset":64}},"inst_index":-1}]}}]}"#,
];

/// XProf profiles: a host with steps and calls, a device with kernels, and their XLA programs.
fn profiles() -> [Vec<u8>; 2] {
    let text = |text: &str| Stat::Text(text.to_owned());
    let add = Instruction { name: "add.1", opcode: "add", operator: "jit(f)/add", line: ("a.py", 5) };
    let programs =
        Plane::new(0, "/host:metadata").kind("jit_f(7)", "", &[("Hlo Proto", Stat::Bytes(program("jit_f", &[add])))]);
    let python = Line::new(9, "python", 1_000)
        .with(Event::new("train", 0, 900_000).stat("step_num", Stat::Int(3)))
        .with(Event::new("$a.py:5 f", 10_500, 800_000))
        .with(
            Event::new("hipModuleLaunchKernel", 20_000, 5_000)
                .stat("correlation_id", Stat::Uint(4))
                .stat("_p", Stat::Uint(1)),
        )
        .with(Event::new("MemoryAllocation", 30_000, 0).stat("fragmentation", Stat::Float(0.5)));
    let stream = Line::new(13, "Stream #13(Compute)", 1_000).with(
        Event::new("add_1", 40_000, 300_000)
            .stat("correlation_id", Stat::Uint(4))
            .stat("hlo_op", Stat::Name("add.1".to_owned()))
            .stat("program_id", Stat::Uint(7))
            .stat("kernel_details", text("regs:38 shm:0 grid:160,1,1 block:64,1,1")),
    );
    let host = Plane::new(1, "/host:CPU").with(python);
    let device = Plane::new(2, "/device:GPU:0").with(stream).stat("memory_size", Stat::Uint(1 << 34));
    [space(&[programs, device, host.clone()], &["host"]), space(&[host], &[])]
}

/// Documents of a few records each from a generated step, alternating between object form and array form.
fn excerpts() -> Option<Vec<Vec<u8>>> {
    let config = demo::Config { steps: 1, layers: 1, ..demo::Config::default() };
    let text = demo::generate(&config).into_bytes();
    let layout = scan::layout(&text)?;
    let records = scan::elements(&text, &layout.events)?;
    let stride = records.len() / EXCERPTS;
    let excerpt = |n: usize| {
        let some = records[n * stride..].iter().take(RECORDS).map(|range| &text[range.clone()]);
        let list = some.collect::<Vec<_>>().join(&b",\n"[..]);
        if n.is_multiple_of(2) {
            [
                &b"{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1718000000000000000, \"traceEvents\": [\n"[..],
                &list,
                b"\n]}",
            ]
            .concat()
        } else {
            [&b"[\n"[..], &list, b"\n]"].concat()
        }
    };
    Some((0..EXCERPTS).map(excerpt).collect())
}

/// Forms that do not occur in the generated step.
const OTHERS: &[&str] = &[
    r#"[{"ph":"B","name":"a","pid":1,"tid":1,"ts":1},{"ph":"E","pid":1,"tid":1,"ts":2,"args":{"x":1}}]"#,
    r#"[{"ph":"b","cat":"c","id":"0x1","name":"a","pid":1,"ts":1},{"ph":"n","cat":"c","id":"0x1","name":"m","pid":1,"ts":2},{"ph":"e","cat":"c","id":"0x1","name":"a","pid":1,"ts":3}]"#,
    r#"[{"ph":"b","id2":{"local":"0x1"},"name":"a","pid":1,"ts":1},{"ph":"e","id2":{"local":"0x1"},"name":"a","pid":1,"ts":3}]"#,
    r#"{"stackFrames":{"1":{"name":"main"},"2":{"name":"f","parent":"1"}},"traceEvents":[{"ph":"P","name":"s","sf":2,"ts":1,"pid":1,"tid":1}]}"#,
    r#"[{"ph":"C","name":"c","pid":1,"ts":1,"args":{"a":1,"b":2.5}},{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"t"}}]"#,
    r#"{"deviceProperties":[{"name":"NVIDIA B200","computeMajor":10}],"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,"args":{"correlation":1,"stream":7}},{"ph":"X","cat":"kernel","name":"l","pid":0,"tid":7,"ts":3,"dur":5}]}"#,
];

/// Memory traces, one of each form.
const MEMORY: &[&[u8]] = &[
    b"\x80\x02}q\x00(X\x0d\x00\x00\x00device_tracesq\x01]q\x02]q\x03}q\x04(X\x06\x00\x00\x00actionq\x05X\x05\x00\x00\x00allocq\x06X\x04\x00\x00\x00addrq\x07K\x10X\x04\x00\x00\x00sizeq\x08K\x08uaau.",
    br#"{"device_traces":[[{"action":"alloc","addr":16,"size":8,"time_us":1},{"action":"free_requested","addr":16,"size":8}]],"segments":[{"device":0,"address":0,"total_size":64,"blocks":[{"size":64,"state":"active_allocated"}]}]}"#,
    b"[[-1, 1, 512, 0], [5, 2, 64, 3], [6, 3, -64, 3], [6, 3, 64, 4], [7, 4, -64, 4]]",
    br#"{"schema":"1.0.1","nodes":[{"name":"aten::add","id":3,"parent":1,"op_schema":"aten::add(Tensor self, Tensor(a!) out) -> Tensor","inputs":[[2,4,0,8,4,"cpu"]],"input_shapes":[[8]],"input_types":["Tensor(float)"],"outputs":[[5,6,0,8,4,"cpu"]],"output_shapes":[[8]],"output_types":["Tensor(float)"]}]}"#,
    b"a x 256; h x; k scale x>x\nd x; f x; end",
    br#"[{"name": "snapshot.pickle", "base64": "gAJ9Lg=="}]"#,
];

/// The files of DrGPUM's collector, concatenated.
const DRGPUM: &[&[u8]] = &[
    b"[0]: 0(0), 2(2), 3(4), 5(5)\n[1]: 1(0), 3(4), 4(3), 6(5)\n\0op_id=0, size=1024\nop_id=1, size=64\n\0op_id: 3, KERNEL 7, stream_id: 2\n",
    b"[7]: 7(0), 8(1)\n\0op_id=7, size=512\n",
];

/// The records of a stream, without its header and the length and checksum before each chunk.
fn records(stream: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    let mut rest = &stream[8..];
    while let Some((prefix, chunk)) = rest.split_at_checked(8) {
        let length = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
        let (this, next) = chunk.split_at(length.min(chunk.len()));
        records.extend(this);
        rest = next;
    }
    records
}

/// The records of a stream with a device: a launch with its kernel, a copy, and readings of the device's clock.
fn device_records() -> Option<Vec<u8>> {
    let text = |id: u32, text: &str| Record::Text { id, text: text.to_owned() };
    let device = Device { name: "a GPU".to_owned(), clock: OperationClock::Device, ..Device::default() };
    let reading =
        |device_ns: i64| Record::Clock(ClockReading { device: 0, device_ns, host_ns: device_ns + 500, error_ns: 5 });
    let kernel = Work::Kernel { name: 1, grid: [4, 2, 1], block: [64, 1, 1], shared_bytes: 8, registers: 32 };
    let (from, to) = (MemoryKind::Pageable, MemoryKind::Device);
    let copy = Work::Copy { direction: CopyDirection::HostToDevice, from, to, bytes: 64 };
    let compiled =
        CompiledOperation { kernel: "gemm".to_owned(), fused: vec!["add".to_owned()], ..CompiledOperation::default() };
    let operation = |correlation: u64, work: Work| {
        Record::Activity(Activity { queue: 0, correlation, start_delta_ns: 30, duration_ns: 90, work })
    };
    let records = [
        Record::Process(Box::new(Process { pid: 7, ..Process::default() })),
        Record::Restart,
        Record::Thread(Thread { id: 0, tid: 7, ..Thread::default() }),
        text(0, "cudaLaunchKernel"),
        text(1, "gemm"),
        Record::Device(Box::new(device)),
        Record::Queue(Queue { number: 7, ..Queue::default() }),
        reading(0),
        reading(900),
        Record::Compiled(CompiledProgram { name: "jit_f".to_owned(), operations: vec![compiled] }),
        Record::Launch(Launch { correlation: 3, start_delta_ns: 400, duration_ns: 9, ..Launch::default() }),
        operation(3, kernel),
        operation(0, copy),
        Record::End { at_ns: 1_000 },
    ];
    let mut chunk = ChunkWriter::new();
    records.iter().try_for_each(|record| chunk.push(record)).ok()?;
    Some(chunk.finish().get(8..)?.to_vec())
}

/// Seed inputs, each with its fuzz target.
pub(crate) fn seeds() -> Option<Vec<(&'static str, Vec<u8>)>> {
    let excerpts = excerpts()?;
    let mut seeds = Vec::new();
    for text in OTHERS.iter().map(|t| t.as_bytes().to_vec()).chain(excerpts.iter().cloned()) {
        seeds.push(("document", text.clone()));
        seeds.push(("chrome", text));
    }
    for (_, stream) in recording::streams(&recording::Config { steps: 1, ..recording::Config::default() }) {
        seeds.push(("recording", records(&stream)));
    }
    seeds.push(("recording", device_records()?));
    seeds.extend(DRGPUM.iter().map(|bytes| ("drgpum", bytes.to_vec())));
    seeds.extend(MEMORY.iter().map(|bytes| ("memory", bytes.to_vec())));
    for (i, kind) in damage::kinds().iter().enumerate() {
        for seed in 0..3 {
            seeds.push(("chrome", damage::apply(kind, &excerpts[(i + seed) % excerpts.len()], seed as u64)));
        }
    }
    seeds.extend(exports()?.into_iter().map(|export| ("nsys", export)));
    seeds.extend(PROFILES.iter().map(|bytes| ("profiles", bytes.to_vec())));
    seeds.extend(ROCPROFV3.iter().map(|bytes| ("rocprofv3", bytes.to_vec())));
    seeds.extend(profiles().map(|profile| ("xplane", profile)));
    for (i, text) in excerpts.iter().enumerate() {
        // The first byte chooses how the rest is packed.
        seeds.push(("packed", [&[i as u8][..], text].concat()));
        seeds.push(("packed", [&[0][..], &io::gzip(text)].concat()));
    }
    for number in
        ["1419247332972.313", "0.0625", "1e-3", "1.5E+3", "-17", "1695835535123456001", "00", "9007199254740993"]
    {
        let digits = number.bytes().map(|b| b"0123456789.-+eE0".iter().position(|a| *a == b.to_ascii_lowercase()));
        let digits: Vec<u8> = digits.map(|d| d.unwrap_or(0) as u8).collect();
        seeds.push(("numbers", [&digits[..], &digits[..]].concat()));
    }
    Some(seeds)
}
