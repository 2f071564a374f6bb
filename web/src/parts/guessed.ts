/** Note on estimated times of lines. */
export const GUESSED =
  "≈ marks estimates: stacks do not record the line of self time, so the time between two calls is split between their lines. A line without recorded calls, such as time.sleep(), may have no time, and adjacent lines too much.";
