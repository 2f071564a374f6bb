import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { glossarySections } from "./glossary";

test("terms have definitions without links", () => {
  const text = "# Glossary\n\n## GPU\n\n| term | definition |\n|---|---|\n| launch | The call `a` ([calls](a.md#b)). |\n| lane | A [track](t.md). |\n";
  expect(glossarySections(text)).toEqual([{ title: "GPU", terms: [["launch", "The call `a`."], ["lane", "A track."]] }]);
});

test("all rows of the glossary are listed", () => {
  const text = readFileSync(new URL("../../docs/reference/glossary.md", import.meta.url), "utf8");
  const sections = glossarySections(text);
  const rows = text.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| term |"));
  expect(sections.flatMap(({ terms }) => terms)).toHaveLength(rows.length);
  expect(sections.filter(({ terms }) => terms.length === 0)).toEqual([]);
  expect(JSON.stringify(sections)).not.toContain("](");
});
