/** Selections and search results remain from view to view, and a search leads to its result. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open, part, serve, type Served, settled, suite, synth, violations } from "./harness";
import { writeInjectedTrace } from "./injected-trace";

const here = suite();
let served: Served;
let demo: Served;
beforeAll(async () => {
  const source = join(here.folder.path, "train.py");
  writeFileSync(source, Array.from({ length: 40 }, (_, at) => (at === 0 ? "def train_step():" : `    if line_${at + 1}:\n        pass`)).join("\n"));
  served = await serve(writeInjectedTrace(here.folder.path, source));
  const [a, b] = ["a.json", "b.json"].map((name) => join(here.folder.path, name)) as [string, string];
  synth("demo", a, "--steps", "4");
  synth("demo", b, "--steps", "4", "--no-host-sync");
  demo = await serve(b, "--baseline", a);
});
afterAll(async () => {
  await served.stop();
  await demo.stop();
});

const title = (page: Page) => page.locator(".details h3").first().innerText();
const share = (page: Page) => page.locator("main .status-line").innerText();

test("a search result is selected in the flame graph, and zoomed if it is narrow", async () => {
  await here.viewServed(demo, async (page, url) => {
    await open(page, url, "page=overview");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search all names" }).fill("softmax");
    const found = page.locator("#found li", { hasText: "flame graph:" }).first();
    await found.waitFor();
    expect(await page.locator("#found li", { hasText: "timeline:" }).count()).toBeGreaterThan(0);
    await found.click();
    await settled(page);
    expect(await title(page)).toContain("softmax");
    expect(await share(page)).toContain("softmax");
    expect(Number(part(page, "root"))).toBeGreaterThan(0);
    // 0 shows all again, and the selection stays.
    await page.locator("canvas").focus();
    await page.keyboard.press("0");
    await settled(page);
    expect(part(page, "root")).toBeNull();
    expect(await title(page)).toContain("softmax");
    expect(await violations(page)).toEqual([]);
  });
});

test("N selects the next match with any focus, in the plot and in the table", async () => {
  await here.viewServed(demo, async (page, url) => {
    for (const as of ["", "&as=table"]) {
      await open(page, url, `page=flame&find=aten::${as}`);
      await page.locator("h1").click();
      await page.keyboard.press("n");
      await settled(page);
      expect(await title(page), as).toContain("aten::");
      const first = part(page, "sel");
      await page.keyboard.press("n");
      await settled(page);
      expect(part(page, "sel"), as).not.toBe(first);
      await page.keyboard.press("Shift+N");
      await settled(page);
      expect(part(page, "sel"), as).toBe(first);
    }
  });
});

test("the selected frame remains selected in other views, metrics and steps", async () => {
  await here.viewServed(served, async (page, url) => {
    await open(page, url, "page=flame&find=_local_scalar_dense");
    await page.keyboard.press("n");
    await settled(page);
    expect(part(page, "sel")).toMatch(/^node:/);
    for (const shape of ["bottom-up", "flat", "top-down"]) {
      await page.locator("canvas").focus();
      await page.keyboard.press("i");
      await settled(page);
      expect(part(page, "shape")).toBe(shape);
      expect(await title(page), shape).toBe("aten::_local_scalar_dense");
      expect(await share(page), shape).toContain("aten::_local_scalar_dense");
    }
    await page.locator("[data-field=steps]").fill("3");
    await page.keyboard.press("Enter");
    await settled(page);
    expect(await title(page)).toBe("aten::_local_scalar_dense");
    await page.locator("canvas").focus();
    await page.keyboard.press("g");
    await settled(page);
    expect(part(page, "shape")).toBe("callees");
  });
});

test("a selected event marks its frame, and its details link to the frame and to the launch", async () => {
  await here.viewServed(served, async (page, url) => {
    await open(page, url, "page=timeline&find=gemm");
    await page.keyboard.press("n");
    await settled(page);
    const details = page.locator(".details");
    await details.getByText("Starts at").waitFor();
    expect(await details.innerText()).toContain("Callers of the launch, innermost first");
    expect(await details.locator(".events li", { hasText: "train_step" }).count()).toBe(1);
    await details.getByRole("button", { name: "Show in the flame graph" }).click();
    await settled(page);
    expect(part(page, "page")).toBe("flame");
    expect(part(page, "sel")).toMatch(/^event:/);
    expect(await title(page)).toBe("gemm");
    expect(await share(page)).toMatch(/^gemm: /);
    expect(await violations(page)).toEqual([]);
  });
});

test("a finding links to its frame, whose source keeps its indentation", async () => {
  await here.viewServed(served, async (page, url) => {
    await open(page, url, "page=issues&sel=finding:0");
    const line = page.locator(".excerpt .line.hot code");
    expect(await line.innerText()).toMatch(/^ {4}/);
    await page.locator(".detail").getByRole("button", { name: "Show in the flame graph" }).click();
    await settled(page);
    expect(await title(page)).toContain("train_step");
    await page.waitForSelector(".details .excerpt .line.hot");
    expect(await page.locator(".details .excerpt .line.hot code").innerText()).toMatch(/^ {4}/);
  });
});

test("the differential flame graph shows removed frames, or their total if hidden", async () => {
  await here.viewServed(demo, async (page, url) => {
    await open(page, url, "page=compare");
    await page.getByRole("button", { name: "Differential flame graph" }).click();
    await settled(page);
    expect(await page.locator("h1").innerText()).toBe("Differential flame graph");
    await page.locator("[data-field=find]").fill("aten::item");
    await page.keyboard.press("Enter");
    await page.keyboard.press("n");
    await settled(page);
    const shareText = await share(page);
    expect(shareText).toMatch(/^aten::item: 0 ns .*\d \S+ in A \(the baseline\)/);
    // Its box has width, which it has not without.
    const width = async () => Number(await page.locator("canvas").getAttribute("data-selected"));
    expect(await width()).toBeGreaterThan(20);
    expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: "Removed frames" }).click();
    await settled(page);
    expect(await width()).toBe(0);
    expect(await page.locator("main").innerText()).toMatch(/Frames that are missing in B account for [\d.]+ ms in A/);
    await page.getByRole("button", { name: "Back to Compare" }).click();
    await settled(page);
    expect(part(page, "page")).toBe("compare");
  });
});

test("the critical path is listed by cause and by segment, and segments link to the timeline", async () => {
  await here.viewServed(demo, async (page, url) => {
    await open(page, url, "page=timeline&cp=1");
    const breakdown = page.locator(".breakdown");
    await breakdown.waitFor();
    const shares = (await breakdown.locator(".legend li").allInnerTexts()).map((text) => Number(/\(([\d.]+) %\)/.exec(text)![1]));
    expect(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 100)).toBeLessThan(1);
    await breakdown.locator("summary").click();
    const lengths = (await breakdown.locator(".events button").allInnerTexts()).length;
    expect(lengths).toBeGreaterThan(3);
    await breakdown.locator(".events button").first().click();
    await settled(page);
    expect(part(page, "sel")).toMatch(/^event:/);
    expect(Number(part(page, "to"))).toBeGreaterThan(Number(part(page, "from")));
    expect(await violations(page)).toEqual([]);
  });
});
