"""Programs as others write them, with the frameworks that people use, each profiled the way its users would.

    python benches/gpu/frameworks.py NAME OUT

writes the trace of NAME (see `PROGRAMS`) to OUT. A program whose framework is missing says so and ends with status 3.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")


def size(on_gpu: int, here: int) -> int:
    return on_gpu if GPU else here


def profiler(path: Path, wait: int = 1, active: int = 3, **options):
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if GPU else [])
    options = {"record_shapes": True, "with_stack": True} | options
    return profile(
        activities=activities,
        schedule=schedule(wait=wait, warmup=2, active=active, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
        **options,
    )


def gpt2_with_trainer(out: Path) -> None:
    """Hugging Face's Trainer on a GPT-2 with random weights, gradient accumulation of 2."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    model = GPT2LMHeadModel(GPT2Config(n_layer=size(12, 2), n_embd=size(768, 32), n_head=size(12, 2), vocab_size=size(50257, 64)))
    tokens = [torch.randint(64, (size(512, 16),)) for _ in range(256)]
    rows = [{"input_ids": row, "labels": row} for row in tokens]

    class Profile(TrainerCallback):
        def on_step_end(self, *_, **__):
            recorder.step()

    options = TrainingArguments(
        str(out / "trainer"), per_device_train_batch_size=size(8, 2), gradient_accumulation_steps=2, max_steps=7, bf16=GPU,
        report_to=[], save_strategy="no", logging_steps=1, disable_tqdm=True,
    )  # fmt: skip
    with profiler(out / "hf-gpt2-trainer.json") as recorder:
        Trainer(model, options, train_dataset=rows, callbacks=[Profile()]).train()


def llama_generates(out: Path) -> None:
    """Generation by a Llama with random weights and a cache that grows."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=size(1024, 32), intermediate_size=size(2816, 64), num_hidden_layers=size(12, 2), num_attention_heads=8,
        num_key_value_heads=4, vocab_size=size(32000, 64),
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16).eval()
    tokens = torch.randint(64, (4, 128), device=DEVICE)
    options = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    model.generate(tokens, max_new_tokens=4, **options)
    with profiler(out / "hf-llama-generate.json", wait=0, active=1) as recorder:
        for _ in range(3):
            model.generate(tokens, max_new_tokens=16, **options)
            recorder.step()


class Digits(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return torch.rand(3, size(224, 32), size(224, 32)), index % 10


def resnet_by_timm(out: Path) -> None:
    """timm's ResNet-50 in float16 with a gradient scaler, fed by workers, default copies."""
    import timm

    model = timm.create_model("resnet50" if GPU else "resnet10t", num_classes=10).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    scaler = torch.amp.GradScaler(DEVICE.type)
    loader = torch.utils.data.DataLoader(Digits(), batch_size=size(64, 2), num_workers=4)
    with profiler(out / "timm-resnet50-amp.json") as recorder:
        for number, (images, labels) in enumerate(loader):
            images, labels = images.to(DEVICE), labels.to(DEVICE)
            with torch.autocast(DEVICE.type, torch.float16):
                loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            recorder.step()
            if number == 6:
                break


def lightning_trainer(out: Path) -> None:
    """Lightning's Trainer with its own profiler of PyTorch."""
    import lightning
    from lightning.pytorch.profilers import PyTorchProfiler

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = nn.Sequential(*(nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(8)), nn.Linear(1024, 10))

        def training_step(self, batch, _):
            features, labels = batch
            loss = F.cross_entropy(self.model(features), labels)
            self.log("loss", loss, prog_bar=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    rows = torch.utils.data.TensorDataset(torch.rand(2048, 1024), torch.randint(10, (2048,)))
    kept = PyTorchProfiler(dirpath=str(out), filename="lightning-mlp", schedule=schedule(wait=1, warmup=2, active=3), record_shapes=True)
    trainer = lightning.Trainer(
        max_steps=10, accelerator="auto", devices=1, profiler=kept, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        default_root_dir=str(out),
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=64))


def graph_network(out: Path) -> None:
    """A graph network of torch-geometric: scatter and gather."""
    from torch_geometric.nn import GATConv, GCNConv

    nodes, edges = size(50_000, 100), size(800_000, 400)
    features, links = torch.rand(nodes, 128, device=DEVICE), torch.randint(nodes, (2, edges), device=DEVICE)
    first, second, head = GCNConv(128, 128).to(DEVICE), GATConv(128, 32, heads=4).to(DEVICE), nn.Linear(128, 10).to(DEVICE)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters(), *head.parameters()])
    labels = torch.randint(10, (nodes,), device=DEVICE)
    with profiler(out / "pyg-gcn-gat.json") as recorder:
        for _ in range(7):
            optimizer.zero_grad()
            loss = F.cross_entropy(head(second(first(features, links).relu(), links)), labels)
            loss.backward()
            optimizer.step()
            recorder.step()


def gpt(layers=6, width=512):
    encoder = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0, norm_first=True)
    return nn.Sequential(nn.Embedding(4096, width), nn.TransformerEncoder(encoder, layers, enable_nested_tensor=False), nn.Linear(width, 4096))


def compiled_with_graphs(out: Path) -> None:
    """torch.compile in its mode that replays CUDA graphs."""
    model = gpt(size(6, 1), size(512, 32)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(4096, (size(16, 2), size(256, 8)), device=DEVICE)

    @torch.compile(mode="reduce-overhead")
    def loss_of(tokens):
        with torch.autocast(DEVICE.type, torch.bfloat16):
            return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    with profiler(out / "compiled-cuda-graphs.json", wait=4, active=3) as recorder:
        for _ in range(10):
            torch.compiler.cudagraph_mark_step_begin()
            loss_of(tokens).backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()


def distributed(out: Path) -> None:
    """DistributedDataParallel of one rank: a search for unused parameters, and gradients reduced in each of two passes."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANK": "0", "WORLD_SIZE": "1"}
    torch.distributed.init_process_group("nccl" if GPU else "gloo")
    inner = gpt(size(6, 1), size(512, 32)).to(DEVICE)
    model = nn.parallel.DistributedDataParallel(inner, find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(4096, (size(16, 2), size(256, 8)), device=DEVICE)
    with profiler(out / "ddp-one-rank.json") as recorder:
        for _ in range(7):
            for _ in range(2):
                with torch.autocast(DEVICE.type, torch.bfloat16):
                    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()
    torch.distributed.destroy_process_group()


def streams(out: Path) -> None:
    """Batches are copied on a stream of their own, one ahead, with events between the streams."""
    model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(8))).to(DEVICE, torch.bfloat16)
    batches = [torch.rand(2048, 4096).to(torch.bfloat16).pin_memory() for _ in range(4)]
    copying = torch.cuda.Stream()
    waits = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    with profiler(out / "streams-prefetch.json", experimental_config=waits) as recorder, torch.no_grad():
        with torch.cuda.stream(copying):
            following = batches[0].to(DEVICE, non_blocking=True)
        for number in range(7):
            torch.cuda.current_stream().wait_stream(copying)
            batch = following
            with torch.cuda.stream(copying):
                following = batches[number % 4].to(DEVICE, non_blocking=True)
            out_ = model(batch)
            batch.record_stream(torch.cuda.current_stream())
            if number % 3 == 2:
                out_.float().sum().item()
            recorder.step()


def full_queue(out: Path) -> None:
    """Some 1,500 kernels of 50 µs a step, launched faster than the GPU runs them: the launch queue fills up."""
    x, y = torch.rand(size(8192, 64), 4096, device=DEVICE), torch.rand(size(4096, 16), size(4096, 16), device=DEVICE)
    with profiler(out / "full-launch-queue.json", active=2, with_stack=False) as recorder, torch.no_grad():
        for _ in range(5):
            for n in range(1500):
                x.mul_(1.0001)
                if n % 10 == 0:
                    y @ y
            recorder.step()


def threads(out: Path) -> None:
    """A server: two threads run the model, each on a stream of its own."""
    import threading

    model = gpt(size(4, 1), size(512, 32)).to(DEVICE, torch.bfloat16).eval()
    tokens = torch.randint(4096, (4, 64), device=DEVICE)

    def serve():
        stream = torch.cuda.Stream() if GPU else None
        for _ in range(8):
            with torch.inference_mode(), torch.cuda.stream(stream), torch.profiler.record_function("request"):
                model(tokens).argmax(-1).cpu()

    serve()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if GPU else [])
    all_threads = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=activities, record_shapes=True, experimental_config=all_threads) as recorder:
        workers = [threading.Thread(target=serve, name=f"server {n}") for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    recorder.export_chrome_trace(str(out / "two-threads-serving.json"))


PROGRAMS = {
    "gpt2_with_trainer": gpt2_with_trainer,
    "llama_generates": llama_generates,
    "resnet_by_timm": resnet_by_timm,
    "lightning_trainer": lightning_trainer,
    "graph_network": graph_network,
    "compiled_with_graphs": compiled_with_graphs,
    "distributed": distributed,
    "streams": streams,
    "full_queue": full_queue,
    "threads": threads,
}


def main() -> None:
    name, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    try:
        PROGRAMS[name](out)
    except ModuleNotFoundError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
