/** Programs that were recorded on the CPU: as sums of calls, and as a trace. */

import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { binary, none, open, PAGES, serve, stackline, suite, violations, watched } from "./harness";

// The environment of `python/torch_env.py`, and the recorder beside the program: without them this is not tested, but in CI.
const torch = process.env.STACKLINE_TORCH;
const isThere = torch !== undefined && existsSync(join(binary, "../libstackline_record.so"));
if (!isThere && process.env.CI === "true") throw new Error("CI needs STACKLINE_TORCH and libstackline_record.so");

const PROGRAM = `
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

const here = suite();

describe.skipIf(!isThere).each(["profile", "trace"])("recorded as a %s", (mode) => {
  test("each page opens, with the program's calls and lines", { timeout: 300_000 }, async () => {
    const program = join(here.folder.path, `program-${mode}.py`);
    writeFileSync(program, PROGRAM);
    const run = join(here.folder.path, `${mode}.stackline`);
    execFileSync(binary, ["record", ...(mode === "trace" ? ["--mode", "trace"] : []), "-o", run, "--", torch!, program], { stdio: "ignore" });
    const served = await serve(run);
    const { page, faults } = await watched(here.browser, served.url);
    for (const id of PAGES) {
      await open(page, served.url, `page=${id}`);
      expect(await violations(page), id).toEqual([]);
    }
    await open(page, served.url, "page=flame&as=table&shape=flat&focus=aten::addmm");
    expect(await page.locator("main").innerText()).toContain("aten::addmm");
    const flat = JSON.parse(stackline("calls", run, "--view", "flat", "--top", "0", "--format", "json")) as { tables: { calls: { rows: Array<Record<string, unknown>> } } };
    expect(flat.tables.calls.rows.some((row) => row.name === "aten::addmm")).toBe(true);
    await open(page, served.url, "page=source");
    expect(await page.locator("main").innerText()).toContain(`program-${mode}.py`);
    none(faults);
    await page.close();
    await served.stop();
  });
});
