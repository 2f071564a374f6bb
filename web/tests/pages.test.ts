import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { none, open, PAGES, serve, type Served, settled, stackline, suite, trace, violations, watched } from "./harness";
import { writeInjectedTrace } from "./injected-trace";

const here = suite();

const TRACES = {
  "an NVIDIA trace": trace("nvidia-h100-qwen1.5-0.5b.json.gz"),
  "an AMD trace": trace("amd-mi300-timesformer.json.gz"),
  "a replay of graphs": trace("amd-vllm-piecewise-graph-replay.json.gz"),
  "a trace of 2020": trace("schema-2020-bare-array-resnet50.json.gz"),
};

describe.each(Object.entries(TRACES))("%s", (name, file) => {
  let served: Served;
  const report = join(here.folder.path, `report-${Math.random()}.html`);
  beforeAll(async () => {
    served = await serve(file);
    stackline("report", file, "--html", report);
  });
  afterAll(() => served.stop());

  test("each page opens from the server, without an error and without another request, in both themes", async () => {
    // What a theme changes is the same for all files.
    const themes = name === "an NVIDIA trace" ? (["light", "dark"] as const) : (["light"] as const);
    for (const colorScheme of themes) {
      const { page, faults } = await watched(here.browser, served.url, { colorScheme });
      for (const id of PAGES) {
        await open(page, served.url, `page=${id}`);
        expect(await page.locator("[role=alert]").allTextContents()).toEqual([]);
        expect(await violations(page, colorScheme === "light" ? "all" : "colors"), `${id}, ${colorScheme}`).toEqual([]);
      }
      none(faults);
      await page.close();
    }
  });

  test("each page opens from the report, without a server", async () => {
    const url = `file://${report}`;
    const { page, faults } = await watched(here.browser, url);
    for (const id of PAGES) {
      await open(page, url, `page=${id}`);
      expect(await page.locator("[role=alert]").allTextContents(), id).toEqual([]);
    }
    none(faults);
    await page.close();
  });

  test("numbers equal those of the command line, on the server and in the report", async () => {
    const findings = JSON.parse(stackline("findings", file, "--top", "0", "--format", "json"));
    const summary = JSON.parse(stackline("report", file, "--format", "json"));
    for (const url of [served.url, `file://${report}`]) {
      const { page } = await watched(here.browser, url);
      await page.goto(url);
      await settled(page);
      const query = (name: string) => page.evaluate((query) => (globalThis as unknown as { stackline: { request(q: string): Promise<{ document: unknown }> } }).stackline.request(query).then((answer) => answer.document), name);
      const page_findings = (await query("findings")) as typeof findings;
      expect(page_findings.tables).toEqual(findings.tables);
      expect(page_findings.step_ns).toBe(findings.step_ns);
      expect(((await query("overview")) as typeof summary).tables).toEqual(summary.tables);
      expect(((await query("overview")) as typeof summary).critical_path).toEqual(summary.critical_path);
      await page.close();
    }
  });
});

describe("from the Overview to the source line", () => {
  test("two clicks: the first finding, then the link to the editor", async () => {
    const source = join(here.folder.path, "train.py");
    writeFileSync(source, Array.from({ length: 40 }, (_, at) => `line_${at + 1} = ${at}  # a line`).join("\n"));
    const served = await serve(writeInjectedTrace(here.folder.path, source));
    const { page, faults } = await watched(here.browser, served.url);
    await page.goto(served.url);
    await settled(page);
    await page.locator(".card").first().click();
    await settled(page);
    const link = page.getByRole("link", { name: "Open in editor" }).first();
    expect(await link.getAttribute("href")).toMatch(/^vscode:\/\/file.*train\.py:12$/);
    expect(await page.locator(".line.hot").innerText()).toContain("line_12");
    expect(await violations(page)).toEqual([]);
    none(faults);
    await page.close();
    await served.stop();
  });
});

describe("names of a trace are escaped", () => {
  test("scripts, quotes, control characters, other alphabets and a name of a megabyte are shown as text", async () => {
    const hostile = ["<script>globalThis.broken = true</script>", `"><img src=x onerror="globalThis.broken=true">`, "\u001b[31mred\u0007", "שלום ‮evil", "模型/层", "x".repeat(1 << 20), "</script><b>"];
    const events = hostile.flatMap((name, at) => [
      { ph: "X", name, cat: "cpu_op", ts: at * 100, dur: 90, pid: name.slice(0, 40), tid: 1, args: { [name.slice(0, 100)]: name } },
      { ph: "X", name, cat: "kernel", ts: at * 100 + 10, dur: 50, pid: 0, tid: 7, args: { device: 0, stream: 7 } },
    ]);
    const file = join(here.folder.path, "hostile.json.gz");
    writeFileSync(file, gzipSync(JSON.stringify({ traceEvents: events })));
    const served = await serve(file);
    const report = join(here.folder.path, "hostile.html");
    stackline("report", file, "--html", report);
    for (const url of [served.url, `file://${report}`]) {
      const { page, faults } = await watched(here.browser, url);
      for (const id of [...PAGES, "timeline&as=table", "flame&as=table", "timeline&sel=event:0"]) {
        await open(page, url, `page=${id}`);
      }
      expect(await page.evaluate("globalThis.broken")).toBeUndefined();
      await open(page, url, "page=timeline&as=table");
      expect(await page.locator("main").innerText()).toContain("<script>globalThis.broken = true</script>");
      none(faults);
      await page.close();
    }
    await served.stop();
  });
});

describe("missing data are reported", () => {
  test("a truncated file, one without events, and a stopped server", async () => {
    const cut = join(here.folder.path, "cut.json");
    writeFileSync(cut, '{"traceEvents": [{"ph": "X", "name": "a", "cat": "cpu_op", "ts": 1, "dur": 5, "pid": 1, "tid": 1}, {"ph": "X", "na');
    const empty = join(here.folder.path, "empty.json");
    writeFileSync(empty, '{"traceEvents": []}');
    for (const file of [cut, empty]) {
      const served = await serve(file);
      const { page, faults } = await watched(here.browser, served.url);
      for (const id of PAGES) {
        await open(page, served.url, `page=${id}`);
        expect(await violations(page), `${id} of ${file}`).toEqual([]);
        // That a part is missing is said wherever a number may stand.
        expect(await page.locator(".lost").count(), `${id} of ${file}`).toBe(file === cut && id !== "run" ? 1 : 0);
      }
      none(faults);
      await page.close();
      await served.stop();
    }
    const served = await serve(cut);
    const { page } = await watched(here.browser, served.url);
    await open(page, served.url, "page=overview");
    await served.stop();
    await page.evaluate("location.hash = '#page=flame'");
    await page.waitForSelector("[role=alert]");
    expect(await page.locator("[role=alert]").innerText()).toContain("server has stopped");
    await page.close();
  });

  test("a run of a newer version shows the supported versions", () => {
    const run = join(here.folder.path, "newer.stackline");
    stackline("import", trace("nvidia-2080ti-linear.json.gz"), "-o", run);
    const manifest = join(run, "manifest.json");
    const { checksum: _, ...written } = JSON.parse(readFileSync(manifest, "utf8"));
    writeFileSync(manifest, JSON.stringify({ ...written, version: 999 }));
    expect(() => stackline("view", "--no-open", run)).toThrow(/format version 999.*reads versions 1 to \d+; update Stackline/);
  });

  test("the server ends upon a signal", async () => {
    const served = await serve(trace("nvidia-2080ti-linear.json.gz"));
    expect(await served.stop()).toBe(0);
  });
});

describe("keys and the address", () => {
  test("pages, zoom, selection and Back work by keyboard alone", async () => {
    const served = await serve(trace("nvidia-h100-qwen1.5-0.5b.json.gz"));
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "");
    await page.keyboard.press("3");
    await settled(page);
    await page.locator("canvas").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await settled(page);
    expect(page.url()).toContain("sel=node");
    expect(await page.locator(".status-line").innerText()).toMatch(/self/);
    await page.keyboard.press("f");
    await settled(page);
    expect(page.url()).toContain("root=");
    await page.keyboard.press("t");
    await settled(page);
    expect(await page.getByRole("treegrid").count()).toBe(1);
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press("4");
    await page.keyboard.press("t");
    await settled(page);
    await page.locator("canvas").focus();
    await page.keyboard.press("w");
    await settled(page);
    expect(page.url()).toMatch(/from=\d+/);
    await page.goBack();
    await settled(page);
    expect(page.url()).toContain("page=timeline");
    expect(page.url()).toContain("as=table");
    none(faults);
    await page.close();
    await served.stop();
  });

  test("a click on a box shows its details, and the launch links to the call", async () => {
    const served = await serve(trace("nvidia-h100-qwen1.5-0.5b.json.gz"));
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=timeline");
    const canvas = page.locator("canvas");
    expect(Number(await canvas.getAttribute("data-boxes"))).toBeGreaterThan(100);
    await canvas.click({ position: { x: 500, y: 64 } });
    await settled(page);
    expect(page.url()).toMatch(/sel=event%3A\d+/);
    expect(await page.locator(".details h3").first().innerText()).not.toBe("");
    expect(await violations(page)).toEqual([]);
    none(faults);
    await page.close();
    await served.stop();
  });

  test("a second click on a box zooms to it at any position", async () => {
    const served = await serve(trace("nvidia-a100-ddp-nccl.json.gz"));
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=flame");
    const canvas = page.locator("canvas");
    const right = ((await canvas.boundingBox())?.width ?? 0) * 0.68;
    for (const clicks of [1, 2]) {
      await canvas.click({ position: { x: right, y: 45 } });
      await settled(page);
      expect(page.url()).toContain(clicks === 1 ? "sel=node" : "root=");
    }
    expect(await page.locator(".status-line").innerText()).toMatch(/self/);
    await page.mouse.move(400, 600);
    expect(await page.locator("canvas").count()).toBe(1);
    none(faults);
    await page.close();
    await served.stop();
  });

  test("an invalid pattern is refused and can be corrected", async () => {
    const served = await serve(trace("nvidia-2080ti-linear.json.gz"));
    const { page } = await watched(here.browser, served.url);
    await open(page, served.url, "page=flame");
    await page.locator("[data-field=focus]").fill("(");
    await page.locator("[data-field=focus]").press("Enter");
    await page.waitForSelector("[role=alert]");
    await page.locator("[data-field=focus]").fill("aten");
    await page.locator("[data-field=focus]").press("Enter");
    await page.waitForSelector("canvas");
    await page.close();
    await served.stop();
  });
});

describe("two runs", () => {
  test("changes are listed as on the command line, and drawn in the flame graph", async () => {
    const [before, after] = [trace("nvidia-h100-qwen1.5-0.5b.json.gz"), trace("amd-mi300-qwen1.5-0.5b.json.gz")];
    const served = await serve(after, "--baseline", before);
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=compare");
    expect(await violations(page)).toEqual([]);
    const diff = JSON.parse(stackline("diff", before, after, "--format", "json"));
    const compared = await page.evaluate("stackline.request('compare').then((answer) => answer.document)");
    expect((compared as typeof diff).tables).toEqual(diff.tables);
    await page.getByRole("button", { name: "Differential flame graph" }).click();
    await settled(page);
    expect(await page.locator("main").innerText()).toContain("Blue: less than in A (the baseline)");
    none(faults);
    await page.close();
    await served.stop();
  });
});

describe("several ranks", () => {
  test("each page shows the selected rank", async () => {
    const ranks = [0, 1].map((rank) => {
      const file = join(here.folder.path, `rank${rank}.json`);
      const events = [0, 1, 2].map((step) => ({ ph: "X", name: `ProfilerStep#${step}`, cat: "user_annotation", ts: step * 1000 * (rank + 1), dur: 1000 * (rank + 1) - 1, pid: 1, tid: 1 }));
      const work = events.map((event) => ({ ...event, name: "aten::mm", cat: "cpu_op", dur: event.dur - 5 }));
      writeFileSync(file, JSON.stringify({ distributedInfo: { rank, world_size: 2 }, traceEvents: [...events, ...work] }));
      return file;
    });
    const served = await serve(...ranks);
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=overview");
    const step = () => page.locator(".numbers dd").first().innerText();
    expect(await step()).toBe("999 µs");
    await page.locator("header select").first().selectOption("1");
    await settled(page);
    expect(await step()).toBe("2.00 ms");
    for (const id of PAGES) await open(page, served.url, `page=${id}&rank=1`);
    // Of all ranks together, findings are those of the command line, and ranks stand by how long they take.
    await open(page, served.url, "page=overview");
    const merged = JSON.parse(stackline("findings", ...ranks, "--top", "0", "--format", "json"));
    const findings = (await page.evaluate("stackline.request('findings').then((answer) => answer.document)")) as typeof merged;
    expect(findings.tables).toEqual(merged.tables);
    expect(findings.ranks).toEqual(merged.ranks);
    expect(await page.locator("[aria-label^=Ranks] tbody button").allTextContents()).toEqual(["rank 1", "rank 0"]);
    expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: "rank 1" }).click();
    await settled(page);
    expect(page.url()).toContain("rank=1");
    none(faults);
    await page.close();
    await served.stop();
  });
});
