/** Runs of extreme contents, and pages of extreme sizes. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { beyond, none, open, PAGES, serve, type Served, settled, squeezed, suite, synth, trace, violations, watched } from "./harness";

const here = suite();
let crowded: Served;
const LONG = `void at::native::vectorized_elementwise_kernel<${"std::tuple<float, ".repeat(24)}4>`;
const NAMES = [LONG, "שכבת קשב עצמי ‮מתחזה", "注意力层/前馈网络::前向传播", "طبقة الانتباه", "x".repeat(400)];

/** 64 streams, each with work of names that are hard to show. */
function crowd(): string {
  const events: object[] = [0, 1, 2].map((step) => ({ ph: "X", name: `ProfilerStep#${step}`, cat: "user_annotation", ts: step * 6400, dur: 6300, pid: 1, tid: 1 }));
  for (let at = 0; at < 64 * 12; at += 1) {
    const [stream, ts, name] = [7 + (at % 64), at * 25, NAMES[at % NAMES.length]!];
    events.push({ ph: "X", name, cat: "cpu_op", ts, dur: 20, pid: 1, tid: 1 });
    events.push({ ph: "X", name: "cudaLaunchKernel", cat: "cuda_runtime", ts: ts + 5, dur: 10, pid: 1, tid: 1, args: { correlation: at + 1 } });
    events.push({ ph: "X", name, cat: "kernel", ts: ts + 30, dur: 300, pid: 0, tid: stream, args: { device: 0, stream, correlation: at + 1 } });
  }
  const file = join(here.folder.path, `${"a-long-name-of-a-file-".repeat(6)}.json`);
  writeFileSync(file, JSON.stringify({ traceEvents: events }));
  return file;
}

beforeAll(async () => {
  crowded = await serve(crowd(), "--baseline", trace("nvidia-2080ti-linear.json.gz"));
});
afterAll(async () => {
  await crowded.stop();
});

const VIEWS = [...PAGES, "timeline&as=table", "flame&as=table", "timeline&sel=event:3&mark=0-90000", "flame&shape=bottom-up"];

test.each([
  ["1280 wide", { viewport: { width: 1280, height: 800 } }],
  ["1920 wide", { viewport: { width: 1920, height: 1080 } }],
  ["480 wide", { viewport: { width: 480, height: 900 } }],
  ["200 % zoom of 1280", { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 }],
])("%s: 64 streams, long and foreign names, and nothing reaches out of the page", async (_, options) => {
  const { page, faults } = await watched(here.browser, crowded.url, options);
  for (const view of VIEWS) {
    await open(page, crowded.url, `page=${view}`);
    expect(await beyond(page), view).toEqual([]);
    expect(await squeezed(page), view).toEqual([]);
  }
  none(faults);
  await page.close();
});

test("64 streams are 64 lanes", async () => {
  const { page, faults } = await watched(here.browser, crowded.url);
  await open(page, crowded.url, "page=timeline");
  const lanes = await page.evaluate("stackline.request('lanes').then(({ document }) => document.lanes.filter((lane) => lane.kind === 'stream').length)");
  expect(lanes).toBe(64);
  expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBeGreaterThan(64 * 12);
  await page.locator(".canvas").evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await settled(page);
  none(faults);
  await page.close();
});

test.each(["light", "dark"] as const)("axe-core finds no problems with high contrast, %s", { timeout: 180_000 }, async (colorScheme) => {
  for (const options of [{ colorScheme, contrast: "more" }, { colorScheme, forcedColors: "active" }] as const) {
    const { page, faults } = await watched(here.browser, crowded.url, options);
    for (const view of VIEWS) {
      await open(page, crowded.url, `page=${view}`);
      expect(await violations(page, "contrast" in options ? "all" : "colors"), view).toEqual([]);
    }
    none(faults);
    await page.close();
  }
});

test("high contrast has no gray, and the open page is marked with system colors", async () => {
  for (const colorScheme of ["light", "dark"] as const) {
    const { page } = await watched(here.browser, crowded.url, { colorScheme, contrast: "more" });
    await open(page, crowded.url, "page=overview");
    const [quiet, ink] = await page.evaluate(() => [".quiet", "h1"].map((name) => getComputedStyle(document.querySelector(name)!).color));
    expect(quiet, colorScheme).toBe(ink);
    await page.close();
  }
  const { page } = await watched(here.browser, crowded.url, { forcedColors: "active" });
  await open(page, crowded.url, "page=overview");
  const borders = await page.evaluate(() => ["[aria-current]", ":not([aria-current])"].map((which) => getComputedStyle(document.querySelector(`nav ol a${which}`)!).borderLeftColor));
  expect(borders[0]).not.toBe(borders[1]);
  expect(new Set(await page.evaluate(() => [...document.querySelectorAll(".legend i")].map((one) => getComputedStyle(one).backgroundColor))).size).toBeGreaterThan(1);
  await page.close();
});

test("concurrent pages have equal answers, computed once", async () => {
  const served = await serve(trace("nvidia-h100-qwen1.5-0.5b.json.gz"));
  const pages = await Promise.all([1, 2, 3, 4].map(() => watched(here.browser, served.url)));
  await Promise.all(pages.map(({ page }, at) => open(page, served.url, `page=${PAGES[at % 2 ? 0 : 3]}`)));
  const ask = "stackline.request('findings').then(({ document }) => JSON.stringify(document))";
  const answers = await Promise.all(pages.map(({ page }) => page.evaluate(ask)));
  expect(new Set(answers).size).toBe(1);
  for (const { page, faults } of pages) {
    none(faults);
    await page.close();
  }
  await served.stop();
});

test("after the server stops, known answers remain, other queries show an error, and Back works", async () => {
  const served = await serve(trace("nvidia-2080ti-linear.json.gz"));
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=timeline");
  const boxes = await page.locator("canvas").getAttribute("data-boxes");
  // It goes while a question is under way.
  await page.route("**/query/findings*", async (route) => {
    await served.stop();
    await route.continue();
  });
  await page.keyboard.press("2");
  await page.waitForSelector("[role=alert]");
  expect(await page.locator("[role=alert]").first().innerText()).toContain("server has stopped");
  await page.goBack();
  await settled(page);
  expect(await page.locator("canvas").getAttribute("data-boxes")).toBe(boxes);
  none(faults.filter((fault) => !/ERR_|Failed to load/.test(fault)));
  await page.close();
});

test("a tree of a million nodes is shown, inverted and searched", { timeout: 300_000 }, async () => {
  const run = join(here.folder.path, "tree.stackline");
  synth("tree", run, "--nodes", "1000000");
  const served = await serve(run);
  const { page, faults } = await watched(here.browser, served.url);
  page.setDefaultTimeout(120_000);
  let largest = 0;
  page.on("response", async (response) => {
    if (response.url().includes("/query/calls")) largest = Math.max(largest, (await response.body()).length);
  });
  await open(page, served.url, "page=flame");
  const nodes = await page.evaluate("stackline.request('calls', { shape: 'top-down' }).then(({ document }) => [document.nodes, document.total])") as [number, number];
  expect(nodes[0]).toBeGreaterThanOrEqual(1_000_000);
  expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBeGreaterThan(100);
  for (const view of ["flame&shape=bottom-up", "flame&shape=flat", "flame&focus=function_17%40", "flame&as=table"]) {
    await open(page, served.url, `page=${view}`);
    expect(await page.locator("[role=alert]").allTextContents(), view).toEqual([]);
  }
  expect(largest).toBeGreaterThan(0);
  expect(largest).toBeLessThanOrEqual(700_000);
  none(faults);
  await page.close();
  await served.stop();
});
