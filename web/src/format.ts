/** Numbers for people. */

/** A time in ns, with three significant digits. */
export function duration(ns: number): string {
  // What would be rounded to a thousand is one of the next unit.
  const size = Math.abs(ns);
  if (size < 999.5) return `${significant(ns)} ns`;
  if (size < 999.5e3) return `${significant(ns / 1e3)} µs`;
  if (size < 999.5e6) return `${significant(ns / 1e6)} ms`;
  return `${significant(ns / 1e9)} s`;
}

/** Three significant digits, and none lost before the point. */
export function significant(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toString();
  return value.toFixed(size >= 10 ? 1 : 2);
}

/** Bytes in binary units. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (Math.abs(value) >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${significant(value)} ${units[at]}`;
}

/** A count with narrow spaces between thousands. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** Count with its noun: `1 event`, `2 events`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Words as a sentence: with a capital letter and a full stop. */
export const sentence = (words: string): string => `${words.charAt(0).toUpperCase()}${words.slice(1)}${words.endsWith(".") ? "" : "."}`;

/** A part of a whole in percent. */
export function percent(part: number, whole: number): string {
  if (whole === 0) return "–";
  const value = (100 * part) / whole;
  return `${Math.abs(value) > 0 && Math.abs(value) < 0.1 ? value.toFixed(2) : value.toFixed(1)} %`;
}

/** A sum in the unit of its metric. */
export function amount(value: number, unit: string): string {
  switch (unit) {
    case "ns":
      return duration(value);
    case "us":
      return duration(value * 1e3);
    case "ms":
      return duration(value * 1e6);
    case "bytes":
      return bytes(value);
    case "percent":
      return `${significant(value)} %`;
    default:
      return count(value);
  }
}
