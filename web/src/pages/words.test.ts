import { expect, test } from "vitest";
import { changeOf } from "./compare";
import { lengthWords } from "./issues";
import { qualityOf } from "./run";

test("what is on one side only changes by all of it, whatever the mean of single steps is", () => {
  const row = { before_ns: 688, after_ns: null, change_ns: -687 };
  expect([changeOf({ ...row, verdict: "only in A" }), changeOf({ ...row, verdict: "faster" })]).toEqual([-688, -687]);
  expect(changeOf({ verdict: "only in B", before_ns: null, after_ns: 5, change_ns: 4 })).toBe(5);
});

test("how far clocks are apart is said where only one bound is known", () => {
  const info = { start_ns: 0, end_ns: 1e9 } as never;
  const said = (least_ns: number | null, most_ns: number | null) => qualityOf({ info, recording_cost: null, clocks: [{ device: 0, least_ns, most_ns, shift_ns: 0, applied_ns: 0, contradictory: false, early: 0, late: 0 }] })[1];
  expect(said(-146e6, null)).toMatch(/it is 146 ms ahead at most, and nothing tells how far it is behind\.$/);
  expect(said(null, 2e3)).toMatch(/it is 2 µs behind at most, and nothing tells how far it is ahead\.$/);
  expect(said(-1e3, 2e3)).toMatch(/it is behind by something between −1 µs and 2 µs\.$/);
});

test("a step is said to go on to the end of its GPU work only where it launched some", () => {
  expect(lengthWords({ steps: 1, with_gpu_work: true })).toBe("to the end of the work that was launched in it");
  expect(lengthWords({ steps: 3, with_gpu_work: false })).toBe("mean of 3 steps, as the program marks them; they launched no GPU work");
});
