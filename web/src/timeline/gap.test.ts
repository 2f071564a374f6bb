import { expect, test } from "vitest";
import type { Brief, Lane, Lanes } from "../generated/answers";
import { lanesAround } from "./gap";

const lane = (track: number, kind: string, events: number): Lane => ({ track, kind, process: "1", process_name: "", thread: "", name: "", device: null, stream: null, events, rows: 40 });
const whole = (...lanes: Lane[]): Lanes => ({ origin: "0", length: 9, buckets: 512, whole: { level: 0, first: 0, last: 3 }, kinds: [], has_imports: false, lanes });
const brief = (track: number) => ({ track }) as Brief;

test("three lanes are visible: of the event, of its launched work, and of the busiest stream", () => {
  const all = whole(lane(1, "thread", 900), lane(2, "thread", 5), lane(3, "stream", 7), lane(4, "stream", 70), lane(5, "stream", 1));
  const lanesOf = (track: number, launched: Brief[], launch: Brief | null = null) => lanesAround(all, { track, launched, launch }).lanes;
  expect(lanesOf(2, [brief(5)]).map(({ track }) => track)).toEqual([2, 4, 5]);
  expect(lanesOf(3, [], brief(1)).map(({ track }) => track)).toEqual([1, 3, 4]);
});
