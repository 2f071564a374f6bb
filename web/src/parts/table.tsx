/** A table of the queries, with numbers in the units of people. */

import { amount } from "../format";
import type { Row, Table } from "../types";

interface Props {
  readonly table: Table;
  readonly columns: ReadonlyArray<string>;
  readonly most?: number;
}

export function TableView({ table, columns, most = 12 }: Props) {
  const shown = columns.flatMap((name) => table.columns.filter((column) => column.name === name));
  const rows = table.rows.slice(0, most);
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
                <Cell key={name} row={row} name={name} unit={unit} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > rows.length && <p class="quiet">{table.rows.length - rows.length} more rows</p>}
    </div>
  );
}

function Cell({ row, name, unit }: { row: Row; name: string; unit: string }) {
  const value = row[name];
  if (typeof value === "number") {
    return <td class="number" title={`${value}`}>{amount(value, unit)}</td>;
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
