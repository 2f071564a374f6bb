/** Answers of the server as bytes: a JSON head, then columns that become typed arrays without a copy. */

export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;

export interface Answer<D = unknown, C = Readonly<Record<string, Column>>> {
  readonly document: D;
  readonly columns: C;
}

interface Head<D> {
  readonly columns: ReadonlyArray<[name: string, type: "u8" | "u16" | "u32" | "f64", length: number]>;
  readonly document: D;
}

const ALIGNMENT = 8;
const SIZE_OF_LENGTH = 4;

export function decode<D>(bytes: ArrayBuffer): Answer<D> {
  const length = new DataView(bytes).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(bytes, SIZE_OF_LENGTH, length));
  const head = JSON.parse(text) as Head<D>;
  const columns: Record<string, Column> = {};
  let at = SIZE_OF_LENGTH + length;
  for (const [name, type, count] of head.columns) {
    const column = typed(type, bytes, at, count);
    columns[name] = column;
    at += Math.ceil(column.byteLength / ALIGNMENT) * ALIGNMENT;
  }
  return { document: head.document, columns };
}

function typed(type: "u8" | "u16" | "u32" | "f64", bytes: ArrayBuffer, at: number, count: number): Column {
  switch (type) {
    case "u8":
      return new Uint8Array(bytes, at, count);
    case "u16":
      return new Uint16Array(bytes, at, count);
    case "u32":
      return new Uint32Array(bytes, at, count);
    case "f64":
      return new Float64Array(bytes, at, count);
  }
}
