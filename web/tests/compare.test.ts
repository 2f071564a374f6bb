import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { none, open, serve, type Served, settled, stackline, suite, synth, violations, watched } from "./harness";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const here = suite();
let served: Served;
beforeAll(async () => {
  const [a, b] = ["a.json", "b.json"].map((name) => join(here.folder.path, name)) as [string, string];
  synth("demo", a, "--steps", "4");
  synth("demo", b, "--steps", "4", "--no-host-sync");
  served = await serve(b, "--baseline", a);
});
afterAll(async () => {
  await served.stop();
});

const lefts = (page: Page) => page.locator("canvas").evaluateAll((all) => all.map((canvas) => (canvas as HTMLElement).dataset.left));

test("two timelines begin at the chosen steps, and zoom and pan together", async () => {
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=compare");
  await page.waitForFunction(() => [...document.querySelectorAll("canvas")].filter((canvas) => Number(canvas.dataset.boxes) > 0).length === 2);
  const first = await lefts(page);
  expect(first[0]).toBe(first[1]);
  await page.keyboard.press("w");
  await page.keyboard.press("d");
  await settled(page);
  const second = await lefts(page);
  expect(second[0]).toBe(second[1]);
  expect(second[0]).not.toBe(first[0]);
  // Another step on one side moves that side alone; both still count from their steps.
  const tiles: string[] = [];
  page.on("request", (request) => request.url().includes("/tiles") && tiles.push(request.url()));
  const steps = page.locator(".side select");
  expect(await steps.count()).toBe(2);
  await steps.first().selectOption({ index: 0 });
  await settled(page);
  expect(await lefts(page)).toEqual(second);
  expect(tiles.every((url) => url.includes("run=before"))).toBe(true);
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
});

test("a click on a box of either side shows its details", async () => {
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=compare");
  await page.waitForFunction(() => [...document.querySelectorAll("canvas")].filter((canvas) => Number(canvas.dataset.boxes) > 0).length === 2);
  for (const at of [0, 1]) {
    const canvas = page.locator("canvas").nth(at);
    await canvas.scrollIntoViewIfNeeded();
    const box = (await canvas.boundingBox())!;
    // Down the middle, until the pointer rests on a box.
    const title = async (y: number) => {
      await page.mouse.move(box.x + box.width / 2, box.y + y);
      return canvas.getAttribute("title");
    };
    let y = 45;
    while (y < box.height && !(await title(y))) y += 7;
    await page.mouse.down();
    await page.mouse.up();
    await page.waitForFunction((side) => /: \d/.test(document.querySelectorAll(".side [aria-live]")[side]!.textContent ?? ""), at);
  }
  none(faults);
  await page.close();
});

test("sides are named A and B as on the command line", async () => {
  const { page } = await watched(here.browser, served.url);
  await open(page, served.url, "page=compare");
  expect(await page.locator("main").innerText()).toMatch(/A, before: .*a\.json\. B, after: .*b\.json/);
  expect(await page.locator("th").allInnerTexts()).toContain("Change from A to B");
  expect(stackline("diff", join(here.folder.path, "a.json"), join(here.folder.path, "b.json"))).toMatch(/^A: .*a\.json\nB: .*b\.json/m);
  await page.close();
});

test("a report has the comparison and both timelines", async () => {
  const [a, b, report] = ["a.json", "b.json", "report.html"].map((name) => join(here.folder.path, name)) as [string, string, string];
  stackline("report", b, "--baseline", a, "--html", report);
  const url = `file://${report}`;
  const { page, faults } = await watched(here.browser, url);
  await open(page, url, "page=compare");
  await page.waitForFunction(() => [...document.querySelectorAll("canvas")].filter((canvas) => Number(canvas.dataset.boxes) > 0).length === 2);
  const inReport = await page.locator("main table").first().innerText();
  expect(await violations(page)).toEqual([]);
  await page.getByRole("button", { name: "Differential flame graph" }).click();
  await settled(page);
  expect(await page.locator("canvas").count()).toBe(1);
  none(faults);
  await open(page, served.url, "page=compare");
  expect(await page.locator("main table").first().innerText()).toBe(inReport);
  await page.close();
});

test("times whose records are missing in one run are not shown as 0, in the page and in the report", async () => {
  const step = (at: number) => {
    const [ts, host] = [at * 1000, { ph: "X", pid: 1, tid: 1 }];
    const args = { correlation: at + 1 };
    return [
      { ...host, name: `ProfilerStep#${at}`, cat: "user_annotation", ts, dur: 990 },
      { ...host, name: "aten::mm", cat: "cpu_op", ts: ts + 10, dur: 50 },
      { ...host, name: "cudaLaunchKernel", cat: "cuda_runtime", ts: ts + 20, dur: 10, args },
      { ph: "X", name: "gemm", cat: "kernel", ts: ts + 100, dur: 400 + at, pid: 0, tid: 7, args: { ...args, device: 0, stream: 7 } },
    ];
  };
  const events = [0, 1, 2, 3, 4, 5].flatMap(step);
  const [a, b] = [here.written("kernels.json", events), here.written("no-kernels.json", events.filter(({ cat }) => cat !== "kernel"))];
  const both = await serve(b, "--baseline", a);
  const report = join(here.folder.path, "missing.html");
  stackline("report", b, "--baseline", a, "--html", report);
  for (const url of [both.url, `file://${report}`]) {
    const { page, faults } = await watched(here.browser, url);
    await open(page, url, "page=compare");
    const table = page.locator("table", { has: page.locator("caption", { hasText: "Times of GPU work in A and B, per step" }) });
    await table.waitFor();
    expect(await page.locator(".warnings").innerText()).toContain("launches have no device record");
    const heads = await table.locator("thead th").allInnerTexts();
    const cells = await table.locator("tbody tr", { hasText: "gemm" }).first().locator("td").allInnerTexts();
    const [before, after, change] = ["A", "B", "Change from A to B"].map((head) => cells[heads.indexOf(head)]);
    expect(before).toMatch(/^40\d µs$/);
    expect([after, change]).toEqual(["–", "–"]);
    expect(await page.locator("main table tbody").allInnerTexts()).not.toContainEqual(expect.stringContaining("-100.0 %"));
    expect(await violations(page)).toEqual([]);
    none(faults);
    await page.close();
  }
  await both.stop();
});

test("memory peaks of both runs are shown side by side, in the page and in the report", async () => {
  const memory = (ts: number, bytes: number, addr: number) => ({ ph: "i", s: "t", name: "[memory]", cat: "cpu_instant_event", pid: 1, tid: 1, ts, args: { "Device Type": 0, "Device Id": -1, Addr: addr, Bytes: bytes, "Total Allocated": 0, "Total Reserved": 0 } });
  const step = (at: number) => ({ ph: "X", name: `ProfilerStep#${at}`, cat: "user_annotation", ts: at * 1000, dur: 990, pid: 1, tid: 1 });
  const [a, b] = [4096, 1024].map((bytes) => {
    const path = join(here.folder.path, `memory-${bytes}.json`);
    writeFileSync(path, JSON.stringify({ traceEvents: [0, 1, 2].flatMap((at) => [step(at), memory(at * 1000 + 10, bytes, 64), memory(at * 1000 + 500, -bytes, 64)]) }));
    return path;
  }) as [string, string];
  const both = await serve(b, "--baseline", a);
  const report = join(here.folder.path, "memory.html");
  stackline("report", b, "--baseline", a, "--html", report);
  for (const url of [both.url, `file://${report}`]) {
    const { page, faults } = await watched(here.browser, url);
    await open(page, url, "page=compare");
    const table = page.locator("table", { hasText: "Highest memory peak of each device" });
    await table.waitFor();
    expect(await table.locator("tbody td").allInnerTexts()).toEqual(["4 KiB", "1 KiB", "−3 KiB (-75.0 %)"]);
    expect(await violations(page)).toEqual([]);
    none(faults);
    await page.close();
  }
  await both.stop();
});
