import { expect, test } from "vitest";
import type { AnswerTo } from "./transport";
import type { SearchAnswer } from "./generated/answers";
import { entriesOf, framesWith, fromReport } from "./search";

const finding = { code: "SL004", title: "the host waits for item()", gain_ns: 2_000_000 };

test("pages and findings are found by their names", () => {
  const names = (text: string) => entriesOf(text, [finding], undefined).map(({ sort, name }) => `${sort}: ${name}`);
  expect(names("FLAME")).toEqual(["page: Flame graph"]);
  expect(names("item")).toEqual(["finding: SL004 the host waits for item()"]);
  expect(names("nothing like it")).toEqual([]);
});

test("results of the server follow, limited per kind", () => {
  const events = Array.from({ length: 30 }, (_, at) => ({ name: `gemm_${at}`, kind: "gpu_work", count: 2, ns: 1500, event: at, start: 0, dur: 1 }));
  const answer: SearchAnswer = { text: "gemm", names: events, frames: [{ kind: "operator", name: "aten::gemm", file: "", inclusive: 3000, unit: "ns" }], files: ["gemm.py"], left_out: 0, nearest: [] };
  const found = entriesOf("gemm", [], answer);
  expect(found.map(({ sort }) => sort)).toEqual(["operator", ...Array<string>(12).fill("gpu work"), "file"]);
  expect(entriesOf("gemm", [], answer, "host time")[0]!.more).toBe("flame graph: 3 µs host time");
  expect(found.slice(0, 2).map(({ more }) => more)).toEqual(["flame graph: 3 µs", "timeline: 2 events, 1.50 µs in total"]);
});

test("a report searches the frames that it holds", () => {
  const labels = [["", "", "", "", 0, ""], ["python", "step", "", "train.py", 3, ""], ["operator", "aten::mm", "", "", 0, ""]];
  const columns = { label: Uint32Array.of(0, 1, 2, 1), inclusive: Float64Array.of(9, 9, 4, 2) };
  const answer = { document: { labels, unit: "ns" }, columns } as unknown as AnswerTo<"calls">;
  expect(fromReport(answer, "train").frames.map(({ name, inclusive }) => [name, inclusive])).toEqual([["step", 11]]);
  expect([fromReport(answer, "TRAIN").files, fromReport(answer, "mm").frames.length, fromReport(answer, "").frames]).toEqual([["train.py"], 1, []]);
});

test("frames with a text in their own name, not those of such a file", () => {
  const frame = (name: string, file: string) => ({ kind: "python", name, file, inclusive: 1, unit: "ns" });
  const frames = [frame("softmax", "nn.py"), frame("main", "softmax.py"), frame("log_Softmax", "nn.py")];
  expect(framesWith("softmax", { frames }).map(({ name }) => name)).toEqual(["softmax", "log_Softmax"]);
});
