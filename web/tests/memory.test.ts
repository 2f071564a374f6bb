/** The Memory page: its numbers are those of the command line, its drawings can be reached by keys and in tables, and suggestions applied. */

import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { beyond, binary, corpus, none, open, PAGES, part, serve, type Served, settled, squeezed, stackline, suite, trace, violations, watched } from "./harness";

const here = suite();
const fixture = (name: string): string => new URL(`../../fixtures/memory/${name}`, import.meta.url).pathname;

type Answered = { document: Record<string, unknown> & { tables: Record<string, unknown>; page: Record<string, unknown> }; columns: Record<string, Record<number, number> & { length: number }> };

const query = (page: Page, name: string, args: object = {}) =>
  page.evaluate(([query, given]) => (globalThis as unknown as { stackline: { request(q: string, a: object): Promise<unknown> } }).stackline.request(query as string, given as object), [name, args] as const) as Promise<Answered>;

/** Wherever the whole is asked for: of the first device. */
async function whole(page: Page): Promise<Record<string, unknown>> {
  const { document } = await query(page, "memory");
  return { ...(document.page.whole as object), device: (document.page.devices as Array<{ device: number }>)[0]!.device };
}

const commandOutput = (file: string, ...more: string[]) => JSON.parse(stackline("memory", file, ...more, "--format", "json")) as { memory: unknown; tables: Record<string, { rows: Array<Record<string, unknown>> }> };

describe.each(["darknet.txt", "2mm.txt", "simple-multi-copy.txt", "huffman.txt"])("%s", (name) => {
  let served: Served;
  const file = fixture(name);
  const report = join(here.folder.path, `${name}.html`);
  beforeAll(async () => {
    served = await serve(file);
    stackline("report", file, "--html", report);
  });
  afterAll(async () => {
    await served.stop();
  });

  test("numbers equal those of the command line, on the server and in the report", async () => {
    const all = commandOutput(file);
    for (const url of [served.url, `file://${report}`]) {
      const { page, faults } = await watched(here.browser, url);
      await page.goto(url);
      await settled(page);
      const overview = (await query(page, "memory")).document;
      expect(overview.memory).toEqual(all.memory);
      expect(overview.tables.memory_peaks).toEqual(all.tables.memory_peaks);
      expect(overview.tables.memory_waste).toEqual(all.tables.memory_waste);
      const suggested = (await query(page, "memory-suggestions")).document;
      expect(suggested.tables.memory_suggestions).toEqual(all.tables.memory_suggestions);
      expect((await query(page, "memory-holders", { by: "place" })).document.tables.memory_at_peak).toEqual(all.tables.memory_at_peak);
      const findings = (await query(page, "findings")).document;
      expect(findings.tables).toEqual((JSON.parse(stackline("findings", file, "--top", "0", "--format", "json")) as typeof findings).tables);
      await open(page, url, "page=issues");
      expect(await page.locator(".card .gain").first().innerText()).toContain("of the peak of");
      await page.locator(".card").first().click();
      await settled(page);
      await open(page, url, "page=memory");
      const question = await whole(page);
      const combination = suggested.page.combination as number[];
      const apply = combination.join(",");
      const applied = (await query(page, "memory-apply", { ...question, apply })).document;
      expect(applied.tables).toEqual(commandOutput(file, "--apply", apply).tables);
      // The curve is that of the table: the highest value of each is the same.
      const { columns } = await query(page, "memory-curve", question);
      const rows = commandOutput(file, "--curve").tables.memory_curve!.rows;
      const highest = Math.max(...Array.from(columns.high as ArrayLike<number>));
      expect(highest).toBe(Math.max(...rows.map((row) => Number(row.bytes))));
      none(faults);
      await page.close();
    }
  });

  test("it opens with the Memory page in both themes, as a plot and as tables, and other pages have a note", async () => {
    // What a theme changes is the same for all files.
    const themes = name === "darknet.txt" ? (["light", "dark"] as const) : (["light"] as const);
    for (const colorScheme of themes) {
      const { page, faults } = await watched(here.browser, served.url, { colorScheme });
      await page.goto(served.url);
      await settled(page);
      expect(await page.locator("h1").innerText()).toBe("Memory");
      expect(Number(await page.locator("canvas").getAttribute("data-objects"))).toBeGreaterThan(2);
      for (const id of [...PAGES, "memory&as=table", "memory&tab=holders", "memory&tab=allocator", "memory&apply=1", "memory&sel=object:0", "memory&sel=call:1", "memory&order=waste&alive=P1"]) {
        await open(page, served.url, `page=${id}`);
        expect(await page.locator("[role=alert]").allTextContents(), id).toEqual([]);
        expect(await violations(page, colorScheme === "light" ? "all" : "colors"), `${id}, ${colorScheme}`).toEqual([]);
        expect(await beyond(page), id).toEqual([]);
      }
      none(faults);
      await page.close();
    }
  });
});

test("selected suggestions change the peaks as on the command line", async () => {
  const served = await serve(fixture("darknet.txt"));
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=memory");
  await page.getByLabel("Apply suggestion 1", { exact: true }).check();
  await settled(page);
  await page.getByLabel("Apply suggestion 2", { exact: true }).check();
  await settled(page);
  expect(page.url()).toContain("apply=1%2C2");
  const row = commandOutput(fixture("darknet.txt"), "--apply", "1,2").tables.memory_applied!.rows[0]!;
  const applied = await query(page, "memory-apply", { ...(await whole(page)), apply: "1,2" });
  expect((applied.document.tables.memory_applied as { rows: unknown[] }).rows[0]).toEqual(row);
  expect(await page.locator(".applied").innerText()).toContain("With suggestions 1, 2: P1");
  await page.goBack();
  await settled(page);
  expect(page.url()).toMatch(/apply=1(&|$)/);
  none(faults);
  await page.close();
  await served.stop();
});

test("an object is selected by a click, by keys, and in the table; the details show its call and line", async () => {
  const served = await serve(fixture("2mm.txt"));
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=memory");
  const canvas = page.locator("canvas");
  const top = Number(await canvas.getAttribute("data-top"));
  await canvas.click({ position: { x: 300, y: top + 4 } });
  await settled(page);
  expect(page.url()).toContain("sel=object%3A");
  const first = await page.locator(".details h3").first().innerText();
  await canvas.focus();
  await page.keyboard.press("ArrowDown");
  await settled(page);
  const second = await page.locator(".details h3").first().innerText();
  expect(second).not.toBe(first);
  expect(await page.locator(".status-line").innerText()).toContain(second);
  await page.keyboard.press("w");
  await settled(page);
  expect(page.url()).toMatch(/from=\d+/);
  await page.keyboard.press("f");
  await settled(page);
  expect(page.url()).toMatch(/from=0&/);
  await page.keyboard.press("0");
  await page.keyboard.press("t");
  await settled(page);
  await page.locator("[aria-label='Table of memory objects'] button", { hasText: /^C$/ }).click();
  await settled(page);
  const details = await page.locator(".details").innerText();
  expect(details).toContain("Allocated by");
  expect(details).toMatch(/allocate/);
  await page.locator("[aria-label='Visible calls'] button", { hasText: "kernel mm1" }).click();
  await settled(page);
  expect(await page.locator(".details").innerText()).toContain("Accesses");
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
  await served.stop();
});

test("live objects at a peak equal those of the command line in number and bytes", async () => {
  const served = await serve(fixture("darknet.txt"));
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=memory");
  await page.getByRole("button", { name: "Live at P1" }).click();
  await settled(page);
  const alive = commandOutput(fixture("darknet.txt"), "--at", "P1").tables.memory_alive!.rows;
  expect(Number(await page.locator("canvas").getAttribute("data-objects"))).toBe(alive.length);
  const { document } = await query(page, "memory-objects", { ...(await whole(page)), order: "size", alive: "P1" });
  expect(document.bytes).toBe(alive.reduce((sum, row) => sum + Number(row.bytes), 0));
  none(faults);
  await page.close();
  await served.stop();
});

test("arrow keys select invisible objects and scroll to them", async () => {
  const file = join(here.folder.path, "hundred.memory");
  writeFileSync(file, [...Array.from({ length: 100 }, (_, at) => `a o${at} ${4096 * (at + 1)}`), ...Array.from({ length: 100 }, (_, at) => `k k o${at}>o${at}; f o${at}`), "end"].join("\n"));
  const served = await serve(file);
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=memory");
  await page.locator("canvas").focus();
  for (let at = 0; at < 70; at += 1) await page.keyboard.press("ArrowDown");
  await settled(page);
  expect(await page.locator(".status-line").innerText()).toContain("70 of 100");
  expect(await page.locator(".canvas").evaluate((element) => element.scrollTop)).toBeGreaterThan(500);
  none(faults);
  await page.close();
  await served.stop();
});

test("a run without memory shows how to record it, and the entry is gray", async () => {
  const served = await serve(trace("nvidia-2080ti-linear.json.gz"));
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=memory");
  expect(await page.locator("main").innerText()).toContain("stackline record --mode trace --memory");
  expect(await page.locator("nav a", { hasText: "Memory" }).getAttribute("class")).toBe("without");
  expect(await page.locator("nav a", { hasText: "Memory" }).getAttribute("title")).toContain("--memory");
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
  await served.stop();
});

test("a profiler trace with memory has events, and memory without accesses", async () => {
  const file = trace("nvidia-h100-qwen1.5-0.5b.json.gz");
  const served = await serve(file);
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=memory");
  const overview = (await query(page, "memory")).document;
  expect(overview.tables.memory_peaks).toEqual(commandOutput(file).tables.memory_peaks);
  expect(await page.locator("main").innerText()).toContain("has no memory accesses");
  expect(await page.locator("main").innerText()).not.toMatch(/\bunused allocation\b/);
  expect(await violations(page)).toEqual([]);
  none(faults);
  await page.close();
  await served.stop();
});

test("names are escaped, many objects are folded by size, and an empty trace has a note", async () => {
  const hostile = ["<script>globalThis.broken = true</script>", `"><img src=x onerror="globalThis.broken=true">`, "\u001b[31mred\u0007", "שלום ‮evil", "模型/层", "x".repeat(400), "</script><b>"];
  const quoted = (name: string) => `"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  const many = Array.from({ length: 3000 }, (_, at) => `a o${at} ${512 * (1 + (at % 40))}`);
  const lines = [...hostile.map((name, at) => `a h${at} ${1 << 20} name=${quoted(name)} at=${quoted(`${name.slice(0, 50)}.py`)}:3:f`), ...many, ...hostile.map((_, at) => `k kernel${at} h${at}>h${at}`), ...many.map((_, at) => `f o${at}`), "end"];
  const file = join(here.folder.path, "hostile.memory");
  writeFileSync(file, `${lines.join("\n")}\n`);
  const empty = join(here.folder.path, "empty.memory");
  writeFileSync(empty, "a x 0\nf x\nend\n");
  const served = await serve(file);
  const report = join(here.folder.path, "hostile.html");
  stackline("report", file, "--html", report);
  for (const url of [served.url, `file://${report}`]) {
    const { page, faults } = await watched(here.browser, url);
    for (const id of ["memory", "memory&as=table", "memory&sel=object:0", "memory&tab=holders"]) {
      await open(page, url, `page=${id}`);
      expect(await beyond(page), id).toEqual([]);
    }
    expect(await page.evaluate("globalThis.broken")).toBeUndefined();
    await page.setViewportSize({ width: 480, height: 900 });
    for (const id of ["memory", "memory&as=table", "memory&tab=holders", "memory&tab=allocator"]) {
      await open(page, url, `page=${id}`);
      expect(await beyond(page), id).toEqual([]);
      expect(await squeezed(page), id).toEqual([]);
    }
    await open(page, url, "page=memory&as=table");
    expect(await page.locator("[aria-label='Visible calls'] button").first().innerText()).toMatch(/^(\d+ × )?allocate$/);
    await open(page, url, "page=memory");
    expect(await page.locator("main").innerText()).toContain("objects without a lane of their own");
    none(faults);
    await page.close();
  }
  await served.stop();
  const nothing = await serve(empty);
  const { page, faults } = await watched(here.browser, nothing.url);
  await open(page, nothing.url, "page=memory");
  expect(await page.locator("main").innerText()).toContain("No memory object has a size above 0");
  none(faults);
  await page.close();
  await nothing.stop();
});

test("with two devices and many streams, nothing is called unused during kernels with unknown accesses", async () => {
  const streams = Array.from({ length: 40 }, (_, at) => `k work${at} x>x @${at}`);
  const text = ["a never 4096", "a x 65536", ...streams, "k closed x>x opaque", "f never", "f x", 'device "gpu:1"', "a big 131072", "a idle 4096", "k g big>big", "k h big>big", "f big", "f idle", "end"];
  const file = join(here.folder.path, "devices.memory");
  writeFileSync(file, text.join("\n"));
  const served = await serve(file);
  const report = join(here.folder.path, "devices.html");
  stackline("report", file, "--html", report);
  for (const url of [served.url, `file://${report}`]) {
    const { page, faults } = await watched(here.browser, url);
    await open(page, url, "page=memory");
    expect(await page.locator("main").innerText()).toContain("are not shown");
    const lanes = async () => (await page.locator("[aria-label='Table of memory objects'] tbody tr").allInnerTexts()).map((row) => row.replace(/\s+/g, " "));
    // The device with the highest peak comes first.
    await open(page, url, "page=memory&as=table");
    expect((await lanes()).map((row) => row.split(" ")[0])).toEqual(["big", "idle"]);
    expect((await lanes())[1]).toContain("never used");
    await page.getByLabel("Device").selectOption({ label: "gpu:0" });
    await settled(page);
    expect((await lanes()).find((row) => row.startsWith("never"))).not.toContain("never used");
    expect(await page.locator("[role=alert]").allTextContents()).toEqual([]);
    await page.getByRole("button", { name: "Live at P2" }).click();
    await settled(page);
    expect(await page.locator("[role=alert]").allTextContents()).toEqual([]);
    expect(await violations(page)).toEqual([]);
    none(faults);
    await page.close();
  }
  await served.stop();
});

const MIB = 1 << 20;

/** A snapshot of a program that ran out of memory: 20 MiB held, of which 13 MiB lie free in two pieces. */
function snapshot(): string {
  const at = (mib: number) => 0x7f0000000000 + mib * MIB;
  const event = (action: string, addr: number, size: number, time_us: number, line: number) => ({ action, addr, size, stream: 0, time_us, frames: [{ name: "step", filename: "train.py", line }] });
  const block = (size: number, state: string) => ({ size, requested_size: size, state, frames: [] });
  const document = {
    device_traces: [[
      event("segment_alloc", at(100), 20 * MIB, 1000, 40), event("alloc", at(100), 6 * MIB, 1001, 40), event("alloc", at(106), 5 * MIB, 1010, 41), event("alloc", at(111), 2 * MIB, 1020, 42),
      event("free_requested", at(100), 6 * MIB, 1030, 50), event("free_completed", at(100), 6 * MIB, 1031, 50),
      { action: "oom", size: 10 * MIB, device_free: MIB, stream: 0, time_us: 1040, frames: [{ name: "step", filename: "train.py", line: 43 }] },
    ]],
    segments: [{ device: 0, address: at(100), total_size: 20 * MIB, stream: 0, segment_type: "large", frames: [], blocks: [block(6 * MIB, "inactive"), block(5 * MIB, "active_allocated"), block(2 * MIB, "active_allocated"), block(7 * MIB, "inactive")] }],
  };
  const file = join(here.folder.path, "snapshot.json");
  writeFileSync(file, JSON.stringify(document));
  return file;
}

test("a snapshot shows the allocator, its memory at the peak, and the reason of a failed request", async () => {
  const file = snapshot();
  const served = await serve(file);
  const report = join(here.folder.path, "snapshot.html");
  stackline("report", file, "--html", report);
  const all = commandOutput(file);
  for (const url of [served.url, `file://${report}`]) {
    const { page, faults } = await watched(here.browser, url);
    await open(page, url, "page=memory");
    expect(await page.locator("main").innerText()).toContain("1 request failed: out of memory");
    const overview = (await query(page, "memory")).document;
    expect(overview.tables.memory_out_of_memory).toEqual(all.tables.memory_out_of_memory);
    expect((await query(page, "memory-allocator")).document.tables.memory_allocator).toEqual(all.tables.memory_allocator);
    // What the allocator held stands in a curve, too.
    const { columns } = await query(page, "memory-curve", await whole(page));
    const reserved = Array.from(columns.high as ArrayLike<number>).filter((_, at) => columns.curve![at] === 1);
    expect(reserved.at(-1)).toBe(20 * MIB);
    for (const view of ["memory&tab=allocator", "memory&tab=allocator&as=table"]) {
      await open(page, url, `page=${view}`);
      expect(await page.locator("main").innerText()).toContain("Reserved but not live");
      expect(await page.locator("[role=alert]").allTextContents()).toEqual([]);
      expect(await violations(page), view).toEqual([]);
      // 1280 pixels have room for the table of the allocator.
      const table = page.getByRole("region", { name: "Caching allocator at the time of the snapshot" });
      expect(await table.evaluate((box) => box.scrollWidth - box.clientWidth), view).toBeLessThanOrEqual(0);
    }
    expect(await page.locator("[aria-label='Table of allocator segments'] tbody").innerText()).toMatch(/20 MiB\s+4\s+7 MiB\s+13 MiB\s+7 MiB/);
    none(faults);
    await page.close();
  }
  await served.stop();
});

const torch = process.env.STACKLINE_TORCH;
const isThere = torch !== undefined && existsSync(join(binary, "../libstackline_record.so"));

test.skipIf(!isThere)("a program that was recorded with its memory: waste stands at its line", { timeout: 300_000 }, async () => {
  const program = new URL("../../crates/cli/tests/programs/waste.py", import.meta.url).pathname;
  const recording = join(here.folder.path, "waste.stackline");
  execFileSync(binary, ["record", "--mode", "trace", "--memory", "--shapes", "-o", recording, "--", torch!, program], { stdio: "ignore" });
  const served = await serve(recording);
  const { page, faults } = await watched(here.browser, served.url);
  await open(page, served.url, "page=memory");
  const overview = (await query(page, "memory")).document;
  const all = commandOutput(recording);
  expect(overview.tables.memory_peaks).toEqual(all.tables.memory_peaks);
  expect(await page.locator("[aria-label=Suggestions]").innerText()).toContain("waste.py");
  await page.locator("[aria-label=Suggestions] tbody button").first().click();
  await settled(page);
  expect(await page.locator(".details a", { hasText: "Open in editor" }).first().getAttribute("href")).toMatch(/^vscode:\/\/file.*\.py:\d+$/);
  expect(await violations(page)).toEqual([]);
  // Memory is among the sums of the whole run alone: of steps the menu of metrics says so, and leads there.
  await open(page, served.url, "page=flame");
  await page.locator("main select", { hasText: "memory freed (whole run only)" }).selectOption("freed");
  await settled(page);
  expect([part(page, "steps"), part(page, "metric")]).toEqual(["whole", "freed"]);
  expect(await page.locator("main canvas").getAttribute("aria-label")).toContain("Flame graph of memory freed");
  none(faults);
  await page.close();
  await served.stop();
});

const train = join(corpus, "memory", "snapshot-train-step.pickle");

test.skipIf(!existsSync(train))("a real snapshot: the peaks are made of parameters, gradients and both moments; what helps against that, and what does not", async () => {
  const served = await serve(train);
  const report = join(here.folder.path, "train.html");
  stackline("report", train, "--html", report);
  const composition = commandOutput(train).tables.memory_composition as unknown as { rows: Array<Record<string, unknown>>; notes: string[] };
  for (const url of [served.url, `file://${report}`]) {
    const { page, faults } = await watched(here.browser, url);
    await open(page, url, "page=memory");
    expect((await query(page, "memory")).document.tables.memory_composition).toEqual(composition);
    const table = page.getByRole("region", { name: "Composition of the memory peaks" });
    const rows = (await table.locator("tbody tr").allInnerTexts()).map((row) => row.replace(/\s+/g, " "));
    // 291 tensors each; the parameters are there at both peaks, gradients and moments at the higher one alone.
    expect(rows.slice(0, 4)).toEqual([
      expect.stringMatching(/^parameters 12\.8 GiB 25\.0 % 291 12\.8 GiB 31\.0 % 291 equal sizes/),
      expect.stringMatching(/^gradients 12\.7 GiB 24\.8 % 291 – – – equal sizes/),
      expect.stringMatching(/^first moments 12\.7 GiB 24\.8 % 291 – – – equal sizes .*optimizers\.py:82 step/),
      expect.stringMatching(/^second moments 12\.7 GiB 24\.8 % 291 – – – equal sizes .*optimizers\.py:84 step/),
    ]);
    const remedies = await page.locator(".remedies li").allInnerTexts();
    expect(remedies).toEqual(composition.notes);
    expect(remedies.join(" ")).toMatch(/FSDP.*Checkpointing activations or a smaller batch won't help/);
    expect(await violations(page)).toEqual([]);
    expect(await beyond(page)).toEqual([]);
    none(faults);
    await page.close();
  }
  await served.stop();
});
