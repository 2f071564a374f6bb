import { expect, test } from "vitest";
import { absent } from "./embedded";

const run = { name: "img.stackline", baseline: null };

test("a refused query of a report names the command for the run", () => {
  expect(absent(run, null)).toMatch(/^The report file does not contain this view\. .* and details of single events\. To see it, open the run: stackline view img\.stackline$/);
  expect(absent(run, "599 events")).toContain("These parts of the run did not fit into the report file: 599 events. A larger --max-size includes more of them.");
});
