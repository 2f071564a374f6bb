/** Parser of the glossary of the documentation: terms with their definitions, from Markdown tables. */

/** Terms of one subject. */
export interface GlossarySection {
  readonly title: string;
  readonly terms: ReadonlyArray<readonly [term: string, definition: string]>;
}

/** Text without links, whose pages are not part of this page. A link in parentheses is removed, another one keeps its text. */
const withoutLinks = (text: string): string => text.replace(/ \(\[[^\]]*\]\([^)]*\)\)/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");

/** Sections of the glossary, each with the rows of its table. */
export function glossarySections(markdown: string): GlossarySection[] {
  const sections: Array<{ title: string; terms: Array<readonly [string, string]> }> = [];
  for (const line of markdown.split("\n")) {
    const title = /^## (.+)$/.exec(line)?.[1];
    if (title !== undefined) sections.push({ title, terms: [] });
    const [, term, definition] = /^\| (.+?) \| (.+) \|$/.exec(line) ?? [];
    if (term === undefined || definition === undefined || term === "term") continue;
    sections.at(-1)?.terms.push([withoutLinks(term), withoutLinks(definition)]);
  }
  return sections;
}
