/** Utilization of GPUs. */

import type { Row } from "./generated/answers";

/** The part of its time that each device was busy, from the rows of the table `gpu_time` (one per device and category). */
export function busyShares(rows: readonly Row[]): number[] {
  const devices = new Map<string, { all: number; idle: number }>();
  for (const row of rows) {
    const key = `${row.rank} ${row.device}`;
    const device = devices.get(key) ?? { all: 0, idle: 0 };
    const ns = Number(row.time_ns ?? 0);
    device.all += ns;
    if (`${row.category}`.startsWith("idle")) device.idle += ns;
    devices.set(key, device);
  }
  return [...devices.values()].filter(({ all }) => all > 0).map(({ all, idle }) => 1 - idle / all);
}

/** The time that these shares refer to, from the notes of the table: the analysis decides between selected steps and the whole trace. */
export function busyWindow(notes: readonly string[], rank: string): string | undefined {
  // In a table of several ranks, notes that differ begin with their rank.
  const begins = [`Rank ${rank}: Window: `, "Window: "];
  const note = notes.find((text) => begins.some((begin) => text.startsWith(begin)));
  const window = note?.replace(/^.*?Window: /, "").replace(/[,.].*$/s, "");
  return window === undefined || window.startsWith("from ") ? window : `in ${window}`;
}
