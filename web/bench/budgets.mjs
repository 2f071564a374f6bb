/**
 * Times of the page beside its budgets, in a headless Chromium with software rendering.
 *
 *   STACKLINE_CHROMIUM=$(python3 python/browser_env.py) node web/bench/budgets.mjs TRACE…
 *
 * Each row: a trace, from the command to the overview, to the first flame graph and timeline after the click, and what a
 * frame of panning costs in script. Minimum of three runs; other work on the machine makes every number larger.
 */

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { basename } from "node:path";
import { chromium } from "playwright-core";

const root = new URL("../..", import.meta.url).pathname;
const binary = process.env.STACKLINE_BINARY ?? `${root}target/release/stackline`;
const executablePath = process.env.STACKLINE_CHROMIUM;
const traces = process.argv.slice(2);
if (!executablePath || traces.length === 0) {
  console.error("usage: STACKLINE_CHROMIUM=… node web/bench/budgets.mjs TRACE…");
  process.exit(2);
}

const RUNS = 3;
const BUDGETS = { overview: 1500, flame: 700, timeline: 700, frame: 5, answers: 700_000 };

function serve(trace) {
  const child = spawn(binary, ["view", "--no-open", trace], { stdio: ["ignore", "pipe", "inherit"] });
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`stackline view ended with ${code}`)));
    child.stdout.on("data", (data) => resolve({ child, url: data.toString().trim() }));
  });
}

async function measure(browser, trace) {
  const started = performance.now();
  const { child, url } = await serve(trace);
  const page = await browser.newPage({ viewport: { width: 1600, height: 900 } });
  let largest = 0;
  page.on("response", async (response) => {
    const bytes = await response.body().catch(() => Buffer.alloc(0));
    if (response.url().includes("/query/")) largest = Math.max(largest, bytes.length);
  });
  await page.goto(url);
  await page.waitForSelector(".numbers, .notice");
  const overview = performance.now() - started;
  await page.waitForFunction(() => document.querySelector("[role=status]") === null);
  const open = async (title) => {
    const from = performance.now();
    await page.getByRole("link", { name: title }).click();
    await page.waitForFunction(() => Number(document.querySelector("canvas")?.dataset.boxes ?? 0) > 0);
    return performance.now() - from;
  };
  const flame = await open("Flame graph");
  const timeline = await open("Timeline");
  await page.locator("canvas").focus();
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const script = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "ScriptDuration").value * 1000;
  for (let at = 0; at < 6; at += 1) await page.keyboard.press("w");
  await page.waitForTimeout(300);
  const before = await script();
  for (let at = 0; at < 20; at += 1) {
    await page.keyboard.press(at % 2 ? "a" : "d");
    await page.waitForTimeout(30);
  }
  const frame = ((await script()) - before) / 20;
  const heap = (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "JSHeapUsedSize").value;
  await page.close();
  child.removeAllListeners("exit");
  child.kill("SIGINT");
  return { overview, flame, timeline, frame, answers: largest, heap };
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const row = (cells) => console.log(`| ${cells.join(" | ")} |`);
row(["trace", "overview, ms", "flame graph, ms", "timeline, ms", "script a frame, ms", "largest answer, kB", "heap, MB"]);
row(["---", "---:", "---:", "---:", "---:", "---:", "---:"]);
row(["budget", BUDGETS.overview, BUDGETS.flame, BUDGETS.timeline, BUDGETS.frame, BUDGETS.answers / 1000, 500]);
for (const trace of traces) {
  const runs = [];
  for (let at = 0; at < RUNS; at += 1) runs.push(await measure(browser, trace));
  const least = (name) => Math.min(...runs.map((run) => run[name]));
  row([
    basename(trace),
    ...["overview", "flame", "timeline"].map((name) => least(name).toFixed(0)),
    least("frame").toFixed(1),
    (least("answers") / 1000).toFixed(0),
    (least("heap") / 1e6).toFixed(0),
  ]);
}
await browser.close();
const html = readFileSync(`${root}web/dist/index.html`);
console.log(`\nThe page: ${(gzipSync(html, { level: 9 }).length / 1000).toFixed(0)} kB as gzip, budget 420 kB`);
