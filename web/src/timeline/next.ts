/** Keyboard navigation between boxes, from the selected event. Without drawing. */

import type { AnswerTo } from "../transport";
import type { Placed, TimeRange } from "./view";

export type Arrow = "up" | "down" | "left" | "right";

export const ARROWS: Readonly<Record<string, Arrow>> = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };

/** Event next to another one in its row, around it, or first within it. */
export function neighbor({ columns }: Pick<AnswerTo<"tiles">, "columns">, event: number, arrow: Arrow): number | undefined {
  const { track, depth, start, length, event: events } = columns;
  const current = Array.prototype.indexOf.call(events, event);
  if (current < 0) return undefined;
  const end = start[current]! + length[current]!;
  const level = depth[current]! + { up: -1, down: 1, left: 0, right: 0 }[arrow];
  const isInDirection = (at: number) => {
    if (arrow === "left") return start[at]! < start[current]!;
    if (arrow === "right") return start[at]! > start[current]!;
    if (arrow === "up") return start[at]! <= start[current]! && start[at]! + length[at]! >= end;
    return start[at]! >= start[current]! && start[at]! < end;
  };
  let best: number | undefined;
  for (let at = 0; at < track.length; at += 1) {
    if (at === current || track[at] !== track[current] || depth[at] !== level || !isInDirection(at)) continue;
    const isNearer = best === undefined || (arrow === "left" || arrow === "up" ? start[at]! > start[best]! : start[at]! < start[best]!);
    if (isNearer) best = at;
  }
  return best === undefined ? undefined : events[best];
}

/** Next or previous match in order of time, in a cycle. */
export function nextFound(
  { columns, document }: AnswerTo<"tiles">,
  selected: number | undefined,
  isFound: (name: string) => boolean,
  range: TimeRange,
  step: 1 | -1,
): number | undefined {
  const { start, length, event, name, depth, track } = columns;
  const isMatch = document.texts.map(isFound);
  const order = Array.from({ length: start.length }, (_, at) => at)
    .filter((at) => event[at] === selected || (isMatch[name[at]!] && start[at]! <= range.to && start[at]! + length[at]! >= range.from))
    .toSorted((a, b) => start[a]! - start[b]! || track[a]! - track[b]! || depth[a]! - depth[b]!);
  const current = order.findIndex((at) => event[at] === selected);
  for (let far = 1; far <= order.length; far += 1) {
    const from = current < 0 ? (step === 1 ? -1 : 0) : current;
    const at = order[(((from + far * step) % order.length) + order.length) % order.length]!;
    if (isMatch[name[at]!]) return event[at];
  }
  return undefined;
}

/** The outermost event that is seen of the first lane that has any: where arrows begin. */
export function firstSeen({ columns }: Pick<AnswerTo<"tiles">, "columns">, placed: readonly Placed[], { from, to }: TimeRange): number | undefined {
  const { track, depth, start, length, event } = columns;
  for (const { lane, outer } of placed) {
    let best: number | undefined;
    for (let at = 0; at < track.length; at += 1) {
      if (track[at] !== lane.track || depth[at]! < outer || start[at]! > to || start[at]! + length[at]! < from) continue;
      const isNearer = best === undefined || depth[at]! < depth[best]! || (depth[at] === depth[best] && start[at]! < start[best]!);
      if (isNearer) best = at;
    }
    if (best !== undefined) return event[best];
  }
  return undefined;
}
