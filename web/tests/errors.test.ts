/** Offers of an empty search, and a server that goes offline and comes back. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { none, open, serve, settled, stackline, suite, trace, violations, watched } from "./harness";
import { writeInjectedTrace } from "./injected-trace";

const here = suite();

test("a search without match suggests similar names, on the server and in a report", async () => {
  const source = join(here.folder.path, "train.py");
  writeFileSync(source, "pass\n".repeat(20));
  const file = writeInjectedTrace(here.folder.path, source);
  const report = join(here.folder.path, "missed.html");
  stackline("report", file, "--html", report);
  const served = await serve(file);
  for (const url of [served.url, `file://${report}`]) {
    const { page, faults } = await watched(here.browser, url);
    await open(page, url, "page=overview");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search all names" }).fill("aten::itme");
    await page.locator(".nearest button", { hasText: "aten::item" }).click();
    await page.waitForFunction(() => [...document.querySelectorAll("#found li .name")].some((name) => name.textContent === "aten::item"));
    await page.keyboard.press("Escape");
    await open(page, url, "page=flame&find=aten::itme");
    await page.locator(".nearest button", { hasText: "aten::item" }).click();
    await settled(page);
    expect(new URLSearchParams(page.url().split("#")[1]).get("find")).toBe("aten::item");
    expect(await page.locator(".nearest").count()).toBe(0);
    await open(page, url, "page=timeline&find=zzzzzzzz");
    expect(await page.locator("main").innerText()).toContain("No visible event has zzzzzzzz in its name.");
    expect(await page.locator(".nearest").count()).toBe(0);
    expect(await violations(page)).toEqual([]);
    none(faults);
    await page.close();
  }
  // Of a filter that leaves nothing only a server knows: a report holds no other view.
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=flame&focus=aten::itme");
  await page.locator(".nearest button", { hasText: "aten::item" }).click();
  await settled(page);
  expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBeGreaterThan(1);
  none(faults);
  await page.close();
  await served.stop();
});

test("queries are repeated when the server is back, and another server is reported", async () => {
  const served = await serve(trace("nvidia-2080ti-linear.json.gz"));
  const { page } = await watched(here.browser, served.url);
  await open(page, served.url, "page=overview");
  await page.evaluate("globalThis.sameDocument = true");
  await page.route("**/query/**", (route) => route.abort());
  await page.keyboard.press("3");
  await page.waitForSelector(".offline");
  expect(await page.locator(".offline").innerText()).toContain("stackline view");
  expect(await page.locator("[role=alert]").first().innerText()).toContain("server has stopped");
  expect(await violations(page)).toEqual([]);
  // Another one, which has another token.
  await page.unroute("**/query/**");
  await page.route("**/query/**", (route) => route.fulfill({ status: 403 }));
  await page.getByRole("button", { name: "Try now" }).click();
  await page.waitForFunction(() => document.querySelector(".offline")?.textContent?.includes("Another server"));
  // The same one again: nobody has to do anything.
  await page.unroute("**/query/**");
  await page.waitForFunction(() => document.querySelector(".offline") === null);
  // What was refused is asked for again, and takes the place of the refusal.
  await page.waitForFunction(() => document.querySelector("[role=alert]") === null);
  await page.waitForSelector("canvas");
  await settled(page);
  expect(Number(await page.locator("canvas").getAttribute("data-boxes"))).toBeGreaterThan(1);
  expect(await page.evaluate("globalThis.sameDocument")).toBe(true);
  await page.close();
  await served.stop();
});

test("a truncated trace has a striped end and a note; a complete one has not", async () => {
  const event = (ts: number) => JSON.stringify({ ph: "X", name: "a", cat: "cpu_op", ts, dur: 50, pid: 1, tid: 1 });
  const [cut, whole] = ["cut", "whole"].map((name) => join(here.folder.path, `${name}.json`)) as [string, string];
  writeFileSync(cut, `{"traceEvents": [${event(1)}, ${event(100)}, {"ph": "X", "na`);
  writeFileSync(whole, `{"traceEvents": [${event(1)}, ${event(100)}]}`);
  const report = join(here.folder.path, "cut.html");
  stackline("report", cut, "--html", report);
  const served = [await serve(cut), await serve(whole)] as const;
  for (const url of [served[0].url, `file://${report}`, served[1].url]) {
    const isCut = url !== served[1].url;
    const { page, faults } = await watched(here.browser, url);
    await open(page, url, "page=timeline");
    expect(await page.locator("canvas").getAttribute("data-cut"), url).toBe(isCut ? "149000" : null);
    expect(await page.locator("main .notice", { hasText: "Stripes mark the point where the trace is truncated" }).count(), url).toBe(isCut ? 1 : 0);
    // Next to the head of the lane, at the right edge, nothing stands but lines of the ruler, which are the same in each row of pixels.
    const isStriped = await page.evaluate(() => {
      const canvas = document.querySelector("canvas")!;
      const { data, width } = canvas.getContext("2d")!.getImageData(canvas.width - 10, 25, 8, 10);
      return data.some((value, at) => value !== data[at % (width * 4)]);
    });
    expect(isStriped, url).toBe(isCut);
    none(faults);
    await page.close();
  }
  for (const one of served) await one.stop();
});

test("editor links of moved source use the given directory", async () => {
  const served = await serve(writeInjectedTrace(here.folder.path, "/nowhere/code/train.py"));
  const { page, faults } = await watched(here.browser, served.url);
  const file = `page=source&file=${encodeURIComponent("/nowhere/code/train.py")}`;
  await open(page, served.url, file);
  const link = () => page.locator("main a.editor").first().getAttribute("href");
  expect(await link()).toBe("vscode://file/nowhere/code/train.py:1");
  await page.getByRole("button", { name: "Set source directory …" }).click();
  expect(await page.locator("[data-field=folder-from]").inputValue()).toBe("/nowhere/code");
  await page.locator("[data-field=folder-from]").fill("/nowhere");
  await page.locator("[data-field=folder-to]").fill("/mine/");
  expect(await violations(page)).toEqual([]);
  await page.keyboard.press("Enter");
  await settled(page);
  expect(await link()).toBe("vscode://file/mine/code/train.py:1");
  expect(await page.locator("main").innerText()).toContain("Editor links open /mine/code/train.py.");
  // It is kept, and a finding's link goes there, too.
  await page.reload();
  await open(page, served.url, "page=issues&sel=finding:0");
  expect(await link()).toBe("vscode://file/mine/code/train.py:12");
  none(faults);
  await page.close();
  await served.stop();
});
