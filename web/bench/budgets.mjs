/**
 * The page compared with its budgets, in a headless Chromium with software rendering.
 *
 *   STACKLINE_CHROMIUM=$(python3 python/browser_env.py) node web/bench/budgets.mjs [--runs FOLDER] [TRACE…]
 *
 * Columns are runs: a tree of a million nodes and five million events, both made by stackline-synth and kept in FOLDER, and
 * the traces that are named. Each number is the least of three; what other work does on the machine only makes it larger. A number
 * above its budget has a mark, and then the program ends with 1.
 */

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import { generated } from "./runs.mjs";

const root = new URL("../..", import.meta.url).pathname;
const binary = process.env.STACKLINE_BINARY ?? join(root, "target/release/stackline");
const synth = join(binary, "..", "stackline-synth");
const executablePath = process.env.STACKLINE_CHROMIUM;
const words = process.argv.slice(2);
const folder = words[0] === "--runs" ? words.splice(0, 2)[1] : join(tmpdir(), "stackline-budgets");
if (!executablePath || !folder || words.some((word) => word.startsWith("-"))) {
  console.error("usage: STACKLINE_CHROMIUM=… node web/bench/budgets.mjs [--runs FOLDER] [TRACE…]");
  process.exit(2);
}

const REPEATS = 3;
/** What takes longer than so many ms is not waited for. */
const TIMEOUT_MS = 180_000;
/** What is measured: name, unit, budget. */
const ROWS = [
  ["overview", "command to Overview, ms", 1000],
  ["flame", "first flame graph after the click, ms", 700],
  ["shape", "flame graph turned round, ms", 400],
  ["timeline", "first timeline after the click, ms", 700],
  ["frame", "script a frame of panning, ms", 5],
  ["task", "all work of the page a frame of panning, ms", 33],
  ["boxes", "boxes on the timeline", 20_000],
  ["details", "click to details, ms", 100],
  ["search", "search over all names, ms", 300],
  ["tree", "largest answer for the flame graph, kB", 700],
  ["tiles", "largest answer for the timeline, kB", 256],
  ["heap", "heap of the page, MB", 500],
];

function serve(path) {
  const child = spawn(binary, ["view", "--no-open", path], { stdio: ["ignore", "pipe", "ignore"] });
  process.once("exit", () => child.kill("SIGINT"));
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`stackline view ended with ${code}`)));
    child.stdout.on("data", (data) => resolve({ child, url: data.toString().trim() }));
  });
}

const measureMs = async (work) => {
  const from = performance.now();
  await work();
  return performance.now() - from;
};
const boxes = (page) => page.evaluate(() => Number(document.querySelector("canvas")?.dataset.boxes ?? 0));
const drawn = (page) => page.waitForFunction(() => Number(document.querySelector("canvas")?.dataset.boxes ?? 0) > 0);
const idle = (page) => page.waitForFunction(() => document.querySelector("[role=status], [aria-busy=true]") === null);

async function metric(session, name) {
  return (await session.send("Performance.getMetrics")).metrics.find((metric) => metric.name === name).value;
}

async function flame(page, found) {
  found.flame = await measureMs(async () => {
    await page.getByRole("link", { name: "Flame graph" }).click();
    await drawn(page);
  });
  const changeShape = (shape) => measureMs(async () => {
    await page.evaluate((to) => (location.hash = to), `#page=flame&shape=${shape}`);
    await page.waitForTimeout(20);
    await idle(page);
    await drawn(page);
  });
  found.shape = (await changeShape("bottom-up")) - 20;
}

async function timeline(page, session, found) {
  const from = performance.now();
  await page.getByRole("link", { name: "Timeline" }).click();
  const has = await page.waitForFunction(() => (document.querySelector("main .notice") ? "no" : Number(document.querySelector("canvas")?.dataset.boxes ?? 0) > 0 ? "yes" : false));
  if ((await has.jsonValue()) === "no") {
    found.tiles = undefined;
    return;
  }
  found.timeline = performance.now() - from;
  found.boxes = await boxes(page);
  for (let at = 0; at < 6; at += 1) await page.keyboard.press("w");
  await page.waitForTimeout(300);
  found.boxes = Math.max(found.boxes, await boxes(page));
  const [before, tasks] = [await metric(session, "ScriptDuration"), await metric(session, "TaskDuration")];
  for (let at = 0; at < 20; at += 1) {
    await page.keyboard.press(at % 2 ? "a" : "d");
    await page.waitForTimeout(30);
  }
  found.frame = (((await metric(session, "ScriptDuration")) - before) * 1000) / 20;
  // What the browser draws on the page's thread counts, too.
  found.task = (((await metric(session, "TaskDuration")) - tasks) * 1000) / 20;
  found.details = await measureMs(async () => {
    await page.evaluate(() => (location.hash += "&sel=event:5"));
    await page.waitForSelector(".details h3");
  });
  found.search = await page.evaluate(async () => {
    const from = performance.now();
    await globalThis.stackline.request("search", { text: "gemm" });
    return performance.now() - from;
  });
}

async function measure(browser, path) {
  const found = { tree: 0, tiles: 0 };
  const page = await browser.newPage({ viewport: { width: 1600, height: 900 } });
  page.setDefaultTimeout(TIMEOUT_MS);
  page.on("response", async (response) => {
    const name = response.url().match(/query\/(calls|tiles)/)?.[1];
    const bytes = name ? (await response.body().catch(() => Buffer.alloc(0))).length : 0;
    const row = name === "calls" ? "tree" : "tiles";
    found[row] = Math.max(found[row], bytes / 1000);
  });
  let child;
  found.overview = await measureMs(async () => {
    const served = await serve(path);
    child = served.child;
    await page.goto(served.url);
    await page.waitForSelector(".numbers, .notice");
  });
  await idle(page);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  await flame(page, found);
  await timeline(page, session, found);
  found.heap = (await metric(session, "JSHeapUsedSize")) / 1e6;
  await page.close();
  child.removeAllListeners("exit");
  child.kill("SIGINT");
  return found;
}

const runs = [...generated(folder, binary, synth), ...words.map((path) => ({ name: basename(path), path }))];
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const columns = [];
for (const { path } of runs) {
  const all = [];
  for (let at = 0; at < REPEATS; at += 1) all.push(await measure(browser, path));
  columns.push(Object.fromEntries(ROWS.map(([key]) => [key, Math.min(...all.map((found) => found[key] ?? Number.NaN))])));
}
await browser.close();

let over = 0;
const cell = (value, budget) => {
  if (Number.isNaN(value)) return "–";
  const text = value < 10 ? value.toFixed(1) : value.toFixed(0);
  if (value <= budget) return text;
  over += 1;
  return `**${text}** over`;
};
const row = (cells) => console.log(`| ${cells.join(" | ")} |`);
row(["", "budget", ...runs.map(({ name }) => name)]);
row(["---", "---:", ...runs.map(() => "---:")]);
for (const [key, title, budget] of ROWS) row([title, budget, ...columns.map((found) => cell(found[key], budget))]);
const html = gzipSync(readFileSync(join(root, "web/dist/index.html")), { level: 9 }).length / 1000;
console.log(`\nThe page as gzip: ${cell(html, 420)} kB of 420.`);
process.exitCode = over > 0 ? 1 : 0;
