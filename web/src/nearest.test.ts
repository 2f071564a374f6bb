import { expect, test } from "vitest";
import { nearest } from "./nearest";

test("a part of a name is enough, as it is for the server", () => {
  const names = ["ampere_sgemm_128x64_nn", "aten::mm", "aten::addmm", "volta_gemm", "Memcpy HtoD"];
  expect(nearest("gemn", names, 2)).toEqual(["volta_gemm", "ampere_sgemm_128x64_nn"]);
  expect(nearest("aten::admm", names, 1)).toEqual(["aten::addmm"]);
  expect(nearest("MEMCOPY", names, 5)).toEqual(["Memcpy HtoD"]);
  expect(["zzzzzz", "", "q"].map((text) => nearest(text, names, 5))).toEqual([[], [], []]);
});
