/**
 * The pictures of the README, from a real trace, in a headless Chromium.
 *
 *   STACKLINE_CHROMIUM=$(python3 python/browser_env.py) node web/bench/pictures.mjs TRACE [FOLDER [MEMORY]]
 *
 * Writes overview.png, issues.png, flame.png and timeline.png of the trace, and memory.png of a file of memory (one of our fixtures,
 * by default) into FOLDER (docs/pictures by default), and fails if one is larger than 150 kB, since every
 * clone of the repository has them; if a page says that something went wrong, has an error in its console, or draws nothing.
 */

import { spawn } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { chromium } from "playwright-core";

const root = new URL("../..", import.meta.url).pathname;
const binary = resolve(process.env.STACKLINE_BINARY ?? join(root, "target/release/stackline"));
const executablePath = process.env.STACKLINE_CHROMIUM;
const [trace, folder = join(root, "docs/pictures"), memory = join(root, "fixtures/memory/darknet.txt")] = process.argv.slice(2);
if (!executablePath || !trace) {
  console.error("usage: STACKLINE_CHROMIUM=… node web/bench/pictures.mjs TRACE [FOLDER [MEMORY]]");
  process.exit(2);
}

const LARGEST = 150_000;
/** Name, view, and what is done before the picture is taken. */
const TRACE_PICTURES = [
  ["overview", "page=overview"],
  ["issues", "page=issues", (page) => page.locator(".card").first().click()],
  ["flame", "page=flame"],
  ["timeline", "page=timeline&cp=1", (page) => page.keyboard.press("w")],
];
const MEMORY_PICTURES = [
  ["memory", "page=memory", async (page) => {
    await page.setViewportSize({ width: 1100, height: 860 });
    await page.getByRole("button", { name: /^Apply (it|these)$/ }).click();
  }],
];

/** Fails: a picture of something that went wrong is none. */
function fail(what) {
  console.error(what);
  process.exitCode = 1;
}

/** Opens a file from its own folder: the picture shows a name, and not where it lies on some machine. */
async function serve(file) {
  const child = spawn(binary, ["view", "--no-open", basename(file)], { cwd: dirname(resolve(file)), stdio: ["ignore", "pipe", "ignore"] });
  process.once("exit", () => child.kill("SIGINT"));
  const url = await new Promise((done, reject) => {
    child.once("exit", (code) => reject(new Error(`stackline view ended with ${code}`)));
    child.stdout.once("data", (data) => done(data.toString().trim()));
  });
  child.removeAllListeners("exit");
  return { url, stop: () => child.kill("SIGINT") };
}

async function settled(page) {
  await page.waitForSelector("main h1");
  await page.waitForFunction(() => document.querySelector("[role=status], [aria-busy=true]") === null);
  await page.waitForTimeout(300);
}

async function picture(page, url, [name, view, act]) {
  await page.goto(`${url}#${view}`);
  await settled(page);
  if (act) {
    await act(page);
    await settled(page);
  }
  await page.evaluate(() => scrollTo(0, 0));
  for (const alert of await page.locator("[role=alert]").allTextContents()) fail(`${name}: ${alert}`);
  if (await page.evaluate(() => [...document.querySelectorAll("canvas")].some((canvas) => canvas.dataset.boxes === "0"))) fail(`${name}: nothing is drawn`);
  const path = join(folder, `${name}.png`);
  await page.screenshot({ path });
  const { size } = statSync(path);
  console.log(`${path}: ${(size / 1000).toFixed(0)} kB`);
  if (size > LARGEST) fail(`${name}: larger than ${LARGEST / 1000} kB`);
}

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1100, height: 640 }, colorScheme: "light" });
page.on("pageerror", (error) => fail(`error: ${error.message}`));
page.on("console", (message) => message.type() === "error" && fail(`console: ${message.text()}`));
for (const [file, pictures] of [[trace, TRACE_PICTURES], [memory, MEMORY_PICTURES]]) {
  const { url, stop } = await serve(file);
  for (const one of pictures) await picture(page, url, one);
  stop();
}
await browser.close();
