import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { none, open, serve, type Served, settled, suite, trace, violations, watched } from "./harness";

const here = suite();
let memory: Served;
beforeAll(async () => {
  memory = await serve(trace("nvidia-h100-qwen1.5-0.5b.json.gz"));
});
afterAll(async () => {
  await memory.stop();
});

const part = (page: Page, name: string) => Number(new URLSearchParams(new URL(page.url()).hash.slice(1)).get(name));

test("W, S, A and D work with any focus except in text fields", async () => {
  const { page, faults } = await watched(here.browser, memory.url);
  await open(page, memory.url, "page=timeline");
  await page.keyboard.press("w");
  await settled(page);
  const [from, to] = [part(page, "from"), part(page, "to")];
  expect(to).toBeGreaterThan(from);
  await page.keyboard.press("d");
  await settled(page);
  expect(part(page, "from")).toBeGreaterThan(from);
  await page.keyboard.press("a");
  await page.keyboard.press("s");
  await settled(page);
  expect(part(page, "to") - part(page, "from")).toBeGreaterThan(to - from);
  const before = page.url();
  await page.getByLabel("Theme").focus();
  await page.keyboard.press("w");
  await settled(page);
  expect(page.url()).toBe(before);
  none(faults);
  await page.close();
});

test("memory is a curve below the lanes, and the legend names the colors", async () => {
  const { page, faults } = await watched(here.browser, memory.url);
  await open(page, memory.url, "page=timeline");
  const lanes = await page.evaluate("stackline.request('lanes').then((answer) => answer.document)") as { whole: object };
  const counters = await page.evaluate(`stackline.request('counters', ${JSON.stringify(lanes.whole)}).then(({ document, columns }) => ({ names: document.counters.map((one) => one.name), points: columns.start.length }))`) as { names: string[]; points: number };
  expect(counters.names.filter((name) => name.startsWith("Memory allocated · GPU 0"))).toHaveLength(1);
  expect(counters.points).toBeGreaterThan(100);
  const legend = await page.getByRole("list", { name: "Colors" }).innerText();
  expect(legend).toContain("Kernel");
  expect(legend).toContain("Copy");
  none(faults);
  await page.close();
});

test("kernels of collectives are drawn as communication", async () => {
  const served = await serve(trace("nvidia-a100-ddp-nccl.json.gz"));
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=timeline");
  expect(await page.getByRole("list", { name: "Colors" }).innerText()).toContain("Communication");
  none(faults);
  await page.close();
  await served.stop();
});

test("a click marks a step, which is summed by lane and by name", async () => {
  const file = join(here.folder.path, "steps.json");
  const events = [0, 1, 2, 3].flatMap((step) => [
    { ph: "X", name: `ProfilerStep#${step}`, cat: "user_annotation", ts: step * 1000, dur: 990, pid: 1, tid: 1 },
    { ph: "X", name: "aten::mm", cat: "cpu_op", ts: step * 1000 + 10, dur: 500, pid: 1, tid: 1 },
    { ph: "X", name: `ProfilerStep#${step}`, cat: "gpu_user_annotation", ts: step * 1000, dur: 990, pid: 0, tid: 7, args: { device: 0, stream: 7 } },
    { ph: "X", name: "gemm", cat: "kernel", ts: step * 1000 + 100, dur: 250, pid: 0, tid: 7, args: { device: 0, stream: 7 } },
  ]);
  writeFileSync(file, JSON.stringify({ traceEvents: events }));
  const served = await serve(file);
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=timeline");
  const wide = (await page.locator("canvas").boundingBox())!.width;
  await page.locator("canvas").click({ position: { x: wide * 0.4, y: 30 } });
  await settled(page);
  expect(page.url()).toContain("mark=");
  const range = page.locator(".range");
  expect(await range.innerText()).toMatch(/Marked: 9\d\d µs/);
  expect(await range.locator("table").first().innerText()).toMatch(/stream 7 · GPU 0[^\n]*\t1\t250 µs/);
  expect(await range.locator("table").last().innerText()).toMatch(/gemm\s+GPU\t1\t250 µs/);
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
  await served.stop();
});

test("one click shows the selected steps, after any start-up time", () => {
  const event = (name: string, cat: string, ts: number, dur: number) => ({ ph: "X", name, cat, ts, dur, pid: 1, tid: 1 });
  const steps = [0, 1, 2, 3].map((step) => event(`ProfilerStep#${step}`, "user_annotation", 1_000_000 + step * 1000, 990));
  return here.view([here.written("late.json", [event("import", "cpu_op", 0, 900_000), ...steps, event("aten::mm", "cpu_op", 1_001_000, 500)])], async (page, url) => {
    await open(page, url, "page=timeline&steps=1..3");
    await page.getByRole("button", { name: "All", exact: true }).click();
    await settled(page);
    expect(part(page, "from")).toBe(0);
    await page.getByRole("button", { name: "Selected steps" }).click();
    await settled(page);
    expect([part(page, "from"), part(page, "to")]).toEqual([1_001_000_000, 1_003_990_000]);
  });
});

test("hidden levels of a lane are counted and can be shown", async () => {
  const file = join(here.folder.path, "deep.json");
  const thread = (tid: number, levels: number) => Array.from({ length: levels }, (_, at) => ({ ph: "X", name: `level ${at}`, cat: "cpu_op", ts: at, dur: 2000 - 2 * at, pid: 1, tid }));
  writeFileSync(file, JSON.stringify({ traceEvents: [...thread(1, 80), ...thread(2, 40)] }));
  const served = await serve(file);
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=timeline");
  const shown = async () => Number(await page.locator("canvas").getAttribute("data-boxes"));
  const height = () => page.evaluate(() => document.querySelector("canvas")!.parentElement!.clientHeight);
  const [few, low] = [await shown(), await height()];
  expect(few).toBeLessThan(120);
  await page.getByRole("button", { name: "All levels" }).click();
  await settled(page);
  expect(await shown()).toBe(120);
  expect(await height()).toBeGreaterThan(low);
  await page.getByRole("button", { name: "All levels" }).click();
  await settled(page);
  // A click on the head of a lane does so for that one.
  await page.locator("canvas").click({ position: { x: 20, y: 30 } });
  await settled(page);
  expect(await shown()).toBeGreaterThan(few);
  none(faults);
  await page.close();
  await served.stop();
});

test("after fast movement, the address and Back match the visible range", async () => {
  const { page, faults } = await watched(here.browser, memory.url);
  await open(page, memory.url, "page=timeline");
  for (const key of ["w", "w", "w", "d", "d", "a"]) await page.keyboard.press(key);
  // Another page is opened before the address was written.
  await page.keyboard.press("1");
  await page.goBack();
  await settled(page);
  const seen = Number(await page.locator("canvas").getAttribute("data-left"));
  expect(seen).toBeGreaterThan(0);
  expect(Math.abs(part(page, "from") - seen)).toBeLessThanOrEqual(1);
  none(faults);
  await page.close();
});
