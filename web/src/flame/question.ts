/** Query arguments of the flame graph, from the URL. */

import { GROUPS, steps } from "../filter";
import { change, changeCallView, rank, state } from "../state";
import type { Label } from "../generated/answers";

export type Args = Readonly<Record<string, string | undefined>>;

export const SHAPES = [
  ["top-down", "Top-down"],
  ["bottom-up", "Bottom-up"],
  ["flat", "Flat"],
] as const;

/** Views from a frame: its callers and its callees. */
export const HERE = [
  ["callers", "Callers"],
  ["callees", "Callees"],
] as const;

const isHere = (shape: string) => HERE.some(([name]) => name === shape);

/** The arguments of the view that the address asks for. */
export function flameArgs(): Args {
  const { metric, focus, hide, baseline, of, merge, recursion } = state.value;
  const shape = state.value.shape ?? "top-down";
  const groups = Object.fromEntries(GROUPS.map((group) => [group, state.value[group]]));
  return { shape, metric, focus, hide, baseline, merge, recursion, ...groups, of: isHere(shape) ? of : undefined, steps: steps(), rank: rank.value };
}

/** A pattern that is this text. */
export const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
/** Names that are longer are cut by the server, and end with this. */
const CUT = "…";

/** Pattern for a frame at any position: its name in its file, at any line. */
export function patternOf(label: Label): string {
  const [, name, , file] = label;
  if (name.endsWith(CUT)) return `^${escaped(name.slice(0, -CUT.length))}`;
  return file === "" ? `^${escaped(name)}$` : `^${escaped(`${name} ${file}`)}(:\\d+)?$`;
}

/** Show the callers or callees of a frame in all call paths. */
export function fromHere(shape: (typeof HERE)[number][0], label: Label): void {
  changeCallView({ page: "flame", shape, of: patternOf(label), here: label[1] });
}

/** Goes on to the next way to look. */
export function showNextShape(): void {
  const shapes = SHAPES.map(([value]) => value as string);
  const next = shapes[(shapes.indexOf(state.value.shape ?? "top-down") + 1) % shapes.length]!;
  changeCallView({ shape: next, of: "", here: "" });
}

/** Switches a part of the view on or off. */
export const toggle = (name: string, value: string) => changeCallView({ [name]: state.value[name] === value ? "" : value });

/** Colors by the next meaning. */
export function nextColor(names: readonly string[]): void {
  change({ color: names[(names.indexOf(state.value.color ?? "layer") + 1) % names.length]! });
}
