/**
 * The pictures of the README, from a real trace, in a headless Chromium.
 *
 *   STACKLINE_CHROMIUM=$(python3 python/browser_env.py) node web/bench/pictures.mjs TRACE [FOLDER]
 *
 * Writes overview.png, issues.png, flame.png and timeline.png into FOLDER (docs/pictures unless told otherwise), and fails if one
 * is larger than 150 kB: every clone of the repository has them.
 */

import { spawn } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { chromium } from "playwright-core";

const root = new URL("../..", import.meta.url).pathname;
const binary = resolve(process.env.STACKLINE_BINARY ?? join(root, "target/release/stackline"));
const executablePath = process.env.STACKLINE_CHROMIUM;
const [trace, folder = join(root, "docs/pictures")] = process.argv.slice(2);
if (!executablePath || !trace) {
  console.error("usage: STACKLINE_CHROMIUM=… node web/bench/pictures.mjs TRACE [FOLDER]");
  process.exit(2);
}

const LARGEST = 150_000;
/** Name, view, and what is done before the picture is taken. */
const PICTURES = [
  ["overview", "page=overview"],
  ["issues", "page=issues", (page) => page.locator(".card").first().click()],
  ["flame", "page=flame"],
  ["timeline", "page=timeline&cp=1", async (page) => {
    await page.keyboard.press("w");
  }],
];

// From the trace's own folder: the picture shows a name, and not where it lies on some machine.
const child = spawn(binary, ["view", "--no-open", basename(trace)], { cwd: dirname(resolve(trace)), stdio: ["ignore", "pipe", "ignore"] });
const url = await new Promise((done, reject) => {
  child.once("exit", (code) => reject(new Error(`stackline view ended with ${code}`)));
  child.stdout.once("data", (data) => done(data.toString().trim()));
});
child.removeAllListeners("exit");
process.once("exit", () => child.kill("SIGINT"));
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1100, height: 640 }, colorScheme: "light" });
const settled = async () => {
  await page.waitForSelector("main h1");
  await page.waitForFunction(() => document.querySelector("[role=status], [aria-busy=true]") === null);
  await page.waitForTimeout(300);
};
mkdirSync(folder, { recursive: true });
for (const [name, view, act] of PICTURES) {
  await page.goto(`${url}#${view}`);
  await settled();
  if (act) {
    await act(page);
    await settled();
  }
  await page.evaluate(() => scrollTo(0, 0));
  const path = join(folder, `${name}.png`);
  await page.screenshot({ path });
  const { size } = statSync(path);
  console.log(`${path}: ${(size / 1000).toFixed(0)} kB`);
  if (size > LARGEST) process.exitCode = 1;
}
await browser.close();
