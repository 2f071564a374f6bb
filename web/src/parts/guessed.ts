/** Note on estimated times of lines. */
export const GUESSED =
  "≈ marks estimated times. The lines in which a function spends its self time are not recorded, so the time between two calls is divided between the lines of these two calls. A line without recorded calls, such as time.sleep(), may show no time, and adjacent lines too much.";
