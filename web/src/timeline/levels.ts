/** Selection of the levels that a lane with little room shows. Without drawing. */

import { useRef } from "preact/hooks";
import type { AnswerTo } from "../transport";
import type { Lane, Lanes } from "../generated/answers";
import { FEW, type TimeRange } from "./view";


/** Outer levels that are hidden of a lane, by its track. */
export type Outer = ReadonlyMap<number, number>;

/** Levels around an event in a small plot; its callees are below them. */
const LEVELS_ABOVE = FEW - 2;

/** Levels of events with a box in an answer, by lane. */
export function levelsOf({ columns }: Pick<AnswerTo<"tiles">, "columns">, events: readonly number[]): Map<number, number> {
  const { track, depth, event } = columns;
  const levels = new Map<number, number>();
  for (const one of events) {
    const at = Array.prototype.indexOf.call(event, one);
    if (at >= 0 && !levels.has(track[at]!)) levels.set(track[at]!, depth[at]!);
  }
  return levels;
}

/** Outer levels to hide so that an event is visible with its nearest callers and its callees. */
export const hiddenLevels = (level: number, rows: number): number => Math.max(Math.min(level - LEVELS_ABOVE, rows - FEW), 0);

/** A level says little where one box is this part of all that is on it. */
const ALONE = 0.95;

/** Number of outer levels of each lane that one box nearly fills in a time range. The innermost of them stays visible. */
export function idleLevels({ columns }: Pick<AnswerTo<"tiles">, "columns">, { from, to }: TimeRange): Map<number, number> {
  const { track, depth, start, length } = columns;
  const lanes = new Map<number, Array<{ sum: number; longest: number }>>();
  for (let at = 0; at < track.length; at += 1) {
    const lasts = Math.min(start[at]! + length[at]!, to) - Math.max(start[at]!, from);
    if (lasts < 0) continue;
    const levels = lanes.get(track[at]!) ?? [];
    const level = (levels[depth[at]!] ??= { sum: 0, longest: 0 });
    level.sum += lasts;
    level.longest = Math.max(level.longest, lasts);
    lanes.set(track[at]!, levels);
  }
  const idle = (levels: ReadonlyArray<{ sum: number; longest: number } | undefined>) => {
    const busy = levels.findIndex((level) => level !== undefined && level.longest < ALONE * level.sum);
    return Math.max((busy < 0 ? levels.length : busy) - 1, 0);
  };
  return new Map([...lanes].map(([lane, levels]) => [lane, idle(levels)]));
}

/** The outer levels to hide of a small picture's lanes: around events where a lane has one of them, else those with nothing to see. */
export function outerOf(answer: Pick<AnswerTo<"tiles">, "columns">, lanes: readonly Lane[], events: readonly number[], range: TimeRange): Outer {
  const [levels, idle] = [levelsOf(answer, events), idleLevels(answer, range)];
  return new Map(lanes.map(({ track, rows }) => {
    const level = levels.get(track);
    return [track, level === undefined ? (idle.get(track) ?? 0) : hiddenLevels(level, rows)];
  }));
}

const ANYWHERE: TimeRange = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

/** The outer levels to hide of a timeline's lanes, by the first answer about them: rows do not jump while one moves. */
export function useOuter(answer: AnswerTo<"tiles"> | undefined, lanes: Lanes): Outer | undefined {
  const known = useRef<{ readonly lanes: Lanes; readonly outer: Outer }>(undefined);
  if (answer && known.current?.lanes !== lanes) known.current = { lanes, outer: idleLevels(answer, ANYWHERE) };
  return known.current?.lanes === lanes ? known.current.outer : undefined;
}
