import { expect, test } from "vitest";
import { commandOf } from "./command";

test("the command to start the server again names what the run is compared with", () => {
  expect(commandOf({ name: "a.stackline", baseline: null })).toBe("stackline view a.stackline");
  expect(commandOf({ name: "runs/a.json.gz", baseline: "it's before.stackline" })).toBe("stackline view runs/a.json.gz --baseline 'it'\\''s before.stackline'");
});
