import { expect, test } from "vitest";
import { boundsOf } from "./gains";
import { duration } from "./format";

const gain = (low_ns: number, high_ns: number) => ({ ns: 300e3, low_ns, high_ns });

test("from nothing to all of a step is no bound", () => {
  const step = 1e6;
  expect(boundsOf(gain(0, step), step)).toBe("bounds unknown");
  // As far as it is shown: 0.04 % and 99.96 %.
  expect(boundsOf(gain(400, 999_600), step)).toBe("bounds unknown");
  expect(boundsOf(gain(0, 990e3), step)).toBe("bounds 0 to 99.0 %");
  expect(boundsOf(gain(-5, 400e3), step, duration)).toBe("bounds 0 to 400 µs");
  expect(boundsOf(gain(200e3, step), step, duration)).toBe("bounds 200 µs to 1 ms");
  expect(boundsOf(gain(299_960, 300_040), step)).toBe("bounds equal the estimate");
  expect(boundsOf(gain(0, 0), 0)).toBe("bounds 0 to –");
});
