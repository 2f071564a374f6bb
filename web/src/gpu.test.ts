import { expect, test } from "vitest";
import { busyShares, busyWindow } from "./gpu";

test("each device has a share of its own, with any rank", () => {
  const row = (rank: number, device: number, category: string, time_ns: number) => ({ rank, device, category, time_ns });
  const rows = [row(0, 0, "compute", 60), row(0, 0, "idle_gap", 40), row(1, 0, "compute", 20), row(1, 0, "idle_gap", 60), row(1, 0, "idle", 20)];
  expect(busyShares(rows)).toEqual([0.6, 0.2].map((share) => expect.closeTo(share, 9)));
  expect(busyShares([])).toEqual([]);
});

test("the caption states the window of the shares", () => {
  const steps = "Window: the selected steps and their GPU work, starting when the GPU work of earlier steps ends. The window ends when both the last selected step and its GPU work have ended.";
  const all = "Window: from the start of the first to the end of the last operation of each device, because no steps are selected.";
  expect(busyWindow(["Another note.", steps], "0")).toBe("in the selected steps and their GPU work");
  expect(busyWindow([all], "0")).toBe("from the start of the first to the end of the last operation of each device");
  const ranks = [`Rank 0: ${steps}`, `Rank 1: ${all}`];
  expect(busyWindow(ranks, "1")).toBe(busyWindow([all], "0"));
  expect(busyWindow(ranks, "10")).toBeUndefined();
});
