/** The real program and a real browser, in which there must be no error, and no request to another host. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";

const root = new URL("../..", import.meta.url).pathname;
export const binary = process.env.STACKLINE_BINARY ?? join(root, "target/release/stackline");
export const corpus = process.env.STACKLINE_CORPUS ?? join(root, "../shared/corpus");

export const trace = (name: string): string => join(corpus, "kineto", name);

export function launch(): Promise<Browser> {
  const executablePath = process.env.STACKLINE_CHROMIUM;
  if (!executablePath) throw new Error("STACKLINE_CHROMIUM names no browser: python3 python/browser_env.py makes one");
  // Root may not have a sandbox of its own; the page under test is ours.
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}

/** A folder that goes when the tests end. */
export function scratch(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), "stackline-page-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export interface Suite {
  /** Of all tests of a file. */
  readonly browser: Browser;
  readonly folder: { readonly path: string };
  /** Open a run in a page of its own, in which nothing may fail. */
  readonly viewServed: (served: Pick<Served, "url">, at: (page: Page, url: string) => Promise<void>) => Promise<void>;
  /** The same of inputs that are served for it alone. */
  readonly view: (inputs: readonly string[], at: (page: Page, url: string) => Promise<void>) => Promise<void>;
  /** Write a trace of these events, and its other entries; returns its path. */
  readonly written: (name: string, traceEvents: readonly object[], more?: object) => string;
}

/** Environment of the tests of a file: a browser and a folder, which are removed when all of them have ended. */
export function suite(): Suite {
  const folder = scratch();
  let launched: Browser | undefined;
  beforeAll(async () => {
    launched = await launch();
  });
  afterAll(async () => {
    await launched?.close();
    folder.remove();
  });
  const browser = () => {
    if (!launched) throw new Error("the browser is there once the tests begin");
    return launched;
  };
  const viewServed: Suite["viewServed"] = async ({ url }, at) => {
    const { page, faults } = await watched(browser(), url);
    await at(page, url);
    none(faults);
    await page.close();
  };
  return {
    folder,
    get browser() {
      return browser();
    },
    viewServed,
    async view(inputs, at) {
      const served = await serve(...inputs);
      await viewServed(served, at);
      await served.stop();
    },
    written(name, traceEvents, more = {}) {
      const file = join(folder.path, name);
      writeFileSync(file, JSON.stringify({ ...more, traceEvents }));
      return file;
    },
  };
}

/** Tests write their source files there; text is read nowhere else. */
const SOURCE = ["--source-root", tmpdir()];

export const stackline = (...args: string[]): string => execFileSync(binary, args[0] === "report" ? [...args, ...SOURCE] : args, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });

/** Makes a run or a trace: see docs/generators.md. */
export const synth = (...args: string[]): void => void execFileSync(join(binary, "../stackline-synth"), args, { stdio: ["ignore", "ignore", "pipe"] });

export interface Served {
  readonly url: string;
  readonly stop: () => Promise<number | null>;
  readonly process: ChildProcess;
}

/** Starts the server, and gives the address that it prints. */
export function serve(...inputs: string[]): Promise<Served> {
  const child = spawn(binary, ["view", "--no-open", ...SOURCE, ...inputs], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let error = "";
  child.stderr.on("data", (data: Buffer) => (error += data.toString()));
  return new Promise((resolve, reject) => {
    const ended = new Promise<number | null>((done) => child.once("exit", (code) => done(code)));
    child.once("exit", (code) => reject(new Error(`stackline view ended with ${code}: ${error}`)));
    child.stdout.on("data", (data: Buffer) => {
      output += data.toString();
      const url = output.match(/http:\/\/\S+/)?.[0];
      if (url && output.includes("\n")) {
        resolve({
          url,
          process: child,
          stop: () => {
            child.kill("SIGINT");
            return ended;
          },
        });
      }
    });
  });
}

export interface Watched {
  readonly page: Page;
  /** Errors in the console and requests to elsewhere; there must be none. */
  readonly faults: string[];
}

/** A page that is watched. */
export async function watched(browser: Browser, own: string, options: Parameters<Browser["newPage"]>[0] = {}): Promise<Watched> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
  const faults: string[] = [];
  page.on("console", (message) => message.type() === "error" && faults.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(own) && !url.startsWith("data:") && !url.startsWith("blob:")) faults.push(`request: ${url}`);
  });
  return { page, faults };
}

/** Opens a view of the page, and waits until it has all its answers. */
export async function open(page: Page, url: string, hash: string): Promise<void> {
  await page.goto(`${url}#${hash}`);
  await settled(page);
}

/** A part of the address; none if it is not there. */
export const part = (page: Page, name: string): string | null => new URLSearchParams(new URL(page.url()).hash.slice(1)).get(name);

/** Waits until nothing is being worked out. */
export async function settled(page: Page): Promise<void> {
  await page.waitForSelector("main h1");
  await page.waitForFunction(() => document.querySelector("[role=status], [aria-busy=true]") === null);
  // While one moves the address comes a little later than the picture.
  await page.waitForFunction(() => (globalThis as unknown as { stackline: { address: { waits?: string } } }).stackline.address.waits === undefined);
  await page.waitForFunction(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))));
}

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** Rules of axe-core about colors: all that a theme changes in a page that was checked in another one. */
const COLOR_RULES = ["color-contrast", "link-in-text-block"];

/** Rows of a table are made alike: axe-core, which takes milliseconds for each of thousands of cells, sees the first ones. */
const MORE_ROWS = "tbody tr:nth-child(n+13)";

/** Violations that axe-core finds in the page; with `colors` only those of its colors. */
export async function violations(page: Page, which: "all" | "colors" = "all"): Promise<string[]> {
  // The policy of the page forbids scripts that are put in; the debugger's do not ask it.
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axe);
  const options = { resultTypes: ["violations"], ...(which === "colors" ? { runOnly: COLOR_RULES } : {}) };
  const found = (await page.evaluate(`axe.run(${JSON.stringify({ exclude: [[MORE_ROWS]] })}, ${JSON.stringify(options)})`)) as {
    violations: Array<{ id: string; nodes: Array<{ html: string }> }>;
  };
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ").slice(0, 300)}`);
}

/** Elements that reach over the right edge of the page and cannot be scrolled to; there must be none. */
export function beyond(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const edge = document.documentElement.clientWidth + 1;
    const isCut = (element: Element | null): boolean => element !== null && element !== document.documentElement && (getComputedStyle(element).overflowX !== "visible" || isCut(element.parentElement));
    const wide = [...document.body.querySelectorAll("*")].filter((element) => element.getBoundingClientRect().right > edge && !isCut(element.parentElement));
    const own = document.documentElement.scrollWidth > edge ? [`the page is ${document.documentElement.scrollWidth} wide`] : [];
    return [...own, ...wide.map((element) => `${element.tagName} ${element.className}: ${element.textContent?.slice(0, 60)}`)];
  });
}

/** Cells whose text is in a column as narrow as a few letters; there must be none, for tables can be scrolled. */
export function squeezed(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const cells = [...document.querySelectorAll<HTMLElement>("main td:not(.number)")];
    return cells.filter((cell) => cell.clientWidth < 50 && cell.clientHeight > 100).map((cell) => `${cell.clientWidth} by ${cell.clientHeight}: ${cell.textContent?.slice(0, 60)}`);
  });
}

export const none = (faults: readonly string[]): void => expect(faults).toEqual([]);

export const PAGES = ["overview", "issues", "flame", "timeline", "memory", "layers", "compare", "source", "run"] as const;
