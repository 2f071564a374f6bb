/** Banner for a run with missing records, on every page. */

import { counted } from "../format";
import { lostOf } from "../lost";
import { change, page } from "../state";
import type { Meta } from "../generated/answers";

export function DataLossBanner({ meta }: { meta: Meta }) {
  const lost = new Map(lostOf(meta).map((problem) => [problem.code, problem.message]));
  if (lost.size === 0 || page.value === "run") return null;
  const [first] = lost.values();
  return (
    <p class="notice lost">
      <strong>A part of this run was lost</strong>, numbers are of what is there: {first}{lost.size > 1 && `; and ${counted(lost.size - 1, "more loss", "more losses")}`}.{" "}
      <button type="button" class="link" onClick={() => change({ page: "run" })}>What was lost</button>
    </p>
  );
}
