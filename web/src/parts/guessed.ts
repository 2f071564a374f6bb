/** Note on estimated times of lines. */
export const GUESSED =
  "≈ marks estimated times. Stacks do not record in which line a function spends its self time, so the time between two calls is divided between the lines of these calls. A line without recorded calls, such as time.sleep(), may show no time, and adjacent lines too much.";
