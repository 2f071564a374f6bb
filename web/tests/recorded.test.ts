/** Programs that were recorded on the CPU: as a call tree, and as a trace. */

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { binary, none, open, PAGES, serve, stackline, suite, violations, watched } from "./harness";
import { isThere, PROGRAM, torch } from "./program";

const here = suite();

describe.skipIf(!isThere).each(["profile", "trace"])("recorded as a %s", (mode) => {
  test("each page opens with the program's calls and lines", { timeout: 300_000 }, async () => {
    const program = join(here.folder.path, `program-${mode}.py`);
    writeFileSync(program, PROGRAM);
    const run = join(here.folder.path, `${mode}.stackline`);
    execFileSync(binary, ["record", ...(mode === "trace" ? ["--mode", "trace"] : []), "-o", run, "--", torch!, program], { stdio: "ignore" });
    const served = await serve(run);
    const { page, faults } = await watched(here.browser, served.url);
    for (const id of PAGES) {
      await open(page, served.url, `page=${id}`);
      expect(await violations(page), id).toEqual([]);
    }
    await open(page, served.url, "page=flame&as=table&shape=flat&focus=aten::addmm");
    expect(await page.locator("main").innerText()).toContain("aten::addmm");
    const flat = JSON.parse(stackline("calls", run, "--view", "flat", "--top", "0", "--format", "json")) as { tables: { calls: { rows: Array<Record<string, unknown>> } } };
    expect(flat.tables.calls.rows.some((row) => row.name === "aten::addmm")).toBe(true);
    await open(page, served.url, "page=issues");
    const issues = await page.locator("main").innerText();
    expect(issues).toContain(mode === "trace" ? "a step takes" : "thread takes");
    await open(page, served.url, "page=source");
    expect(await page.locator("main").innerText()).toContain(`program-${mode}.py`);
    // Steps name files without the folders that they lie in, the whole run with them: it is one file, listed by one name.
    const costs = () => page.locator("table.source td.heat").evaluateAll((cells) => cells.filter((cell) => cell.textContent !== "").length);
    for (const steps of mode === "trace" ? ["", "&steps=whole"] : [""]) {
      await open(page, served.url, `page=source${steps}`);
      const names = await page.locator("main tbody button").allInnerTexts();
      expect(names.filter((name) => name.endsWith(`program-${mode}.py`)), steps).toHaveLength(1);
      for (const name of [`program-${mode}.py`, program].filter((known) => mode === "trace" || known === program)) {
        await open(page, served.url, `page=source&file=${encodeURIComponent(name)}${steps}`);
        expect(await costs(), `${name}${steps}`).toBeGreaterThan(2);
      }
    }
    none(faults);
    await page.close();
    await served.stop();
  });
});
