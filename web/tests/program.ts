/** A program that trains a little on the CPU, and the Python to record it with. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { binary } from "./harness";

// The environment of `python/torch_env.py`, and the recorder next to the program: without them this is not tested, but in CI.
export const torch = process.env.STACKLINE_TORCH;
export const isThere = torch !== undefined && existsSync(join(binary, "../libstackline_record.so"));
if (!isThere && process.env.CI === "true") throw new Error("CI needs STACKLINE_TORCH and libstackline_record.so");

export const PROGRAM = `
import torch

def forward(layers, x):
    for layer in layers:
        x = torch.relu(layer(x))
    return x.sum()

layers = [torch.nn.Linear(64, 64) for _ in range(3)]
optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.01)
for _ in range(6):
    optimizer.zero_grad()
    forward(layers, torch.randn(32, 64)).backward()
    optimizer.step()
`;
