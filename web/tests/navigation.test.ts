import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { none, open, serve, settled, stackline, suite, trace, violations, watched } from "./harness";
import { writeInjectedTrace } from "./injected-trace";

const here = suite();

describe("selected part of the run", () => {
  test("steps by default, the whole run with one click, with the numbers of the command line", async () => {
    const source = join(here.folder.path, "train.py");
    writeFileSync(source, "pass\n".repeat(40));
    // Long before the steps, the program begins.
    const file = writeInjectedTrace(here.folder.path, source, {}, [{ ph: "X", name: `${source}(1): imports`, cat: "python_function", ts: -90_000, dur: 80_000, pid: 1, tid: 1 }]);
    const served = await serve(file);
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=flame&metric=host_time");
    const all = async () => (await page.evaluate("stackline.request('meta').then((answer) => answer.document.traces[0].chosen)")) as number[];
    expect(await all()).toEqual([1, 6]);
    await page.keyboard.press("t");
    await settled(page);
    const frames = () => page.locator("main tbody").innerText();
    expect(await frames()).not.toContain("imports");
    expect(await page.locator(".filters").innerText()).toContain("The run has 6 steps (1 to 6)");
    await page.getByRole("button", { name: "Whole run" }).click();
    await settled(page);
    expect(await frames()).toContain("imports");
    await page.locator("[data-field=steps]").fill("2..3");
    await page.locator("[data-field=steps]").press("Enter");
    await settled(page);
    expect(page.url()).toContain("steps=2..3");
    expect(await violations(page)).toEqual([]);
    await open(page, served.url, "page=overview&steps=2..3");
    const summary = JSON.parse(stackline("report", file, "--steps", "2..3", "--format", "json"));
    const overview = (await page.evaluate("stackline.request('overview', { steps: '2..3' }).then((answer) => answer.document)")) as typeof summary;
    expect(overview.tables).toEqual(summary.tables);
    expect(overview.critical_path).toEqual(summary.critical_path);
    expect(await page.locator(".numbers").innerText()).toContain("steps 2 to 3");
    // On the timeline, steps are where they are.
    await open(page, served.url, "page=timeline");
    await page.locator("[data-field=steps]").fill("3");
    await page.locator("[data-field=steps]").press("Enter");
    await settled(page);
    expect(page.url()).toContain("from=92000000&to=92990000");
    none(faults);
    await page.close();
    await served.stop();
  });

  test("a thread, a phase and a module can be selected, shown as chips, and removed", async () => {
    const served = await serve(trace("nvidia-h100-qwen1.5-0.5b.json.gz"));
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=flame");
    await page.getByRole("button", { name: "Filter by thread, phase or module" }).click();
    await page.waitForSelector("[data-field=thread]");
    const thread = await page.locator("[data-field=thread] option").nth(1).getAttribute("value");
    await page.locator("[data-field=thread]").selectOption(thread);
    await settled(page);
    expect(new URLSearchParams(page.url().split("#")[1]).get("thread")).toBe(thread);
    expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: `Remove thread ${thread}` }).click();
    await settled(page);
    expect(page.url()).not.toContain("thread=");
    none(faults);
    await page.close();
    await served.stop();
  });
});

describe("a frame of the flame graph", () => {
  test("has details with its call path and source; callers and callees are two clicks away", async () => {
    const source = join(here.folder.path, "train.py");
    writeFileSync(source, Array.from({ length: 40 }, (_, at) => `line_${at + 1} = ${at}`).join("\n"));
    const file = writeInjectedTrace(here.folder.path, source);
    const report = join(here.folder.path, "frames.html");
    stackline("report", file, "--html", report);
    const served = await serve(file);
    for (const url of [served.url, `file://${report}`]) {
      const { page, faults } = await watched(here.browser, url);
      await open(page, url, "page=flame&as=table");
      await page.getByRole("button", { name: /^ProfilerStep/ }).click();
      await settled(page);
      await page.locator("main button.twisty:not([disabled])").last().click();
      await page.getByRole("button", { name: /^train_step/ }).first().click();
      await settled(page);
      const details = page.locator(".details");
      await page.waitForSelector(".details .line.hot");
      expect(await details.locator(".line.hot").innerText()).toContain("line_12");
      expect(await details.getByRole("link", { name: "Open in editor" }).getAttribute("href")).toMatch(/train\.py:12$/);
      expect(await details.locator("ol").innerText()).toMatch(/ProfilerStep[\s\S]*train_step \(.*train\.py:12\)/);
      expect(await violations(page)).toEqual([]);
      if (url === served.url) {
        // Whatever the picture is of: all that was measured.
        await page.waitForFunction(() => document.querySelectorAll(".details tbody tr").length >= 2);
        expect(await details.locator("tbody").innerText()).toMatch(/host time[\s\S]*GPU time[\s\S]*GPU launches/);
        await details.getByRole("button", { name: "Callees" }).click();
        await settled(page);
        expect(page.url()).toContain("shape=callees");
        expect(await page.locator("main tbody tr").nth(1).innerText()).toContain("train_step");
        await page.getByRole("button", { name: /^Remove: from train_step/ }).click();
        await settled(page);
        expect(page.url()).not.toContain("shape=");
      } else {
        // What a report lacks is marked before one asks for it.
        const missing = [details.getByRole("button", { name: "Callees" }), page.locator("[data-field=focus]"), page.locator("main option", { hasText: "GPU time" }).first()];
        for (const control of missing) expect(await control.isDisabled()).toBe(true);
        expect(await missing[0]!.getAttribute("title")).toMatch(/^This control does not work in a report file; to use it, open the run with stackline view .*injected\.json$/);
      }
      none(faults);
      await page.close();
    }
    await served.stop();
  });

  test("is drawn without an error when merged by name, with collapsed recursion, and in every coloring", async () => {
    const served = await serve(trace("nvidia-h100-qwen1.5-0.5b.json.gz"));
    const { page, faults } = await watched(here.browser, served.url);
    await open(page, served.url, "page=flame");
    for (const name of ["Merge by name", "Collapse recursion"]) {
      await page.getByRole("button", { name }).click();
      await settled(page);
      expect(await page.getByRole("button", { name }).getAttribute("aria-pressed")).toBe("true");
    }
    for (const color of ["finding", "module", "heat", "file", "layer"]) {
      await page.locator("main select").nth(2).selectOption(color);
      if (color === "finding") await page.locator(".legend li").first().waitFor();
      await settled(page);
      expect(await violations(page), color).toEqual([]);
      // The step's wait at its end is no finding: what was launched before the recording is not in it.
      if (color === "finding") expect(await page.locator(".legend").innerText()).toMatch(/kernels\n[^]*copies/);
    }
    none(faults);
    await page.close();
    await served.stop();
  });
});

describe("search over all names, and keys", () => {
  test("Ctrl+K finds pages, findings, frames, events and files, by keyboard alone; ? lists the keys and leads to the glossary", async () => {
    const file = trace("nvidia-h100-qwen1.5-0.5b.json.gz");
    const report = join(here.folder.path, "search.html");
    stackline("report", file, "--html", report);
    const served = await serve(file);
    for (const url of [served.url, `file://${report}`]) {
      const { page, faults } = await watched(here.browser, url);
      await open(page, url, "page=overview");
      await page.keyboard.press("Control+k");
      await page.waitForSelector("dialog[open]");
      await page.keyboard.type("aten::");
      await page.waitForFunction(() => [...document.querySelectorAll("#found .sort")].some((sort) => sort.textContent === "operator"));
      expect(await violations(page)).toEqual([]);
      await page.keyboard.press("Enter");
      await settled(page);
      expect(page.url()).toMatch(/page=(flame|issues)/);
      await page.keyboard.press("Control+k");
      await page.waitForSelector("dialog[open]");
      await page.keyboard.type("timeline");
      await page.waitForFunction(() => document.querySelector("#found [aria-selected=true] .name")?.textContent === "Timeline");
      await page.keyboard.press("Enter");
      await settled(page);
      expect(page.url()).toContain("page=timeline");
      await page.keyboard.press("?");
      await page.waitForSelector("dialog[aria-label='Keys and mouse']");
      expect(await violations(page)).toEqual([]);
      await page.getByRole("button", { name: "glossary" }).click();
      await page.waitForSelector("dialog[aria-label=Glossary]");
      expect(await page.locator("dialog").innerText()).toMatch(/call path\s+The frames from the start of a thread to a call/);
      expect(await violations(page)).toEqual([]);
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
      none(faults);
      await page.close();
    }
    await served.stop();
  });
});

describe("a finding", () => {
  test("a finding shows how to ignore it, and its evidence opens in the report, too", async () => {
    const source = join(here.folder.path, "other.py");
    writeFileSync(source, "pass\n".repeat(20));
    const report = join(here.folder.path, "evidence.html");
    stackline("report", writeInjectedTrace(here.folder.path, source), "--html", report);
    const url = `file://${report}`;
    const { page, faults } = await watched(here.browser, url);
    await open(page, url, "page=issues&sel=finding:0");
    await page.getByText("Ignore this finding").click();
    const text = await page.locator("main").innerText();
    expect(text).toContain("# stackline: ignore[SL004]");
    expect(text).toContain(`SL004 ${source}`);
    expect(text).not.toMatch(/\d{4,}(\.\d+)? µs/);
    await page.locator(".detail .events button").first().click();
    await settled(page);
    expect(await page.locator("[role=alert]").allTextContents()).toEqual([]);
    expect(await page.locator(".details h3").first().innerText()).not.toBe("");
    none(faults);
    await page.close();
  });

  test("a source file changed after the recording has a note", async () => {
    const source = join(here.folder.path, "train.py");
    writeFileSync(source, "pass\n".repeat(40));
    // The trace says when it began: in 2020, or in a time to come.
    for (const [base, changed] of [[1_600_000_000_000_000_000, 1], [4_000_000_000_000_000_000, 0]] as const) {
      const served = await serve(writeInjectedTrace(here.folder.path, source, { baseTimeNanoseconds: base }));
      const { page } = await watched(here.browser, served.url);
      for (const hash of ["page=issues&sel=finding:0", `page=source&file=${encodeURIComponent(source)}`]) {
        await open(page, served.url, hash);
        expect(await page.getByText("changed after recording").count(), `${hash} ${base}`).toBe(changed);
      }
      await page.close();
      await served.stop();
    }
  });
});
