/** Numbers that could be taken for others, and ways that could lead nowhere. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { none, open, serve, settled, suite, synth, trace, violations, watched } from "./harness";
import { writeInjectedTrace } from "./injected-trace";

const here = suite();

interface Options {
  readonly steps?: number;
  readonly baseline?: string;
}

/** A trace whose stacks say that a function called an operator at line 12 and another one at line 13, in each step. */
function stacked(name: string, { steps = 3 }: Options = {}): { file: string; source: string } {
  const source = join(here.folder.path, `${name}.py`);
  writeFileSync(source, Array.from({ length: 20 }, (_, at) => `line_${at + 1} = ${at}`).join("\n"));
  const frame = (line: number) => ({ name: `${source}(${line}): train_step` });
  const events = Array.from({ length: steps }, (_, step) => step * 1000).flatMap((ts, step) => [
    { ph: "X", name: `ProfilerStep#${step + 1}`, cat: "user_annotation", ts, dur: 990, pid: 1, tid: 1 },
    { ph: "X", name: `${source}(3): train_step`, cat: "python_function", ts: ts + 10, dur: 900, pid: 1, tid: 1 },
    { ph: "X", name: "aten::mm", cat: "cpu_op", ts: ts + 20, dur: 500, pid: 1, tid: 1, sf: 12 },
    { ph: "X", name: "aten::add", cat: "cpu_op", ts: ts + 600, dur: 200, pid: 1, tid: 1, sf: 13 },
  ]);
  const file = join(here.folder.path, `${name}.json`);
  writeFileSync(file, JSON.stringify({ stackFrames: { 12: frame(12), 13: frame(13) }, traceEvents: events }));
  return { file, source };
}

/** Costs next to lines of the source, by number. */
const costs = (page: Page) =>
  page.locator("table.source tbody tr").evaluateAll((rows) => rows.flatMap((row, at) => (row.querySelector("td.heat")?.textContent ? [[at + 1, row.querySelector("td.heat")!.textContent]] : [])));

test("costs of steps are shown at their source lines and frames, with the calls of each frame", async () => {
  const { file, source } = stacked("lines");
  const served = await serve(file);
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, `page=source&file=${encodeURIComponent(source)}&steps=2..3`);
  // Of the 200 µs of the function itself, 10 and half of 80 are at line 12, half of 80 and 110 at line 13, which is a guess.
  expect(await costs(page)).toEqual([[12, "≈ 1.10 ms"], [13, "≈ 700 µs"]]);
  await open(page, served.url, "page=flame&as=table&steps=2..3");
  await page.locator("main button.twisty:not([disabled])").last().click();
  await settled(page);
  const rows = await page.locator("main tbody tr").allInnerTexts();
  expect(rows.filter((row) => row.includes("train_step")).map((row) => row.replace(/\s+/g, " "))).toEqual([
    expect.stringMatching(/train_step lines\.py:12 1\.10 ms .* 2$/),
    expect.stringMatching(/train_step lines\.py:13 700 µs .* 2$/),
  ]);
  await page.getByRole("button", { name: "Merge by name" }).click();
  await settled(page);
  await page.locator("main button.twisty:not([disabled])").last().click();
  expect((await page.locator("main tbody tr", { hasText: "train_step" }).innerText()).replace(/\s+/g, " ")).toMatch(/1\.80 ms .* 2$/);
  none(faults);
  await page.close();
  await served.stop();
});

test("the timeline shows the selected steps and the range of the critical path", async () => {
  const { file } = stacked("chosen", { steps: 6 });
  const served = await serve(file);
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=overview&steps=3");
  await page.getByRole("button", { name: "Show the critical path in the timeline" }).click();
  await settled(page);
  const pageText = () => page.locator("main").innerText();
  expect(await pageText()).toContain("990 µs of 5.99 ms");
  expect(await pageText()).toContain("Critical path of step 3:");
  expect(await page.locator("canvas").getAttribute("data-left")).toBe("2000000");
  // The table beside it has no other steps' events.
  await page.getByRole("button", { name: "Table" }).click();
  await settled(page);
  expect(await page.getByRole("region", { name: "Visible events" }).locator("tbody tr").count()).toBe(4);
  // The path is a list there, of which each segment with an event can be opened.
  const segments = page.getByRole("region", { name: "Visible segments of the critical path" });
  expect(await segments.locator("caption").innerText()).toMatch(/^Critical path: \d+ visible segments?$/);
  await segments.getByRole("button", { name: "aten::mm" }).first().click();
  await settled(page);
  expect(await page.locator(".details h3").first().innerText()).toBe("aten::mm");
  await page.locator("[data-field=lanes]").fill("no such lane");
  await settled(page);
  expect(await pageText()).toContain("No lane has no such lane in its name.");
  await page.locator("[data-field=lanes]").fill("thread");
  await settled(page);
  expect(await page.getByRole("region", { name: "Visible events" }).locator("tbody tr").count()).toBe(4);
  await page.getByRole("button", { name: "All", exact: true }).click();
  await settled(page);
  expect(await pageText()).toContain("5.99 ms of 5.99 ms");
  await page.getByRole("button", { name: "Whole run" }).click();
  await settled(page);
  expect(await pageText()).toContain("Critical path of the whole trace:");
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
  await served.stop();
});

test("barely comparable runs have no verdict", async () => {
  const without = join(here.folder.path, "without.json");
  writeFileSync(without, JSON.stringify({ traceEvents: [0, 1, 2].map((at) => ({ ph: "X", name: "aten::mm", cat: "cpu_op", ts: at * 100, dur: 90, pid: 1, tid: 1 })) }));
  const served = await serve(stacked("compared").file, "--baseline", without);
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=compare&noise=1");
  expect(await page.locator(".warnings").innerText()).toContain("B has steps and A has none, so only times per call are compared.");
  const verdicts = await page.locator("main td:last-child").allInnerTexts();
  expect(verdicts.length).toBeGreaterThan(0);
  expect(verdicts.filter((verdict) => /slower|faster|noise/.test(verdict))).toEqual([]);
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
  await served.stop();
});

test("names link to their frames, and lists to all of their entries", async () => {
  const served = await serve(trace("nvidia-h100-qwen1.5-0.5b.json.gz"));
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=overview");
  const kernels = page.locator(".columns table").first();
  const few = await kernels.locator("tbody tr").count();
  await page.getByRole("button", { name: /more rows?$/ }).first().click();
  expect(await kernels.locator("tbody tr").count()).toBeGreaterThan(few);
  const name = await kernels.locator("tbody button").first().innerText();
  await kernels.locator("tbody button").first().click();
  await settled(page);
  expect(new URLSearchParams(page.url().split("#")[1]).get("find")).toContain(name.slice(0, 20));
  expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBeGreaterThan(1);
  // A finding with many events lists all that came, on demand.
  const many = (await page.evaluate(`stackline.request("findings").then(async ({ document }) => {
    for (let at = 0; at < document.tables.findings.rows.length; at += 1) {
      const found = await stackline.request("finding", { at });
      if (found.document.events.length > 12) return [at, found.document.events.length];
    }
  })`)) as [number, number];
  await open(page, served.url, `page=issues&sel=finding:${many[0]}`);
  expect(await page.locator(".detail .events li").count()).toBe(12);
  await page.getByRole("button", { name: /more events?$/ }).click();
  expect(await page.locator(".detail .events li").count()).toBe(many[1]);
  none(faults);
  await page.close();
  await served.stop();
});

test("files without cost are folded, and backward time is shown", async () => {
  const source = join(here.folder.path, "train.py");
  writeFileSync(source, "pass\n".repeat(20));
  const imports = Array.from({ length: 30 }, (_, at) => ({ ph: "X", name: `lib/module_${at}.py(1): <module>`, cat: "python_function", ts: -90_000 + at * 100, dur: 90, pid: 1, tid: 1 }));
  const served = await serve(writeInjectedTrace(here.folder.path, source, {}, imports));
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=source");
  expect(await page.locator("main tbody tr").allInnerTexts()).toHaveLength(1);
  expect(await page.locator("summary").innerText()).toBe("30 files without costs");
  await page.locator("summary").click();
  expect(await page.getByRole("button", { name: "lib/module_29.py" }).isVisible()).toBe(true);
  expect(await violations(page)).toEqual([]);
  await page.close();
  await served.stop();
  const demo = join(here.folder.path, "demo.json");
  synth("demo", demo, "--steps", "3");
  const training = await serve(demo);
  const other = await watched(here.browser, training.url);
  await open(other.page, training.url, "page=flame");
  expect(await other.page.locator("main").innerText()).toContain("Backward work is shown under its forward operator");
  none([...faults, ...other.faults]);
  await other.page.close();
  await training.stop();
});
