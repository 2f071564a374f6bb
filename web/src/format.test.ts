import { expect, test } from "vitest";
import { amount, bytes, count, duration, percent, sentence } from "./format";

test("times", () => {
  expect([999.6, 999_600, 999_499, 999_600_000].map(duration)).toEqual(["1.00 µs", "1.00 ms", "999 µs", "1.00 s"]);
  expect([0, 999, 1500, 12_345_678, -2e9].map(duration)).toEqual(["0 ns", "999 ns", "1.50 µs", "12.3 ms", "-2 s"]);
});

test("bytes and counts", () => {
  expect([1023, 1536, 3 * 2 ** 30].map(bytes)).toEqual(["1023 B", "1.50 KiB", "3 GiB"]);
  expect(count(1234567)).toBe("1\u202f234\u202f567");
});

test("sentences", () => {
  expect(["step 0 is left out: warm-up", "Done.", ""].map(sentence)).toEqual(["Step 0 is left out: warm-up.", "Done.", "."]);
});

test("parts", () => {
  expect([percent(1, 3), percent(1, 0), percent(1, 100_000)]).toEqual(["33.3 %", "–", "0.00 %"]);
  expect(amount(2, "us")).toBe("2 µs");
});
