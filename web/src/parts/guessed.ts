/** What is said beside times of lines that are partly guessed. */
export const GUESSED =
  "≈ is estimated: of the time that a function takes itself no stack tells at which line it was, and half of what lies between two calls counts for the line of each. A line that calls nothing that was recorded, as time.sleep() does, may have no time, and its neighbours too much.";
