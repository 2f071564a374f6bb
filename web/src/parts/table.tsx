/** A table of the queries, with numbers in the units of people. */

import { useState } from "preact/hooks";
import { amount, counted } from "../format";
import type { Row, Table } from "../types";

interface Props {
  readonly table: Table;
  readonly columns: ReadonlyArray<string>;
  readonly most?: number;
  /** Opens what has a name. */
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
              <th scope="col" key={name} class={typeof rows[0]?.[name] === "number" ? "number" : undefined}>{heading(name)}</th>
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
    return <td title={value}><button type="button" class="link" onClick={() => onName(value)}><span class="clamp">{value}</span></button></td>;
  }
  return (
    <td title={value === null || value === undefined ? "" : `${value}`}>
      <span class="clamp">{value ?? "–"}</span>
    </td>
  );
}

/** A column's name without its unit, in words. */
export function heading(name: string): string {
  return name.replace(/_(ns|us|ms|bytes|percent)$/, (_, unit: string) => (unit === "percent" ? " %" : "")).replaceAll("_", " ");
}
