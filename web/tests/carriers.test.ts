/** The server and the report on a disk show the same: runs that are broken, empty, recorded or large; and both have the numbers of the command line. */

import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { amount } from "../src/format";
import { none, open, PAGES, serve, stackline, suite, synth, violations, watched } from "./harness";
import { isThere, PROGRAM, torch } from "./program";

const here = suite();

/** The report of a run, as an address. */
function reported(name: string, ...inputs: string[]): string {
  const file = join(here.folder.path, `${name}.html`);
  stackline("report", ...inputs, "--html", file);
  return `file://${file}`;
}

/** Opens each page: none has an error, asks anybody, or is hard to read. */
async function eachPage(page: Page, url: string, seen: (id: string) => Promise<void>): Promise<void> {
  for (const id of PAGES) {
    await open(page, url, `page=${id}`);
    expect(await violations(page), id).toEqual([]);
    await seen(id);
  }
}

describe("a report", () => {
  test("answers the queries of other views, and names the missing ones", async () => {
    const demo = join(here.folder.path, "asked.json.gz");
    synth("demo", demo);
    const url = reported("asked", demo);
    const { page, faults } = await watched(here.browser, url);
    const next = ["page=flame&steps=11..11", "page=overview&steps=12..12", "page=flame&steps=whole", "page=flame&shape=bottom-up&merge=name", "page=flame&recursion=collapsed"];
    for (const hash of next) {
      await open(page, url, hash);
      expect(await page.locator("[role=alert], main .notice").allTextContents(), hash).toEqual([]);
    }
    await open(page, url, "page=timeline");
    await page.evaluate(async () => {
      const { request } = (globalThis as unknown as { stackline: { request: (name: string, args?: object) => Promise<{ document: any; columns: any }> } }).stackline;
      const meta = (await request("meta")).document;
      const [, from, to] = meta.traces[0].steps[0];
      await request("range", { from, to });
      const [first, last] = meta.traces[0].chosen;
      const view = { shape: "top-down", steps: `${first}..${last}` };
      await request("frame", { ...view, root: 1 });
    });
    await open(page, url, "page=flame&focus=linear");
    expect(await page.locator("main").innerText()).toMatch(/The report file does not contain this view.* To see it, open the run: stackline view .*asked\.json\.gz/);
    none(faults);
    await page.close();
  });

  test("of a truncated file has a data loss note on each page", async () => {
    const cut = join(here.folder.path, "cut.json");
    writeFileSync(cut, '{"traceEvents": [{"ph": "X", "name": "a", "cat": "cpu_op", "ts": 1, "dur": 5, "pid": 1, "tid": 1}, {"ph": "X", "na');
    const url = reported("cut", cut);
    const { page, faults } = await watched(here.browser, url);
    await eachPage(page, url, async (id) => {
      expect(await page.locator("[role=alert]").allTextContents(), id).toEqual([]);
      expect(await page.locator(".lost").count(), id).toBe(id === "run" ? 0 : 1);
    });
    await open(page, url, "page=flame&as=table");
    expect(await page.locator("main tbody").innerText(), "what is there is shown").toMatch(/\ba\b/);
    none(faults);
    await page.close();
  });

  test("of a run without events shows only a note", async () => {
    const empty = join(here.folder.path, "empty.json");
    writeFileSync(empty, '{"traceEvents": []}');
    const url = reported("empty", empty);
    const { page, faults } = await watched(here.browser, url);
    await eachPage(page, url, async (id) => {
      expect(await page.locator("[role=alert]").allTextContents(), id).toEqual([]);
      expect(await page.locator(".lost").count(), id).toBe(0);
    });
    await open(page, url, "page=flame");
    expect(await page.locator("main").innerText()).toContain("there is no call tree to draw");
    none(faults);
    await page.close();
  });

  test.skipIf(!isThere).each(["profile", "trace"])("of a program that was recorded as a %s has its calls and lines", { timeout: 300_000 }, async (mode) => {
    const program = join(here.folder.path, `program-${mode}.py`);
    writeFileSync(program, PROGRAM);
    const run = join(here.folder.path, `${mode}.stackline`);
    stackline("record", ...(mode === "trace" ? ["--mode", "trace"] : []), "-o", run, "--", torch!, program);
    const url = reported(mode, run);
    const { page, faults } = await watched(here.browser, url);
    await eachPage(page, url, async (id) => expect(await page.locator("[role=alert]").allTextContents(), id).toEqual([]));
    await open(page, url, "page=flame");
    expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBeGreaterThan(20);
    await open(page, url, "page=source");
    expect(await page.locator("main").innerText()).toContain(`program-${mode}.py`);
    none(faults);
    await page.close();
  });

  test("of a tree of a million nodes respects the size limit, and shows the tree in each direction", { timeout: 600_000 }, async () => {
    const run = join(here.folder.path, "tree.stackline");
    synth("tree", run, "--nodes", "1000000");
    const url = reported("tree", run);
    expect(statSync(new URL(url)).size).toBeLessThanOrEqual(10_100_000);
    const { page, faults } = await watched(here.browser, url);
    for (const view of ["flame", "flame&shape=bottom-up", "flame&shape=flat", "flame&as=table", "source", "run"]) {
      await open(page, url, `page=${view}`);
      expect(await page.locator("[role=alert]").allTextContents(), view).toEqual([]);
    }
    await open(page, url, "page=flame");
    expect(await page.evaluate("stackline.request('calls', { shape: 'top-down' }).then(({ document }) => document.nodes)")).toBeGreaterThanOrEqual(1_000_000);
    expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBeGreaterThan(100);
    // What the whole has no room for would be asked for, and is said to be missing.
    await open(page, url, "page=flame&root=1");
    expect(await page.locator("main").innerText()).toContain("too narrow to draw");
    none(faults);
    await page.close();
  });
});

/** A row of the command line. */
interface Row {
  readonly node: number;
  readonly parent: number;
  readonly name: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly inclusive: number;
  readonly exclusive: number;
}

/** Rows by the frames that lead to them. */
function byPath(rows: readonly Row[]): Map<string, Row> {
  const paths = new Map<number, string>([[0, ""]]);
  for (const row of rows) paths.set(row.node, `${paths.get(row.parent)}\n${row.name} ${row.file ?? ""}:${row.line ?? 0}`);
  return new Map(rows.map((row) => [paths.get(row.node)!, row]));
}

interface Box {
  readonly path: string;
  readonly row: number;
  readonly inclusive: number;
  readonly exclusive: number;
}

/** The boxes of a view as the page got them. */
const boxesOf = (page: Page, args: object): Promise<Box[]> =>
  page.evaluate(`stackline.request("calls", ${JSON.stringify(args)}).then(({ document, columns }) => {
    const paths = [""];
    return Array.from(columns.row, (row, at) => {
      const [, name, , file, line] = document.labels[columns.label[at]];
      if (at > 0) paths[at] = paths[columns.parent[at]] + "\\n" + name + " " + file + ":" + line;
      return { path: paths[at], row, inclusive: columns.inclusive[at], exclusive: columns.exclusive[at] };
    });
  })`);

/** Path and costs of each box. All of them are compared at once: one by one takes seconds. */
const numbers = (boxes: readonly Box[]) => boxes.map(({ path, inclusive, exclusive }) => [path, inclusive, exclusive]);

/** The same as the command line has it. */
const numbersAt = (rows: Map<string, Row>, boxes: readonly Box[]) => boxes.map(({ path }) => [path, rows.get(path)?.inclusive, rows.get(path)?.exclusive]);

describe("numbers of calls equal those of the command line, on the server and in the report", () => {
  const made = () => {
    const run = join(here.folder.path, `few-${Math.random()}.stackline`);
    synth("tree", run, "--nodes", "1000");
    return run;
  };
  const printed = (run: string, ...more: string[]) => JSON.parse(stackline("calls", run, ...more, "--format", "json")) as { tables: { calls: { rows: Row[] }; call_lines: { rows: Array<Row & { readonly function: string }> } } };

  test("of the flame graph and of its table", { timeout: 120_000 }, async () => {
    const run = made();
    const served = await serve(run);
    const carriers = [served.url, reported("few-flame", run)];
    for (const shape of ["top-down", "bottom-up", "flat"]) {
      const expected = byPath(printed(run, "--view", shape, "--top", "0").tables.calls.rows);
      for (const url of carriers) {
        const { page, faults } = await watched(here.browser, url);
        await open(page, url, `page=flame&as=table&shape=${shape}`);
        const boxes = await boxesOf(page, { shape });
        expect(boxes.length, shape).toBeGreaterThan(20);
        expect(numbers(boxes.slice(1)), shape).toEqual(numbersAt(expected, boxes.slice(1)));
        // What stands there for people is the same.
        const rows = await page.locator("main [role=row]").evaluateAll((all) => all.map((row) => [...row.querySelectorAll("td.number")].map((cell) => cell.textContent)));
        const widest = boxes.slice(1).filter(({ path }) => path.split("\n").length === 2);
        expect(rows.slice(1).map(([with_]) => with_), shape).toEqual(widest.slice(0, rows.length - 1).map(({ inclusive }) => amount(inclusive, "ns")));
        none(faults);
        await page.close();
      }
    }
    await served.stop();
  });

  test("of a zoomed subtree, with callers", async () => {
    const run = made();
    const served = await serve(run);
    const expected = byPath(printed(run, "--view", "bottom-up", "--top", "0").tables.calls.rows);
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=flame&shape=bottom-up");
    const first = (await boxesOf(page, { shape: "bottom-up" })).slice(1, 6);
    let many = 0;
    for (const { path, row } of first) {
      const zoomed = (await boxesOf(page, { shape: "bottom-up", root: row })).map((box) => ({ ...box, path: path + box.path }));
      expect(numbers(zoomed)).toEqual(numbersAt(expected, zoomed));
      many += zoomed.length;
    }
    expect(many).toBeGreaterThan(first.length);
    await open(page, served.url, `page=flame&shape=bottom-up&root=${first[0]!.row}`);
    expect(await page.locator("nav.path button").count()).toBe(2);
    none(faults);
    await page.close();
    await served.stop();
  });

  test("of each file and line of the source", async () => {
    const run = made();
    const served = await serve(run);
    const lines = printed(run, "--lines", "--top", "0").tables.call_lines.rows;
    const byFile = new Map<string, number>();
    for (const { file, exclusive } of lines) byFile.set(file!, (byFile.get(file!) ?? 0) + exclusive);
    for (const url of [served.url, reported("few-source", run)]) {
      const { page, faults } = await watched(here.browser, url);
      await open(page, url, "page=source");
      const rows = await page.locator("main tbody tr").evaluateAll((all) => all.map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent)));
      expect(rows.length).toBe([...byFile.values()].filter((sum) => sum > 0).length);
      for (const [file, cost] of rows) expect(cost, file!).toBe(amount(byFile.get(file!)!, "ns"));
      none(faults);
      await page.close();
    }
    const { page, faults } = await watched(here.browser, served.url);
    const file = lines[0]!.file!;
    await open(page, served.url, `page=source&file=${encodeURIComponent(file)}`);
    const listed = await page.locator("main ul li").allInnerTexts();
    const own = lines.filter((line) => line.file === file);
    expect(listed).toEqual(own.map((line) => `${line.line} ${line.function}: ${amount(line.inclusive, "ns")}`));
    none(faults);
    await page.close();
    await served.stop();
  });
});
