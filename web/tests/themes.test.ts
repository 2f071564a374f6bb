/** Options of the page's appearance and lists: high contrast, folders; and its texts about rules and recording. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { none, open, PAGES, part, serve, type Served, settled, suite, trace, violations, watched } from "./harness";

const here = suite();
let served: Served;
beforeAll(async () => {
  served = await serve(trace("nvidia-a100-ddp-nccl.json.gz"));
});
afterAll(async () => {
  await served.stop();
});

test.each(["light", "dark"] as const)("high contrast can be selected and follows the system's %s scheme", async (colorScheme) => {
  const { page, faults } = await watched(here.browser, served.url, { colorScheme });
  await open(page, served.url, "page=overview");
  await page.getByLabel("Theme").selectOption("contrast");
  const colors = await page.evaluate(() => [getComputedStyle(document.body).color, getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.querySelector(".quiet")!).color]);
  const [ink, paper] = colorScheme === "light" ? ["rgb(0, 0, 0)", "rgb(255, 255, 255)"] : ["rgb(255, 255, 255)", "rgb(0, 0, 0)"];
  expect(colors).toEqual([ink, paper, ink]);
  for (const [at, id] of PAGES.entries()) {
    await page.keyboard.press(`${at + 1}`);
    await settled(page);
    expect(await violations(page), id).toEqual([]);
  }
  // Canvases heed it, too: the ruler's paper is no grey.
  await page.keyboard.press("4");
  await settled(page);
  const pixel = await page.locator("main canvas").first().evaluate((canvas) => [...(canvas as HTMLCanvasElement).getContext("2d")!.getImageData(1, 1, 1, 1).data].slice(0, 3));
  expect(pixel).toEqual(colorScheme === "light" ? [255, 255, 255] : [0, 0, 0]);
  none(faults);
  await page.close();
});

test("checked rules show their thresholds and link to their pages", async () => {
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=issues");
  await page.getByText(/\d+ rules checked/).click();
  const checkedRules = page.locator("details", { hasText: "rules checked" });
  expect(await checkedRules.innerText()).toMatch(/SL001\.share = \d+: report only kernels that take at least this percentage of GPU busy time/);
  await checkedRules.getByRole("button", { name: "SL001" }).click();
  const rule = page.getByRole("region", { name: "Documentation of rule SL001" });
  await rule.waitFor();
  expect(await rule.innerText()).toMatch(/^# SL001 /);
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
});

test("a finding shows the events around it, whose boxes link to the timeline", () =>
  here.viewServed(served, async (page, url) => {
    await open(page, url, "page=issues&sel=finding:0");
    const picture = page.locator(".gap canvas");
    await picture.waitFor();
    await page.waitForFunction(() => Number(document.querySelector<HTMLElement>(".gap canvas")?.dataset.boxes ?? 0) > 0);
    expect(await violations(page)).toEqual([]);
    const size = (await picture.boundingBox())!;
    expect(size.height).toBeLessThan(400);
    // The event itself stands in the middle third.
    const lanes = (await picture.getAttribute("aria-label"))!;
    expect(lanes).toMatch(/, [123] lanes/);
    for (let down = 45; down < size.height && part(page, "page") === "issues"; down += 16) await picture.click({ position: { x: size.width / 2, y: down } });
    await settled(page);
    expect(part(page, "page")).toBe("timeline");
    expect(part(page, "sel")).toMatch(/^event:/);
  }));

test("a part of the Overview's bar links to its events", () =>
  here.viewServed(served, async (page, url) => {
    await open(page, url, "page=overview");
    const button = page.locator(".bound .legend button").first();
    const title = await button.innerText();
    await button.click();
    await page.locator(".breakdown details[open] li").first().waitFor();
    expect(await page.locator(".breakdown summary").innerText()).toContain(`with the cause ${title}`);
    const titles = await page.locator(".breakdown details li button").allInnerTexts();
    expect(titles.length).toBeGreaterThan(0);
    expect(titles.every((text) => text.startsWith(`${title}, `))).toBe(true);
    expect(await violations(page)).toEqual([]);
    await page.locator(".breakdown .legend button", { hasText: title }).click();
    await settled(page);
    expect(part(page, "cause")).toBeNull();
  }));

test("This run shows the clock offset bounds and the recording overhead, if known", async () => {
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=run");
  const main = await page.locator("main").innerText();
  expect(main).toMatch(/The clock of GPU \d+ (agrees with the host clock|is off by|drifts)/);
  expect(main).toContain("The recording overhead is unknown, because it was not measured during the recording.");
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
});

test("source files are listed in their directories, with the cost of each directory", async () => {
  const call = (name: string, ts: number, dur: number) => ({ ph: "X", name, cat: "python_function", ts, dur, pid: 1, tid: 1 });
  const file = here.written("folders.json", [call("train.py(1): main", 0, 100), call("lib/net/linear.py(2): forward", 10, 50), call("lib/net/conv.py(3): forward", 70, 20)]);
  const own = await serve(file);
  const { page, faults } = await watched(here.browser, own.url);
  await open(page, own.url, "page=source");
  await page.getByRole("button", { name: "By folder" }).click();
  await settled(page);
  const summary = page.locator(".folders summary").first();
  expect(await summary.innerText()).toMatch(/^lib\/net\/ 70 µs/);
  // What costs a tenth is open, and by the keyboard it can be closed.
  expect(await page.locator(".folders .folders li").allInnerTexts()).toEqual([expect.stringMatching(/^linear\.py 50 µs/), expect.stringMatching(/^conv\.py 20 µs/)]);
  await summary.focus();
  await page.keyboard.press("Enter");
  expect(await page.getByRole("button", { name: "linear.py" }).isVisible()).toBe(false);
  await page.keyboard.press("Enter");
  expect(await violations(page)).toEqual([]);
  await page.getByRole("button", { name: "linear.py" }).click();
  await settled(page);
  expect(new URL(page.url()).hash).toContain("file=lib%2Fnet%2Flinear.py");
  none(faults);
  await page.close();
  await own.stop();
});
