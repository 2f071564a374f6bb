/** Nearest names for a text without a match, in a report. A server computes the same. */

const MAX_CHARS = 200;
const MAX_TYPED = 40;
/** Letters of a text per allowed error: a third may be wrong. */
const PER_WRONG = 3;

/** Up to so many names of which a part resembles a text, the nearest first; of equally near ones the shorter. */
export function nearest(typed: string, names: readonly string[], count: number): string[] {
  const wanted = [...typed.trim().toLowerCase()].slice(0, MAX_TYPED);
  const most = Math.floor(wanted.length / PER_WRONG);
  if (most === 0) return [];
  const near = [...new Set(names)].map((name) => ({ name, far: distance(wanted, name) })).filter(({ far }) => far <= most);
  near.sort((a, b) => a.far - b.far || a.name.length - b.name.length || (a.name < b.name ? -1 : 1));
  return near.slice(0, count).map(({ name }) => name);
}

/** Edit distance between the text and the best matching part of a name. */
function distance(wanted: readonly string[], name: string): number {
  // By letter of the text: what it costs to end there. A part may begin anywhere, which costs nothing.
  const row = Array.from({ length: wanted.length + 1 }, (_, at) => at);
  let least = wanted.length;
  for (const letter of [...name.toLowerCase()].slice(0, MAX_CHARS)) {
    let diagonal = row[0]!;
    for (let at = 0; at < wanted.length; at += 1) {
      const replaced = diagonal + (wanted[at] === letter ? 0 : 1);
      diagonal = row[at + 1]!;
      row[at + 1] = Math.min(replaced, row[at]! + 1, diagonal + 1);
    }
    least = Math.min(least, row[wanted.length]!);
  }
  return least;
}
