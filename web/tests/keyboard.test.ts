/** The ways through the page: keys, clicks that are counted, copies, paper, and a proxy in front. */

import { writeFileSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { none, open, part, PAGES, serve, type Served, settled, suite, trace, violations, watched } from "./harness";
import { writeInjectedTrace } from "./injected-trace";

const here = suite();
let served: Served;
let source: string;
beforeAll(async () => {
  source = join(here.folder.path, "train.py");
  writeFileSync(source, Array.from({ length: 40 }, (_, at) => `line_${at + 1} = ${at}`).join("\n"));
  served = await serve(writeInjectedTrace(here.folder.path, source));
});
afterAll(async () => {
  await served.stop();
});

const title = (page: Page) => page.locator(".details h3").first().innerText();

/** Keeps the addresses that the editor would be opened with; the browser has none. */
const watchEditor = (page: Page) =>
  page.evaluate(() => {
    const opened: string[] = [];
    Object.assign(globalThis, { opened });
    addEventListener("click", (event) => {
      const link = (event.target as HTMLElement).closest("a.editor");
      if (!link) return;
      event.preventDefault();
      opened.push(link.getAttribute("href")!);
    }, true);
  });
const editorWas = (page: Page) => page.evaluate("globalThis.opened") as Promise<string[]>;

describe("by keyboard alone", () => {
  test("on the timeline: search, matches, neighbors, zoom, mark, details, the editor, and back", async () => {
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=timeline");
    await watchEditor(page);
    await page.keyboard.press("/");
    await page.keyboard.type("aten::item");
    await page.keyboard.press("Enter");
    await page.keyboard.press("n");
    await settled(page);
    expect(await title(page)).toBe("aten::item");
    const first = part(page, "sel");
    await page.keyboard.press("n");
    await settled(page);
    expect(part(page, "sel")).not.toBe(first);
    await page.keyboard.press("Shift+N");
    await settled(page);
    expect(part(page, "sel")).toBe(first);
    // Within it, around it, next to it, and zoomed to.
    await page.keyboard.press("ArrowDown");
    await settled(page);
    expect(await title(page)).toBe("aten::_local_scalar_dense");
    await page.keyboard.press("ArrowUp");
    await settled(page);
    expect(await title(page)).toBe("aten::item");
    await page.keyboard.press("ArrowLeft");
    await settled(page);
    expect(await title(page)).toBe("aten::mm");
    await page.keyboard.press("f");
    await settled(page);
    expect(Number(part(page, "to")) - Number(part(page, "from"))).toBe(36_000);
    await page.keyboard.press("m");
    await settled(page);
    expect(await page.locator(".range h2").innerText()).toMatch(/^Marked: 30 µs/);
    await page.keyboard.press("o");
    expect(await editorWas(page)).toEqual([expect.stringMatching(/train\.py:12$/)]);
    await page.keyboard.press("Enter");
    expect(await page.evaluate(() => document.activeElement?.className)).toBe("details");
    for (const cleared of ["sel", "mark"]) {
      await page.keyboard.press("Escape");
      await settled(page);
      expect(part(page, cleared), cleared).toBeNull();
    }
    expect(await violations(page)).toEqual([]);
    none(faults);
    await page.close();
  });

  test("on the timeline, a kernel leads to the call that launched it", async () => {
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=timeline&find=gemm");
    await page.locator("canvas").focus();
    await page.keyboard.press("n");
    await settled(page);
    await page.waitForFunction(() => document.querySelector(".details")?.textContent?.includes("Launched by"));
    await page.keyboard.press("ArrowUp");
    await settled(page);
    expect(await title(page)).toBe("cudaLaunchKernel");
    none(faults);
    await page.close();
  });

  test("on the flame graph: search, matches, zoom in and out, details, the editor", async () => {
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=flame");
    await watchEditor(page);
    await page.keyboard.press("/");
    await page.keyboard.type("train.py:12");
    await page.keyboard.press("Enter");
    await page.keyboard.press("n");
    await settled(page);
    expect(await title(page)).toContain("train_step");
    await page.waitForSelector(".details a.editor");
    await page.keyboard.press("o");
    expect(await editorWas(page)).toEqual([expect.stringMatching(/train\.py:12$/)]);
    await page.keyboard.press("w");
    await settled(page);
    const root = Number(part(page, "root"));
    expect(root).toBeGreaterThan(0);
    await page.keyboard.press("s");
    await settled(page);
    expect(Number(part(page, "root") ?? 0)).toBeLessThan(root);
    await page.locator("canvas").focus();
    await page.keyboard.press("Enter");
    expect(await page.evaluate(() => document.activeElement?.className)).toBe("details");
    none(faults);
    await page.close();
  });
});

test.each(["timeline", "flame"])("three clicks lead from the Overview over the %s to the source line", async (name) => {
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "");
  await watchEditor(page);
  let clicks = 0;
  const click = async (action: () => Promise<void>) => {
    clicks += 1;
    await action();
    await settled(page);
  };
  await click(() => page.locator(`nav a[href='#page=${name}']`).click());
  const canvas = page.locator("canvas");
  const wide = (await canvas.boundingBox())!.width;
  // The function of the program, below the step: its rows stand below the ruler, or below what stands for all.
  await click(() => canvas.click({ position: { x: wide * 0.08, y: name === "flame" ? 2 * 18 + 9 : 22 + 16 + 18 + 14 + 7 } }));
  expect(await title(page)).toContain("train_step");
  await page.waitForSelector(".details a.editor");
  // What else was measured moves what stands below it.
  if (name === "flame") await page.waitForFunction(() => document.querySelectorAll(".details tbody tr").length > 1);
  await click(() => page.locator(".details a.editor").first().click());
  expect(await editorWas(page)).toEqual([expect.stringMatching(/train\.py:12$/)]);
  expect(clicks).toBeLessThanOrEqual(3);
  none(faults);
  await page.close();
});

test("a source line shows its cost and links to its frames; Back returns to the line", async () => {
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, `page=source&file=${encodeURIComponent(source)}`);
  await page.getByRole("button", { name: "Line 12", exact: true }).click();
  await settled(page);
  expect(await page.locator("main .status-line").innerText()).toMatch(/^Line 12: train_step .* of host time, self /);
  expect(await page.locator("tr.hot").innerText()).toContain("line_12");
  expect(await violations(page)).toEqual([]);
  await page.locator("main .status-line").getByRole("button", { name: "Show in the flame graph" }).click();
  await settled(page);
  expect([part(page, "page"), part(page, "find")]).toEqual(["flame", `${source}:12`]);
  await page.goBack();
  await settled(page);
  expect(part(page, "line")).toBe("12");
  none(faults);
  await page.close();
});

test("details are copied as text", async () => {
  const { page, faults } = await watched(here.browser, served.url, { permissions: ["clipboard-read", "clipboard-write"] });
  for (const [view, expected] of [["timeline&find=gemm", /^gemm \(kernel\)\nStart /], ["issues&sel=finding:0", /^SL\d+ .*\nAt .*train\.py:12/]] as const) {
    await open(page, served.url, `page=${view}`);
    if (view.startsWith("timeline")) {
      await page.locator("canvas").focus();
      await page.keyboard.press("n");
    }
    await page.getByRole("button", { name: "Copy as text" }).first().click();
    await page.getByText("Copied", { exact: true }).waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(expected);
  }
  none(faults);
  await page.close();
});

test("unavailable pages list their requirements and link to available ones", async () => {
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "");
  const entry = page.locator("nav a", { hasText: "Layers & kernels" });
  expect(await entry.getAttribute("class")).toBe("without");
  expect(await entry.getAttribute("title")).toContain("hardware counters");
  await page.keyboard.press("6");
  await settled(page);
  expect(await page.locator("h1").innerText()).toBe("Layers & kernels");
  expect(await page.locator("main").innerText()).toMatch(/kernels: present in this run[\s\S]*the module of each kernel[\s\S]*hardware counters/);
  expect(await violations(page)).toEqual([]);
  await page.getByRole("button", { name: "Flame graph, bottom-up by GPU time" }).click();
  await settled(page);
  expect([part(page, "page"), part(page, "shape"), part(page, "metric")]).toEqual(["flame", "bottom-up", "gpu_time"]);
  none(faults);
  await page.close();
});

test("without findings, the checked rules are listed", async () => {
  const file = join(here.folder.path, "nothing.json");
  const event = (name: string, cat: string, ts: number, dur: number) => ({ ph: "X", name, cat, ts, dur, pid: 1, tid: 1 });
  writeFileSync(file, JSON.stringify({ traceEvents: [0, 1, 2].flatMap((at) => [event(`ProfilerStep#${at}`, "user_annotation", at * 1000, 990), event("aten::mm", "cpu_op", at * 1000 + 5, 980)]) }));
  const quiet = await serve(file);
  const { page, faults } = await watched(here.browser, quiet.url);
  await open(page, quiet.url, "page=issues");
  expect(await page.locator("main").innerText()).toMatch(/No findings with a gain of at least 0\.5 %/);
  expect(await page.locator("summary", { hasText: "rules checked" }).innerText()).toMatch(/^\d+ rules checked$/);
  expect(await page.locator("details[open] li:visible").first().innerText()).toMatch(/^SL\d+ [a-z-]+: ./);
  expect(await page.locator("summary", { hasText: "Largest gains" }).count()).toBe(0);
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
  await quiet.stop();
});

test("printed pages have the numbers in dark on light, without controls", async () => {
  const { page, faults } = await watched(here.browser, served.url, { colorScheme: "dark" });
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  for (const id of PAGES) {
    await open(page, served.url, `page=${id}`);
    expect(await page.locator("nav[aria-label=Pages]").isVisible(), id).toBe(false);
    expect(await page.locator(".bar:visible, header button:visible").count(), id).toBe(0);
    expect(await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor), id).toBe("rgb(255, 255, 255)");
    if (id === "flame") expect(await page.locator(".paper:visible").innerText()).toMatch(/^Top-down, host time, steps? /);
    expect(await page.locator(".details:visible").count(), id).toBe(0);
    // Nothing is cut where nobody can scroll.
    expect(await page.evaluate(() => [...document.querySelectorAll("main .scroll")].filter((box) => box.clientHeight + 1 < box.scrollHeight).length), id).toBe(0);
  }
  expect((await page.pdf()).length).toBeGreaterThan(1000);
  none(faults);
  await page.close();
});

/** A proxy as notebooks have: it adds a prefix to paths, and passes the rest to the server. */
function proxy(target: URL, prefix: string): Promise<Server> {
  const server = createServer((incoming, answer) => {
    if (incoming.url === "/notebook") {
      return answer.writeHead(200, { "content-type": "text/html" }).end(`<iframe src="${prefix}${target.pathname}" title="Stackline" width="1000" height="700"></iframe>`);
    }
    if (!incoming.url?.startsWith(prefix)) return answer.writeHead(404).end();
    const path = incoming.url.slice(prefix.length);
    const passed = request({ host: target.hostname, port: target.port, path, method: incoming.method, headers: incoming.headers }, (given) => {
      answer.writeHead(given.statusCode ?? 500, given.headers);
      given.pipe(answer);
    });
    passed.end();
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

test("each page works behind a proxy with a path prefix, and in a notebook's frame", async () => {
  const target = new URL(served.url);
  const prefix = `/user/me/proxy/${target.port}`;
  const front = await proxy(target, prefix);
  const origin = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
  const { page, faults } = await watched(here.browser, origin);
  for (const id of PAGES) {
    await open(page, `${origin}${prefix}${target.pathname}`, `page=${id}`);
    expect(await page.locator("[role=alert]").allTextContents(), id).toEqual([]);
  }
  await page.goto(`${origin}/notebook`);
  const frame = page.frameLocator("iframe");
  await frame.locator(".card").first().click();
  await frame.locator(".line.hot").waitFor();
  expect(await frame.locator("h1").innerText()).toBe("Issues");
  none(faults.filter((fault) => !fault.includes("favicon") && !/404/.test(fault)));
  await page.close();
  await new Promise((done) => front.close(done));
});

test("a trace without GPU work shows how to record it", async () => {
  const file = trace("cpu-only-gloo.json.gz");
  const cpu = await serve(file);
  const { page, faults } = await watched(here.browser, cpu.url);
  await open(page, cpu.url, "page=overview");
  expect(await page.locator("main").innerText()).toContain("with torch.profiler, activities=[CPU, CUDA]");
  await open(page, cpu.url, "page=layers");
  expect(await page.locator("main").innerText()).toContain("missing in this run");
  none(faults);
  await page.close();
  await cpu.stop();
});
