import { expect, test } from "vitest";
import { changeOf, changeText, timeText } from "./compare";
import { lengthText } from "./issues";
import { qualityOf } from "./run";

test("a row on one side only changes by its whole time, independent of the mean of single steps", () => {
  const row = { before_ns: 688, after_ns: null, change_ns: -687 };
  expect([changeOf({ ...row, verdict: "only in A" }), changeOf({ ...row, verdict: "faster" })]).toEqual([-688, -687]);
  expect(changeOf({ verdict: "only in B", before_ns: null, after_ns: 5, change_ns: 4 })).toBe(5);
});

test("a time that is missing on one side of a comparison is no time of 0, and no change", () => {
  const texts = (row: Parameters<typeof changeOf>[0], per = "step") => [timeText(row, "before", per), timeText(row, "after", per), changeText(row, per)];
  const lost = { verdict: "untested", before_ns: 4000, after_ns: 0, change_ns: -4000, change_percent: -100, count_before: 2, count_after: 0 };
  expect(texts(lost)).toEqual(["4 µs", "–", "–"]);
  expect(texts({ ...lost, before_ns: 0, after_ns: 4000, change_ns: 4000, change_percent: null, count_before: 0, count_after: 2 })).toEqual(["–", "4 µs", "–"]);
  expect(texts({ ...lost, after_ns: null, change_ns: null, change_percent: null })).toEqual(["4 µs", "–", "–"]);
  expect(texts({ ...lost, verdict: "only in A" })).toEqual(["4 µs", "–", "-4 µs (-100.0 %)"]);
  expect(texts({ ...lost, verdict: "only in A", before_ns: null })).toEqual(["–", "–", "–"]);
  // A time of 0 that was measured is one.
  expect(texts({ ...lost, count_after: 2 })).toEqual(["4 µs", "0 ns", "-4 µs (-100.0 %)"]);
  const ofCalls = { ...lost, after_ns: 6000, count_after: 2, before_ns_per_call: 2000, after_ns_per_call: 3000, change_percent_per_call: 50 };
  expect(texts(ofCalls, "call")).toEqual(["2 µs a call", "3 µs a call", "+1 µs (+50.0 %)"]);
  expect(texts({ ...ofCalls, after_ns: 0, count_after: 0, after_ns_per_call: null }, "call")).toEqual(["4 µs", "–", "–"]);
});

test("how far clocks are apart is said where only one bound is known", () => {
  const info = { start_ns: 0, end_ns: 1e9 } as never;
  const clockNote = (least_ns: number | null, most_ns: number | null) => qualityOf({ info, recording_cost: null, clocks: [{ device: 0, least_ns, most_ns, shift_ns: 0, applied_ns: 0, contradictory: false, early: 0, late: 0 }] })[1];
  expect(clockNote(-146e6, null)).toMatch(/the GPU clock is at most 146 ms ahead of the host clock; how far it may lag is unknown\.$/);
  expect(clockNote(null, 2e3)).toMatch(/the GPU clock lags behind the host clock by at most 2 µs; how far it may be ahead is unknown\.$/);
  expect(clockNote(-1e3, 2e3)).toMatch(/the GPU clock lags behind the host clock by −1 µs to 2 µs \(negative: ahead\)\.$/);
});

test("a step is said to go on to the end of its GPU work only where it launched some", () => {
  expect(lengthText({ steps: 1, with_gpu_work: true })).toBe("measured up to the end of the GPU work that the step launched");
  expect(lengthText({ steps: 3, with_gpu_work: false })).toBe("mean of 3 steps, each measured as marked by the program, without GPU work");
});
