/** Details as plain text, to be copied. */

import { amount, duration, percent } from "../format";
import { boundsOf } from "../gains";
import type { Tree } from "../flame/layout";
import { isAll, labelOf, timesOf } from "../flame/messages";
import type { Brief, EventDetail, FindingDetail, FrameDetail, Label, Row } from "../generated/answers";

/** A frame with its source location: `step (train.py:12)`. */
export function titleOf([, name, inputs, file, line]: Label): string {
  const sourceLocation = file === "" ? "" : ` (${file}${line > 0 ? `:${line}` : ""})`;
  return `${name}${inputs === "" ? "" : ` ${inputs}`}${sourceLocation}`;
}

/** Labels from below the root to a node, the outermost first. */
export function labelsTo(tree: Tree, node: number): Label[] {
  const labels: Label[] = [];
  for (let at = node; at > 0; at = tree.parent[at]!) labels.unshift(labelOf(tree, at));
  if (node > 0 && !isAll(tree, 0)) labels.unshift(labelOf(tree, 0));
  return node === 0 && !isAll(tree, 0) ? [labelOf(tree, 0)] : labels;
}

const value = (sum: number | null, unit: string) => (sum === null ? "too small to show" : amount(sum, unit));

export function frameText(tree: Tree, node: number, detail: FrameDetail | undefined): string {
  const path = detail?.path ?? labelsTo(tree, node);
  const { unit, title, total } = tree.document;
  const ownMetric = { title, unit, total, inclusive: tree.inclusive[node]!, exclusive: tree.exclusive[node]! };
  const calls = timesOf(detail ? detail.calls : tree.calls[node]);
  const metrics = detail?.metrics ?? [ownMetric];
  return [
    `${path.length > 0 ? titleOf(path.at(-1)!) : "all"}${calls}`,
    ...metrics.map((one) => `${one.title}: ${value(one.inclusive, one.unit)}${one.inclusive === null ? "" : ` (${percent(one.inclusive, one.total)})`}, self ${value(one.exclusive, one.unit)}`),
    "Call path:",
    ...path.map((label, at) => `${"  ".repeat(at + 1)}${titleOf(label)}`),
  ].join("\n");
}

export function eventText({ event, place, step, enclosing, launch, launched, callers, arguments: args }: EventDetail): string {
  const brief = (title: string) => (other: Brief) => `${title}: ${other.name} (${duration(other.dur)})`;
  return [
    `${event.name} (${event.kind.replaceAll("_", " ")})`,
    `Start ${duration(event.start)} after the start of the trace, duration ${duration(event.dur)}${step === null ? "" : `, in step ${step}`}`,
    ...(place.text ? [`Source location: ${place.text}`] : []),
    ...(launch ? [brief("Launched by")(launch)] : []),
    ...launched.map(brief("Launched")),
    ...enclosing.map(brief("Enclosed by")),
    ...callers.map(brief("Launched from")),
    ...args.map(([key, value]) => `${key}: ${value ?? "–"}`),
  ].join("\n");
}

/** Facts of a finding, with units for people. */
export function factsOf(detail: FindingDetail): string {
  return detail.facts.map(([name, value, unit]) => `${name} ${amount(value, unit)}`).join("; ");
}

export function findingText(row: Row, sourceLocation: string, step: number, detail: FindingDetail | undefined): string {
  const bounds = (ns: number) => boundsOf({ ns, low_ns: Number(row.gain_low_ns), high_ns: Number(row.gain_high_ns) }, step, duration);
  const gain = typeof row.gain_ns === "number" ? [`Estimated gain ${duration(row.gain_ns)}/step (${bounds(row.gain_ns)}), method: ${row.method}`] : [];
  return [
    `${row.code} ${row.name}: ${row.title}`,
    `At ${sourceLocation}`,
    ...gain,
    ...(row.advice ? [`Fix: ${row.advice}`] : []),
    `Evidence (${row.support}): ${detail ? factsOf(detail) : row.evidence}`,
  ].join("\n");
}
