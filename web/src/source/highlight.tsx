/** Source text in parts with classes, line by line. */

import { parser } from "@lezer/python";
import { classHighlighter, highlightCode } from "@lezer/highlight";
import type { ComponentChildren } from "preact";

/** Length above which a text is not highlighted, which would take seconds. */
const LONGEST = 400_000;

export function highlighted(text: string, file: string): ComponentChildren[][] {
  if (!file.endsWith(".py") || text.length > LONGEST) {
    return text.split("\n").map((line) => [line]);
  }
  const lines: ComponentChildren[][] = [[]];
  highlightCode(
    text,
    parser.parse(text),
    classHighlighter,
    (part, classes) => lines.at(-1)!.push(classes ? <span class={classes}>{part}</span> : part),
    () => lines.push([]),
  );
  return lines;
}
