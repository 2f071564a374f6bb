import { expect, test } from "vitest";
import { absent } from "./embedded";

const run = { name: "img.stackline", baseline: null };

test("what a report lacks the run itself has, which is named", () => {
  expect(absent(run, null)).toMatch(/^This answer is not in the report: .*, nor each event\. The run itself has it: stackline view img\.stackline$/);
  expect(absent(run, "599 events")).toContain("599 events did not fit into it, either: a larger --max-size keeps more of these.");
});
