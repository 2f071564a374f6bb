/** Banner for a run with missing records, on every page. */

import { counted, sentence } from "../format";
import { lostOf } from "../lost";
import { change, page } from "../state";
import type { Meta } from "../generated/answers";

export function DataLossBanner({ meta }: { meta: Meta }) {
  const lost = new Map(lostOf(meta).map((problem) => [problem.code, problem.message]));
  if (lost.size === 0 || page.value === "run") return null;
  const [first] = lost.values();
  return (
    <p class="notice lost">
      <strong>Some records of this run were lost</strong>; all numbers cover only the remaining records. {sentence(first!)}{lost.size > 1 && ` Records of ${counted(lost.size - 1, "other kind")} were lost, too.`}{" "}
      <button type="button" class="link" onClick={() => change({ page: "run" })}>Missing records</button>
    </p>
  );
}
