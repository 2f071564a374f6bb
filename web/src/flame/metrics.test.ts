import { expect, test } from "vitest";
import type { Meta } from "../generated/answers";
import { ofWholeAlone } from "./metrics";

const recorded = (on: boolean) => ({ recording: { processes: [{ sources: [{ name: "memory", on, detail: "" }] }] } }) as unknown as Meta;

test("metrics of memory that steps lack are offered of the whole run, where it was recorded", () => {
  expect(ofWholeAlone(recorded(true), [["host_time", "host time"]])).toEqual([
    ["allocated", "memory allocated (whole run only)"],
    ["freed", "memory freed (whole run only)"],
  ]);
  const whole = [["allocated", "memory allocated"], ["freed", "memory freed"]] as [string, string][];
  expect([ofWholeAlone(recorded(true), whole), ofWholeAlone(recorded(false), []), ofWholeAlone({ recording: null }, []), ofWholeAlone(undefined, [])]).toEqual([[], [], [], []]);
});
