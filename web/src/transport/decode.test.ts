import { expect, test } from "vitest";
import { decode } from "./decode";

test("columns become typed arrays", () => {
  let head = '{"columns":[["depth","u8",3],["start","f64",1]],"document":{"a":1}}';
  head = head.padEnd(Math.ceil((head.length + 4) / 8) * 8 - 4);
  const bytes = new ArrayBuffer(4 + head.length + 16);
  new DataView(bytes).setUint32(0, head.length, true);
  new Uint8Array(bytes).set(new TextEncoder().encode(head), 4);
  new Uint8Array(bytes, 4 + head.length, 3).set([1, 2, 3]);
  new Float64Array(bytes, 4 + head.length + 8, 1)[0] = 0.5;
  const answer = decode<{ a: number }>(bytes);
  expect(answer.document).toEqual({ a: 1 });
  expect([...answer.columns.depth!]).toEqual([1, 2, 3]);
  expect([...answer.columns.start!]).toEqual([0.5]);
});
