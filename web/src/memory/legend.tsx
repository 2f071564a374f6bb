/** Legend of memory: hatching shows the reason of waste and tick height the access, not color alone. */

import { KINDS } from "./draw";
import type { MemoryOverview } from "../generated/answers";

/** Lines in a sample of 24 by 12, as the drawing has them. */
const LINES: ReadonlyArray<string> = ["M-6 12 6 0M0 12 12 0M6 12 18 0M12 12 24 0M18 12 30 0", "M-6 0 6 12M0 0 12 12M6 0 18 12M12 0 24 12M18 0 30 12", "", "M0 3H24M0 6H24M0 9H24", "M3 0V12M9 0V12M15 0V12M21 0V12"];

export function MemoryLegend({ overview, hasAccesses }: { overview: MemoryOverview; hasAccesses: boolean }) {
  const { why, kinds, lanes } = overview.page;
  const used = kinds.map((kind, at) => ({ kind, at })).filter(({ at }) => lanes.some((lane) => (lane.kinds[at] ?? 0) > 0));
  return (
    <ul class="legend" aria-label="Legend">
      {why.map((reason, at) => (
        <li key={reason}><Hatch lines={at === 2 ? `${LINES[0]}${LINES[1]}` : LINES[at]!} /> {reason}</li>
      ))}
      {hasAccesses && (
        <>
          <li><Tick top={6} high={6} /> read</li>
          <li><Tick top={0} high={6} /> written</li>
          <li><Tick top={0} high={12} /> read and written, or unknown access</li>
        </>
      )}
      {used.map(({ kind, at }) => (
        <li key={kind}><i style={{ background: KINDS[at] }} /> {kind}</li>
      ))}
    </ul>
  );
}

const Hatch = ({ lines }: { lines: string }) => (
  <svg class="sample" viewBox="0 0 24 12" width="24" height="12" aria-hidden="true">
    <rect width="24" height="12" fill="#f7c59f" />
    <path d={lines} stroke="#14171b" fill="none" />
  </svg>
);

const Tick = ({ top, high }: { top: number; high: number }) => (
  <svg class="sample" viewBox="0 0 24 12" width="24" height="12" aria-hidden="true">
    <rect width="24" height="12" fill="#8cc4ee" />
    <rect x="11" y={top} width="2" height={high} fill="#14171b" />
  </svg>
);
