/** Flame graph as an accessible tree table, with the same data and actions. */

import { useState } from "preact/hooks";
import { amount, count, percent } from "../format";
import { Name } from "../parts/name";
import { change } from "../state";
import type { Tree } from "./layout";

/** Children that are shown before one asks for more. */
const MOST = 30;

export function TreeTable({ tree, root, selected }: { tree: Tree; root: number; selected: number | undefined }) {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const [most, setMost] = useState(MOST);
  const { rows, more } = shownRows(tree, root, open, most);
  const toggle = (row: number) => {
    const next = new Set(open);
    if (!next.delete(row)) next.add(row);
    setOpen(next);
  };
  const { unit, total } = tree.document;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of the call tree">
      <table role="treegrid" aria-label={`Call tree, measured by ${tree.document.title}`}>
        <thead>
          <tr>
            <th scope="col">Frame</th>
            <th scope="col" class="number">Inclusive</th>
            <th scope="col" class="number">Share</th>
            <th scope="col" class="number">Self</th>
            <th scope="col" class="number">Calls</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((node) => {
            const row = tree.row[node]!;
            const label = tree.document.labels[tree.label[node]!]!;
            const hasChildren = tree.parent[node + 1] === node && node + 1 < tree.parent.length;
            const level = tree.depth[node]! - tree.depth[root]!;
            const isOpen = node === root || open.has(row);
            const isSelected = node === selected;
            return (
              <tr key={row} role="row" aria-level={level + 1} aria-expanded={hasChildren ? isOpen : undefined} aria-selected={isSelected}>
                <td>
                  <div class="branch" style={{ paddingLeft: `${level * 14}px` }}>
                    <button type="button" class="twisty" disabled={!hasChildren || node === root} aria-label={isOpen ? "Close" : "Open"} onClick={() => toggle(row)}>
                      {hasChildren ? (isOpen ? "▾" : "▸") : "·"}
                    </button>
                    <button type="button" class="link" onClick={() => change({ sel: `node:${row}` }, "replace")}>
                      <Name text={row === 0 ? "all" : label[5]} />
                    </button>
                  </div>
                </td>
                <td class="number">{amount(tree.inclusive[node]!, unit)}</td>
                <td class="number">{percent(tree.inclusive[node]!, total)}</td>
                <td class="number">{amount(tree.exclusive[node]!, unit)}</td>
                <td class="number">{tree.calls[node]! > 0 ? count(tree.calls[node]!) : "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {more > 0 && (
        <button type="button" onClick={() => setMost(most * 4)}>
          {count(more)} narrower frames: show more
        </button>
      )}
    </div>
  );
}

/** The nodes whose callers are all open, the widest of each caller first; and how many were left out. The root is always open. */
function shownRows(tree: Tree, root: number, open: ReadonlySet<number>, most: number): { rows: number[]; more: number } {
  let more = 0;
  const rows = [root];
  const shown = new Set([root]);
  const children = new Map<number, number>();
  for (let node = root + 1; node < tree.parent.length && tree.depth[node]! > tree.depth[root]!; node += 1) {
    const caller = tree.parent[node]!;
    if (!shown.has(caller) || (caller !== root && !open.has(tree.row[caller]!))) continue;
    const sofar = children.get(caller) ?? 0;
    children.set(caller, sofar + 1);
    if (sofar < most) {
      shown.add(node);
      rows.push(node);
    } else {
      more += 1;
    }
  }
  return { rows, more };
}
