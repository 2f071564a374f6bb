/** Appearance: the selected theme, print, few lines above pictures, texts for missing data. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open, part, serve, type Served, settled, suite, trace, watched } from "./harness";
import { writeInjectedTrace } from "./injected-trace";

const here = suite();
let served: Served;
beforeAll(async () => {
  served = await serve(trace("nvidia-a100-ddp-nccl.json.gz"));
});
afterAll(async () => {
  await served.stop();
});

/** The color of a canvas in its corner, which no box covers. */
const paper = (page: Page) => page.locator("main canvas").first().evaluate((canvas) => [...(canvas as HTMLCanvasElement).getContext("2d")!.getImageData(1, 1, 1, 1).data].slice(0, 3));

test("the selected theme persists after a reload", () =>
  here.viewServed(served, async (page, url) => {
    await open(page, url, "page=timeline");
    await page.getByLabel("Theme").selectOption("dark");
    await page.reload();
    await settled(page);
    expect(await page.getByLabel("Theme").inputValue()).toBe("dark");
    expect((await paper(page))[0]).toBeLessThan(50);
    await page.getByLabel("Theme").selectOption("");
    await page.reload();
    await settled(page);
    expect(await page.getByLabel("Theme").inputValue()).toBe("");
  }));

test("printed plots are dark on light in every theme, without controls", () =>
  here.viewServed(served, async (page, url) => {
    await open(page, url, "page=timeline");
    await page.getByLabel("Theme").selectOption("dark");
    await settled(page);
    const before = await paper(page);
    expect(before[0]).toBeLessThan(50);
    // The browser takes what is drawn when this event has been heard.
    const printed = await page.evaluate(() => {
      dispatchEvent(new Event("beforeprint"));
      const canvas = document.querySelector<HTMLCanvasElement>("main canvas")!;
      const pixel = [...canvas.getContext("2d")!.getImageData(1, 1, 1, 1).data].slice(0, 3);
      dispatchEvent(new Event("afterprint"));
      return pixel;
    });
    expect(printed).toEqual([255, 255, 255]);
    await settled(page);
    expect(await paper(page)).toEqual(before);
    await page.emulateMedia({ media: "print" });
    await settled(page);
    expect(await paper(page)).toEqual([255, 255, 255]);
    await page.emulateMedia({ media: "screen" });
    await open(page, url, "page=issues&sel=finding:0");
    await page.emulateMedia({ media: "print" });
    const seen = await page.locator("button:visible:not(.link):not(.card)").allInnerTexts();
    expect(seen).toEqual([]);
    const over = await page.evaluate(() => [...document.querySelectorAll<HTMLElement>(".columns pre")].filter((pre) => pre.scrollWidth > pre.clientWidth + 1).map((pre) => pre.textContent));
    expect(over).toEqual([]);
  }));

test("Enter on a card of the Overview moves the focus to its finding", () =>
  here.viewServed(served, async (page, url) => {
    await open(page, url, "page=overview");
    const card = page.locator("main .card").nth(1);
    const text = await card.innerText();
    await card.focus();
    await page.keyboard.press("Enter");
    await settled(page);
    expect(part(page, "sel")).toBe("finding:1");
    const focused = await page.evaluate(() => (document.activeElement as HTMLElement).innerText);
    expect(focused).toBe(text);
    // Who comes by the address alone has the keyboard where it was.
    await open(page, url, "page=overview");
    await page.goBack();
    await settled(page);
    expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("BODY");
  }));

test("the total of the flame graph fits into a line, and an invalid expression can be corrected", () =>
  here.viewServed(served, async (page, url) => {
    await open(page, url, "page=flame");
    const line = page.locator(".status-line");
    expect(await line.innerText()).toMatch(/^all: .*, self /);
    const cut = await line.evaluate((element) => element.scrollWidth > element.clientWidth);
    expect(cut).toBe(false);
    const field = page.locator("[data-field=focus]");
    await field.fill("aten::(mm");
    await field.press("Enter");
    await page.locator("[data-field=focus][aria-invalid=true]").waitFor();
    expect(await field.inputValue()).toBe("aten::(mm");
    expect(part(page, "focus")).toBeNull();
    await field.fill("aten::mm");
    await field.press("Enter");
    await settled(page);
    expect([part(page, "focus"), await field.getAttribute("aria-invalid")]).toEqual(["aten::mm", "false"]);
  }));

test("hints on keys are in the dialog, and at most two lines of text are above a picture", () =>
  here.viewServed(served, async (page, url) => {
    await page.setViewportSize({ width: 1100, height: 800 });
    for (const [view, title] of [["flame", "Flame graph"], ["timeline&cp=1", "Timeline"]] as const) {
      await open(page, url, `page=${view}`);
      const lines = await page.locator("main .status-line").evaluateAll((all) => all.map((one) => Math.round(one.clientHeight / Number.parseFloat(getComputedStyle(one).lineHeight))));
      expect(lines.reduce((sum, one) => sum + one, 0), view).toBeLessThanOrEqual(2);
      expect(await page.locator("main").innerText(), view).not.toMatch(/W and S|Click a frame|Drag to/);
      const hint = page.locator("main").getByRole("button", { name: "Keys and mouse" });
      expect(await hint.getAttribute("title"), view).toMatch(/0 shows all.* Press \? for all keys\.$/);
      await hint.click();
      await page.waitForSelector("dialog[aria-label='Keys and mouse']");
      // The keys of the open page come first.
      expect(await page.locator("dialog h3").first().innerText()).toBe(title);
      expect(await page.locator("dialog").innerText()).toContain("Ctrl+wheel");
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    }
    await page.getByText("About this picture").click();
    expect(await page.locator("main").innerText()).toContain("Each lane is a thread");
  }));

test("every part of the Overview's bar has a label", () =>
  here.viewServed(served, async (page, url) => {
    await open(page, url, "page=overview");
    expect(await page.locator(".bound .legend li").count()).toBe(await page.locator(".bound .stack span").count());
  }));

test("a trace without events has no controls of a timeline", () =>
  here.view([here.written("none.json", [])], async (page, url) => {
    await open(page, url, "page=timeline");
    expect(await page.locator("main").innerText()).toContain("No event of this trace has a start and a duration");
    expect(await page.locator("main canvas, main .bar button").count()).toBe(0);
  }));

test("the command to restart a server includes the baseline", async () => {
  const [a, b] = [trace("diff-mini-base.json.gz"), trace("diff-mini-test.json.gz")];
  const own = await serve(b, "--baseline", a);
  const { page } = await watched(here.browser, own.url);
  await open(page, own.url, "page=overview");
  await own.stop();
  await page.locator("nav a", { hasText: "Compare" }).click();
  const command = page.locator(".offline code");
  await command.waitFor();
  expect(await command.innerText()).toMatch(/^stackline view \S*diff-mini-test\.json\.gz --baseline \S*diff-mini-base\.json\.gz$/);
  await page.close();
});

test("a GPU without a name is called unnamed", async () => {
  const kernel = { ph: "X", cat: "kernel", name: "gemm", ts: 30, dur: 9, pid: 0, tid: 7, args: { device: 0, stream: 7 } };
  await here.view([here.written("unnamed.json", [kernel], { deviceProperties: [{ id: 0, name: "" }] })], async (page, url) => {
    await open(page, url, "page=overview");
    expect(await page.locator("main").innerText()).toContain("GPU: unnamed");
  });
});


test("a truncated file without GPU work may have lost it", async () => {
  const head = JSON.stringify({ deviceProperties: [{ id: 0, name: "Test GPU" }], traceEvents: [{ ph: "X", cat: "cpu_op", name: "aten::mm", ts: 0, dur: 50, pid: 1, tid: 1 }] });
  const file = join(here.folder.path, "cut.json");
  writeFileSync(file, `${head.slice(0, -2)},{"ph":"X","cat":"kernel","na`);
  await here.view([file], async (page, url) => {
    for (const id of ["overview", "layers"]) {
      await open(page, url, `page=${id}`);
      const main = await page.locator("main").innerText();
      expect(main, id).toContain("Some records of this run were lost");
      expect(main, id).toMatch(/No GPU work in this run|missing in this run/);
      expect(main, id).toContain("GPU records were lost (the file lists a GPU)");
    }
    await open(page, url, "page=overview");
    expect(await page.locator("main").innerText()).toContain("so findings may be missing");
  });
});

test("a finding at the line of the selected frame is listed without another line", async () => {
  await here.view([writeInjectedTrace(here.folder.path, join(here.folder.path, "train.py"))], async (page, url) => {
    await open(page, url, "page=flame&find=train_step");
    await page.keyboard.press("n");
    await settled(page);
    const listed = page.locator(".details .events li", { hasText: "SL004" });
    await listed.waitFor();
    // The frame is of line 12, and so is the finding.
    expect(await listed.innerText()).toMatch(/^SL004 /);
  });
});

test("a note on unreadable memory links to the page with its problems", () =>
  here.view([trace("amd-mi300-timesformer.json.gz")], async (page, url) => {
    await open(page, url, "page=issues");
    await page.getByRole("button", { name: "Details on the Memory page" }).click();
    await settled(page);
    expect(part(page, "page")).toBe("memory");
  }));
