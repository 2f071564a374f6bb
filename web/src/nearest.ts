/** Nearest names for a text without a match, in a report. A server computes the same. */

const MAX_CHARS = 200;
const MAX_TYPED = 40;
/** Letters of a text per allowed error: a third may be wrong. */
const PER_WRONG = 3;

/** Up to so many names of which a part resembles a text, the nearest first; of equally near ones the shorter. */
export function nearest(typed: string, names: readonly string[], count: number): string[] {
  const letters = [...typed.trim().toLowerCase()].slice(0, MAX_TYPED);
  const most = Math.floor(letters.length / PER_WRONG);
  if (most === 0) return [];
  const near = [...new Set(names)].map((name) => ({ name, far: distance(letters, name) })).filter(({ far }) => far <= most);
  near.sort((a, b) => a.far - b.far || a.name.length - b.name.length || (a.name < b.name ? -1 : 1));
  return near.slice(0, count).map(({ name }) => name);
}

/** Edit distance between the text and the best matching part of a name. */
function distance(letters: readonly string[], name: string): number {
  // By letter of the text: what it costs to end there. A part may begin anywhere, which costs nothing.
  const row = Array.from({ length: letters.length + 1 }, (_, at) => at);
  let least = letters.length;
  for (const letter of [...name.toLowerCase()].slice(0, MAX_CHARS)) {
    let diagonal = row[0]!;
    for (let at = 0; at < letters.length; at += 1) {
      const replaced = diagonal + (letters[at] === letter ? 0 : 1);
      diagonal = row[at + 1]!;
      row[at + 1] = Math.min(replaced, row[at]! + 1, diagonal + 1);
    }
    least = Math.min(least, row[letters.length]!);
  }
  return least;
}
