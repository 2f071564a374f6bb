/** Table of a query, with formatted numbers and units. */

import { useState } from "preact/hooks";
import { amount, counted } from "../format";
import type { Row, Table } from "../generated/answers";
import { Name } from "./name";

interface Props {
  readonly table: Table;
  readonly columns: ReadonlyArray<string>;
  readonly most?: number;
  /** Handler for a click on a name. */
  readonly onName?: (name: string) => void;
}

export function TableView({ table, columns, most = 12, onName }: Props) {
  const [isWhole, setWhole] = useState(false);
  const shown = columns.flatMap((name) => table.columns.filter((column) => column.name === name));
  const rows = isWhole ? table.rows : table.rows.slice(0, most);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={table.title}>
      <table>
        <caption>{table.title}</caption>
        <thead>
          <tr>
            {shown.map(({ name }) => (
              <th scope="col" key={name} class={isNumber(table, name) ? "number" : undefined} style={widthOf(table, name)}>{heading(name)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {shown.map(({ name, unit }) => (
                <Cell key={name} row={row} name={name} unit={unit} onName={onName} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > most && (
        <button type="button" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Fewer rows" : counted(table.rows.length - most, "more row")}
        </button>
      )}
    </div>
  );
}

function Cell({ row, name, unit, onName }: { row: Row; name: string; unit: string; onName: Props["onName"] }) {
  const value = row[name];
  if (typeof value === "number") {
    return <td class="number" title={`${value}`}>{amount(value, unit)}</td>;
  }
  if (name === "name" && onName && typeof value === "string") {
    return <td><button type="button" class="link" onClick={() => onName(value)}><Name text={value} /></button></td>;
  }
  return <td><Name text={`${value ?? "–"}`} /></td>;
}

const isNumber = (table: Table, name: string) => table.rows.some((row) => typeof row[name] === "number");

/** Letters of a text that a column has room for at least: names may be broken anywhere, and would be as narrow as a letter. */
const NARROWEST = 14;

/** Room for the texts of a column, as far as they are short. */
function widthOf(table: Table, name: string): { minWidth: string } | undefined {
  const longest = table.rows.reduce((most, row) => Math.max(most, typeof row[name] === "string" ? row[name].length : 0), 0);
  return longest === 0 ? undefined : { minWidth: `${Math.min(longest, NARROWEST) + 1}ch` };
}

/** A column's name without its unit, in words. */
export function heading(name: string): string {
  const words = name.replace(/_(ns|us|ms|bytes|percent)$/, (_, unit: string) => (unit === "percent" ? " %" : "")).replaceAll("_", " ");
  return words.replace(/^gpu\b/, "GPU").replace(/^./, (first) => first.toUpperCase());
}
