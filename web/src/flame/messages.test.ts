import { expect, test } from "vitest";
import { captionOf } from "./messages";

test("a printed plot has a caption", () => {
  expect(captionOf("GPU time", { shape: "top-down", steps: "6..6" })).toBe("Top-down, GPU time, step 6");
  expect(captionOf("memory freed", { shape: "callers", steps: "whole", of: "main", thread: "thread 1", hide: "aten", merge: "name", find: "" })).toBe(
    "Callers, memory freed, the whole run, from main, thread: thread 1, without frames that match aten, merged by name",
  );
});
