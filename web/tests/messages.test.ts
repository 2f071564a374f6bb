/** Labels of the page's numbers: which of them are estimates, their meaning, and their order. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open, serve, settled, stackline, suite, synth, trace, violations, watched } from "./harness";

const here = suite();

test("both step lengths are named on the Overview, at findings and in a comparison", async () => {
  const [a, b] = ["a.json", "b.json"].map((name) => join(here.folder.path, name)) as [string, string];
  synth("demo", a, "--steps", "4");
  synth("demo", b, "--steps", "4", "--no-host-sync");
  const found = JSON.parse(stackline("findings", b, "--format", "json")) as { step_ns: number };
  const ms = `${(found.step_ns / 1e6).toFixed(2)} ms`;
  await here.view([b, "--baseline", a], async (page, url) => {
    await open(page, url, "page=overview");
    const numbers = await page.locator("dl.numbers").innerText();
    expect(numbers).toContain("as marked by the program");
    expect(numbers).toMatch(new RegExp(`Mean step with its GPU work\\s+${ms}`));
    expect(numbers).toContain("in the selected steps and their GPU work");
    await open(page, url, "page=issues&steps=11");
    const issues = await page.locator("main").innerText();
    expect(issues).toContain(`a step takes ${ms} with its GPU work (mean of 4 steps, each measured up to the end of the GPU work that the step launched)`);
    expect(issues).toContain("This page shows steps 10 to 13, independent of the steps selected on other pages (11).");
    // The page of a rule, as the command line explains it.
    await open(page, url, "page=issues&sel=finding:0");
    await page.locator(".rule summary").click();
    const rule = await page.locator(".rule pre").innerText();
    const code = (await page.locator(".card .what small").first().innerText()).match(/[A-Z]+\d{3}/)![0];
    expect(rule).toMatch(new RegExp(`^# ${code} `));
    expect(rule).toContain("## False positives");
    // Findings about one thing alone.
    await open(page, url, "page=issues");
    const all = await page.locator("main .card").count();
    const areas = await page.locator("[data-field=area] option").allInnerTexts();
    expect(areas.length).toBeGreaterThan(2);
    await page.locator("[data-field=area]").selectOption(areas[1]!);
    await settled(page);
    const some = await page.locator("main .card").count();
    expect(some).toBeGreaterThan(0);
    expect(some).toBeLessThan(all);
    expect(await page.locator("main").innerText()).toContain(`${some} of ${all} shown`);
    await open(page, url, "page=compare&noise=1");
    const rows = await page.locator("main tbody tr").allInnerTexts();
    expect(rows.some((row) => row.startsWith("step with its GPU work") && row.includes(ms))).toBe(true);
    // A removed row has no time in B, and no bounds.
    const removed = await page.locator("main tbody tr", { hasText: "only in A" }).first().locator("td").allInnerTexts();
    expect(removed.slice(-5)).toEqual(["–", expect.stringContaining("-100.0 %"), "", "1 → 0", "− only in A"]);
    expect(await page.locator("main").innerText()).toContain("Both runs have the same software versions, devices and recording options");
    expect(await violations(page)).toEqual([]);
  });
});

test("findings with lower bound 0 come last, with a note", async () => {
  const demo = join(here.folder.path, "demo.json");
  const broken = join(here.folder.path, "broken.json");
  synth("demo", demo, "--steps", "4");
  synth("damage", demo, broken, "--kind", "truncated-text");
  for (const file of [demo, broken]) {
    const served = await serve(file);
    const { page } = await watched(here.browser, served.url);
    await open(page, served.url, "page=issues");
    const gains = (await page.evaluate(`stackline.request("findings").then(({ document }) => document.tables.findings.rows.map((row) => row.gain_ns))`)) as number[];
    const isByGain = gains.every((gain, at) => at === 0 || gain <= gains[at - 1]!);
    const hasNote = (await page.locator("main").innerText()).includes("findings with low confidence and a lower bound of 0 come last");
    // Without a sentence the order is that of the gains.
    expect(isByGain || hasNote, file).toBe(true);
    await page.close();
    await served.stop();
  }
});

test("partly inferred times of lines are marked, in the source and at frames", async () => {
  const source = join(here.folder.path, "guessed.py");
  writeFileSync(source, Array.from({ length: 20 }, (_, at) => `line_${at + 1} = ${at}`).join("\n"));
  const frame = (line: number) => ({ name: `${source}(${line}): train_step` });
  const events = [0, 1000, 2000].flatMap((ts, step) => [
    { ph: "X", name: `ProfilerStep#${step + 1}`, cat: "user_annotation", ts, dur: 990, pid: 1, tid: 1 },
    { ph: "X", name: `${source}(3): train_step`, cat: "python_function", ts: ts + 10, dur: 900, pid: 1, tid: 1 },
    { ph: "X", name: "aten::mm", cat: "cpu_op", ts: ts + 10, dur: 500, pid: 1, tid: 1, sf: 12 },
    { ph: "X", name: "aten::add", cat: "cpu_op", ts: ts + 510, dur: 200, pid: 1, tid: 1, sf: 13 },
  ]);
  const file = here.written("guessed.json", events, { stackFrames: { 12: frame(12), 13: frame(13) } });
  await here.view([file], async (page, url) => {
    await open(page, url, `page=source&file=${encodeURIComponent(source)}`);
    const costs = await page.locator("table.source td.heat").allInnerTexts();
    // Line 12 has what it called alone; behind the last call there are 200 µs more in each step, of which nobody knows the line.
    expect(costs.filter((text) => text !== "")).toEqual(["1.50 ms", "≈ 1.20 ms"]);
    expect(await page.locator("main").innerText()).toContain("≈ marks estimated times");
    await page.getByRole("button", { name: "Line 13" }).click();
    await page.getByRole("button", { name: "Show in the flame graph" }).click();
    await settled(page);
    const details = page.locator(".details");
    expect(await details.locator("h3").first().innerText()).toContain("train_step");
    expect(await details.innerText()).toContain("The self time of this line is estimated");
    expect(await violations(page)).toEqual([]);
  });
});

test("an empty filter result names the filter, and impossible queries are not sent", async () => {
  const demo = join(here.folder.path, "filtered.json");
  synth("demo", demo, "--steps", "4");
  await here.view([demo], async (page, url) => {
    await open(page, url, "page=flame&focus=qqqqqqqq");
    const main = page.locator("main");
    expect(await main.innerText()).toContain("No call path in the selection has a frame with qqqqqqqq in its name");
    expect(await page.locator(".legend").count()).toBe(0);
    await open(page, url, "page=flame");
    await page.locator("[data-field=hide]").fill("[(");
    await page.keyboard.press("Tab");
    expect(await page.locator("label [role=alert]").innerText()).toMatch(/regular expression/i);
    await page.locator("[data-field=steps]").fill("99");
    await page.keyboard.press("Tab");
    expect(await main.innerText()).toContain("There is no step 99; the run has 4 steps (10 to 13)");
    expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBeGreaterThan(10);
    expect(await violations(page)).toEqual([]);
    // The next view clears it.
    await page.getByRole("link", { name: "Overview" }).click();
    await settled(page);
    expect(await main.innerText()).not.toContain("There is no step 99");
  });
});

test("This run lists repaired and unreadable memory data", () =>
  here.view([trace("nvidia-h100-qwen1.5-0.5b.json.gz")], async (page, url) => {
    await open(page, url, "page=run");
    const memory = page.locator("article", { has: page.getByRole("heading", { name: "Memory" }) });
    await memory.locator("li").waitFor();
    // What is said of the trace, too, stands there alone.
    expect(await memory.locator("li").allInnerTexts()).toEqual([expect.stringMatching(/^note: Memory objects were allocated before the first record/)]);
    expect(await violations(page)).toEqual([]);
  }));

test("search results use the metric of the search in every view", () =>
  here.view([trace("nvidia-h100-qwen1.5-0.5b.json.gz")], async (page, url) => {
    await open(page, url, "page=flame&metric=freed&find=aten::view");
    await page.locator(".nearest").waitFor();
    expect(await page.locator(".nearest").innerText()).toMatch(/aten::view \(.* host time\)/);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search all names" }).fill("aten::view");
    await page.locator("#found li", { hasText: /flame graph: .* host time/ }).first().waitFor();
  }));

test("a name of a million letters does not hide other content", async () => {
  const name = "B".repeat(1_000_000);
  const events = [0, 1, 2, 3].flatMap((step) => [
    { ph: "X", name: `ProfilerStep#${step + 1}`, cat: "user_annotation", ts: step * 1000, dur: 990, pid: 1, tid: 1 },
    { ph: "X", name, cat: "cpu_op", ts: step * 1000 + 10, dur: 900, pid: 1, tid: 1, args: { note: name } },
  ]);
  const file = here.written("long.json", events);
  await here.view([file], async (page, url) => {
    await open(page, url, "page=overview");
    expect(await page.evaluate(() => document.body.outerHTML.length)).toBeLessThan(200_000);
    const at = (await page.evaluate(`stackline.request("search", { text: "BBBB" }).then(({ document }) => document.names[0].event)`)) as number;
    await open(page, url, `page=timeline&sel=event:${at}`);
    const details = page.locator(".details");
    await details.getByText("Duration").waitFor();
    expect((await details.getByText("Duration").boundingBox())!.y).toBeLessThan(500);
  });
});

test("empty pages are gray, and This run can be copied", async () => {
  const file = here.written("empty.json", []);
  await here.view([file], async (page, url) => {
    await page.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: { writeText: (text: string) => Promise.resolve(void Object.assign(globalThis, { copied: text })) } }));
    await open(page, url, "page=run");
    const grey = await page.locator("nav a.without").allInnerTexts();
    expect(grey.map((text) => text.replace(/^\d\s*/, ""))).toEqual(["Issues", "Flame graph", "Timeline", "Memory", "Layers & kernels", "Compare", "Source"]);
    await page.getByRole("button", { name: "Copy as text" }).click();
    expect(await page.evaluate("globalThis.copied")).toContain("empty.json, opened by stackline");
  });
});

test("the Overview shows the memory peak and the number of readable records", async () => {
  const demo = join(here.folder.path, "whole.json");
  const broken = join(here.folder.path, "cut.json");
  synth("demo", demo, "--steps", "4");
  synth("damage", demo, broken, "--kind", "truncated-text");
  await here.view([demo], async (page, url) => {
    await open(page, url, "page=overview");
    expect(await page.locator("dl.numbers").innerText()).toMatch(/Records\s+all records of the trace were read/);
  });
  const document = JSON.parse(stackline("findings", broken, "--format", "json")) as { read_report: [{ problems: { severity: string; count: number }[] }] };
  const lost = document.read_report[0].problems.filter(({ severity }) => severity === "lost").reduce((sum, { count }) => sum + count, 0);
  expect(lost).toBeGreaterThan(0);
  await here.view([broken], async (page, url) => {
    await open(page, url, "page=overview");
    await page.locator("dl.numbers button", { hasText: `${lost} lost` }).click();
    await settled(page);
    expect(new URL(page.url()).hash).toContain("page=run");
  });
});

test("memory peaks of the Overview equal those of the command line", async () => {
  const file = trace("nvidia-h100-bert-small.json.gz");
  const { peaks } = JSON.parse(stackline("findings", file, "--format", "json")) as { peaks: { device: string; bytes: number }[] };
  const peak = peaks.find(({ device }) => device === "cuda:0")!;
  await here.view([file], async (page, url) => {
    await open(page, url, "page=overview");
    await page.locator(".cards").waitFor();
    const numbers = await page.locator("dl.numbers").innerText();
    expect(numbers).toMatch(new RegExp(`Memory peak of cuda:0\\s+${(peak.bytes / 2 ** 20).toFixed(1)} MiB`));
    expect(numbers).not.toContain("Memory peak of cpu");
    expect(await violations(page)).toEqual([]);
  });
});

test("uncovered time has the sentences of the terminal: the concurrent waits, and how to record more", async () => {
  const file = trace("amd-mi300-sglang-decode-graph-replay.json.gz");
  type Uncovered = { uncovered: { groups: Array<{ name: string; wait_percent: number; advice: string }> } };
  const { groups } = (JSON.parse(stackline("findings", file, "--format", "json")) as Uncovered).uncovered;
  expect(groups.length).toBeGreaterThan(0);
  await here.view([file], async (page, url) => {
    await open(page, url, "page=issues");
    const lines = await page.locator(".uncovered li").allInnerTexts();
    expect(lines.length).toBe(groups.length);
    for (const [at, { name, wait_percent, advice }] of groups.entries()) {
      expect(lines[at]).toContain(name.slice(0, 40));
      expect(lines[at]).toContain(`waits for an unrecorded cause (${wait_percent.toFixed(0)} % of the path)`);
      expect(lines[at]).toContain(`For details: ${advice}`);
    }
    expect(await page.locator("main").innerText()).toContain("Largest parts of the time that no finding covers:");
    expect(await violations(page)).toEqual([]);
  });
});

test("the critical path of inferred steps is not labeled as that of the whole trace", async () => {
  const launches = Array.from({ length: 12 }, (_, step) =>
    Array.from({ length: 13 }, (_, at) => {
      const [ts, id] = [1000 * step + 50 * at, 100 * step + at + 1];
      const what = at === 12 ? ["cudaMemcpyAsync", "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"] : ["cudaLaunchKernel", "kernel", "mlp"];
      return [
        { ph: "X", name: what[0], cat: "cuda_runtime", ts, dur: 40, pid: 1, tid: 1, args: { correlation: id } },
        { ph: "X", name: what[2], cat: what[1], ts: ts + 42, dur: 5, pid: 0, tid: 7, args: { device: 0, stream: 7, correlation: id } },
      ];
    }),
  ).flat(2);
  const pause = { ph: "X", name: "aten::to", cat: "cpu_op", ts: 20_000, dur: 1_000_000, pid: 1, tid: 1 };
  // Launches without a kernel, in the middle.
  const lost = Array.from({ length: 8 }, (_, at) => ({ ph: "X", name: "cudaLaunchKernel", cat: "cuda_runtime", ts: 1000 * at + 900, dur: 5, pid: 1, tid: 1, args: { correlation: 9999 } }));
  const file = here.written("unmarked.json", [...launches, pause]);
  await here.view([file], async (page, url) => {
    const main = page.locator("main");
    await open(page, url, "page=overview");
    expect(await main.innerText()).toContain("Critical path of the inferred steps");
    expect(await main.innerText()).toContain("Steps are inferred from a repeated pattern of 13 launches");
    await open(page, url, "page=overview&steps=whole");
    expect(await main.innerText()).toContain("Critical path of the whole trace");
    expect(await main.innerText()).not.toContain("Failed checks");
    await open(page, url, "page=timeline&cp=1");
    expect(await main.innerText()).toContain("Critical path of the inferred steps:");
    expect(await violations(page)).toEqual([]);
  });
  await here.view([here.written("lost.json", [...launches, pause, ...lost])], async (page, url) => {
    await open(page, url, "page=overview");
    expect(await page.locator("main").innerText()).toContain("Failed checks: launch_without_record 8 (GPU times of operators are too small");
  });
});

test("the Overview shows the time before the first step and after the last one", async () => {
  const steps = [0, 1, 2].flatMap((step) => [
    { ph: "X", name: `ProfilerStep#${step}`, cat: "user_annotation", ts: 10_000 + 1000 * step, dur: 1000, pid: 1, tid: 1 },
    { ph: "X", name: "aten::mm", cat: "cpu_op", ts: 10_000 + 1000 * step, dur: 900, pid: 1, tid: 1 },
  ]);
  const outside = [0, 13_000].map((ts, at) => ({ ph: "X", name: ["load", "save"][at], cat: "cpu_op", ts, dur: 5000, pid: 1, tid: 1 }));
  await here.view([here.written("around.json", [...steps, ...outside])], async (page, url) => {
    await open(page, url, "page=overview");
    const main = await page.locator("main").innerText();
    expect(main).toContain("Start-up: 10 ms before the first step.");
    expect(main).toContain("After the last step: 5 ms, mostly in save.");
  });
});
