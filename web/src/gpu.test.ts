import { expect, test } from "vitest";
import { busyShares } from "./gpu";

test("each device has a share of its own, with any rank", () => {
  const row = (rank: number, device: number, category: string, time_ns: number) => ({ rank, device, category, time_ns });
  const rows = [row(0, 0, "compute", 60), row(0, 0, "idle_gap", 40), row(1, 0, "compute", 20), row(1, 0, "idle_gap", 60), row(1, 0, "idle", 20)];
  expect(busyShares(rows)).toEqual([0.6, 0.2].map((share) => expect.closeTo(share, 9)));
  expect(busyShares([])).toEqual([]);
});
