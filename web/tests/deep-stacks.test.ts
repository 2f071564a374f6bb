/** Deep stacks: their important frames are visible and reachable without opening forty levels. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { open, part, settled, suite, violations } from "./harness";
import { writeInjectedTrace } from "./injected-trace";

const here = suite();

const LEVELS = 30;
/** A thread as deep as programs are, which calls two functions at its bottom and launches a kernel each time; `step` is called once. */
function events(): object[] {
  const stack = Array.from({ length: LEVELS }, (_, at) => ({ ph: "X", cat: "python_function", name: `app.py(${at + 1}): level${at}`, ts: at, dur: 20_000 - 2 * at, pid: 1, tid: 1 }));
  const calls = Array.from({ length: 8 }, (_, at) => [
    { ph: "X", cat: "python_function", name: "work.py(5): rescale", ts: 100 + at * 2000, dur: 900, pid: 1, tid: 1 },
    { ph: "X", cat: "cuda_runtime", name: "cudaLaunchKernel", ts: 200 + at * 2000, dur: 10, pid: 1, tid: 1, args: { correlation: at + 1 } },
    { ph: "X", cat: "python_function", name: "work.py(9): normalize", ts: 1100 + at * 2000, dur: 800, pid: 1, tid: 1 },
    { ph: "X", cat: "kernel", name: "gemm", ts: 300 + at * 2000, dur: 400, pid: 0, tid: 7, args: { device: 0, stream: 7, correlation: at + 1 } },
  ]).flat();
  return [...stack, ...calls];
}

test("streams remain visible below a deep thread, which shows its innermost levels and the number of hidden ones", () =>
  here.view([here.written("deep.json", events())], async (page, url) => {
    await open(page, url, "page=timeline");
    // Eight calls of both, their launches, and what is nearest around them; all kernels.
    expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBe(8 * 4 + 10);
    const bottom = await page.locator("canvas").evaluate((canvas) => canvas.parentElement!.clientHeight);
    expect(bottom).toBeLessThan(400);
  }));

test("the plot of a finding shows its event and the nearest enclosing ones at any depth", () => {
  const outer = Array.from({ length: LEVELS }, (_, at) => ({ ph: "X", cat: "python_function", name: `app.py(${at + 1}): level${at}`, ts: at - 1000, dur: 9000 - 2 * at, pid: 1, tid: 1 }));
  return here.view([writeInjectedTrace(here.folder.path, join(here.folder.path, "train.py"), {}, outer)], async (page, url) => {
    await open(page, url, "page=issues&sel=finding:0");
    const picture = page.locator(".gap canvas");
    await page.waitForFunction(() => Number(document.querySelector<HTMLElement>(".gap canvas")?.dataset.boxes ?? 0) > 0);
    const { width, height } = (await picture.boundingBox())!;
    const seen: Array<string | null> = [];
    for (let down = 8; down < height; down += 7) {
      await picture.hover({ position: { x: width / 2, y: down } });
      seen.push(await picture.getAttribute("title"));
    }
    const event = (await page.locator(".detail .events li button").first().innerText()).trim();
    expect(seen.some((title) => title?.startsWith(`${event}: `)), `${event} in ${seen.join(", ")}`).toBe(true);
    expect(seen.some((title) => title?.includes("train_step"))).toBe(true);
    expect(seen.filter((title) => title?.includes("level0"))).toEqual([]);
  });
});

test("arrow keys start at the first visible box, and screen readers announce the selection", () =>
  here.view([here.written("deep2.json", events())], async (page, url) => {
    await open(page, url, "page=timeline");
    const liveRegion = page.locator("#timeline-selected");
    expect(await liveRegion.getAttribute("aria-live")).toBe("polite");
    const canvas = page.locator("main canvas");
    expect(await canvas.getAttribute("aria-describedby")).toContain("timeline-selected");
    await canvas.focus();
    await page.keyboard.press("ArrowRight");
    await settled(page);
    expect(part(page, "sel")).toMatch(/^event:/);
    expect(await liveRegion.innerText()).toMatch(/^app\.py\(21\): level20: 20\.0 ms, starting at 20 µs, /);
    for (let down = 0; down < 10; down += 1) {
      await page.keyboard.press("ArrowDown");
      await settled(page);
    }
    expect(await liveRegion.innerText()).toMatch(/^work\.py\(5\): rescale: 900 µs, starting at 100 µs, /);
    await page.keyboard.press("Escape");
    await settled(page);
    expect(await liveRegion.innerText()).toBe("");
  }));

test("J moves to the next segment of the critical path and announces its position", () =>
  here.view([here.written("deep3.json", events())], async (page, url) => {
    await open(page, url, "page=timeline&cp=1");
    const at: number[] = [];
    for (let press = 0; press < 6; press += 1) {
      await page.keyboard.press("j");
      await settled(page);
      const [, segment, total] = (await page.locator("#timeline-selected").innerText()).match(/Segment (\d+) of (\d+) of the critical path/)!;
      expect(Number(segment)).toBeLessThanOrEqual(Number(total));
      at.push(Number(segment));
    }
    expect(at).toEqual([...new Set(at)].toSorted((a, b) => a - b));
    await page.keyboard.press("k");
    await settled(page);
    expect(await page.locator("#timeline-selected").innerText()).toContain(`Segment ${at.at(-2)} of`);
  }));

test("the search finds frames that are too narrow to draw, and N selects their callers", () => {
  const long = { ph: "X", cat: "cpu_op", name: "aten::long", ts: 0, dur: 10_000_000, pid: 1, tid: 1 };
  const short = [1, 2, 3].map((at) => ({ ph: "X", cat: "cpu_op", name: "aten::_softmax", ts: at * 1000, dur: 1, pid: 1, tid: 1 }));
  return here.view([here.written("narrow.json", [long, ...short])], async (page, url) => {
    for (const shape of ["top-down", "flat"]) {
      await open(page, url, `page=flame&shape=${shape}&find=softmax`);
      const notice = page.locator("main .notice", { hasText: "No visible frame has softmax in its name" });
      await notice.getByRole("button", { name: "aten::_softmax" }).waitFor();
      expect(await notice.innerText()).toMatch(/1 matching frame is too narrow to draw[\s\S]*aten::_softmax \(3 µs host time\)/);
      expect(await notice.getByRole("button", { name: "flat list" }).count()).toBe(shape === "flat" ? 0 : 1);
      expect(await violations(page)).toEqual([]);
    }
    await page.keyboard.press("n");
    await settled(page);
    expect([part(page, "shape"), part(page, "here")]).toEqual(["callers", "aten::_softmax"]);
    expect(await page.locator("main .notice").count()).toBe(0);
    await page.keyboard.press("n");
    await settled(page);
    expect(part(page, "sel")).toMatch(/^node:/);
    expect(Number(await page.locator("main canvas").getAttribute("data-selected"))).toBeGreaterThan(100);
  });
});
