import { expect, test } from "vitest";
import { highest, which } from "./suggestions";

test("a few suggestions are named, many are counted, and applied ones are listed only if some were not applied", () => {
  expect([which([4]), which([1, 2]), which([1, 2, 3, 4, 5, 6, 7, 8, 9])]).toEqual(["suggestion 4", "suggestions 1, 2", "9 suggestions"]);
  const row = { device: "gpu:0", peak_before: 4096, peak_after: 2048, at_call: 7, reserved_before: null };
  const saved = "Highest memory use on gpu:0: 4 KiB → 2 KiB (the new peak is at memory call 7)";
  expect(highest({ ...row, applied: "1, 2" }, [1, 2])).toBe(`${saved}.`);
  expect(highest({ ...row, applied: "2" }, [1, 2])).toBe(`${saved}. On this device, only suggestion 2 could be applied.`);
  expect(highest({ ...row, applied: "" }, [1, 2])).toBe(`${saved}. None of the selected suggestions applies to this device.`);
});
