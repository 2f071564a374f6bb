/** Tree of source files by directory. */

export interface File {
  readonly file: string;
  readonly exclusive: readonly number[];
}

export interface Folder {
  /** Name relative to the parent folder; for nested folders with nothing else in them, the joined names. */
  readonly name: string;
  /** Total cost of all files below, by metric. */
  readonly exclusive: readonly number[];
  readonly folders: readonly Folder[];
  readonly files: readonly File[];
}

interface Open {
  readonly folders: Map<string, Open>;
  readonly files: File[];
}

/** Root directory of all files, costliest first at each level. */
export function foldersOf(files: readonly File[]): Folder {
  const root: Open = { folders: new Map(), files: [] };
  for (const one of files) {
    let at = root;
    for (const name of one.file.split("/").slice(0, -1)) {
      const below = at.folders.get(name) ?? { folders: new Map(), files: [] };
      at.folders.set(name, below);
      at = below;
    }
    at.files.push(one);
  }
  return summed("", root);
}

function summed(name: string, { folders, files }: Open): Folder {
  const [only, ...others] = folders;
  // A chain of folders with nothing else in them is one line.
  if (only && others.length === 0 && files.length === 0 && name !== "") return summed(`${name === "/" ? "" : name}/${only[0]}`, only[1]);
  const below = [...folders].map(([name, open]) => summed(name || "/", open)).toSorted(costly);
  const own = files.toSorted(costly);
  const exclusive: number[] = [];
  for (const one of [...below, ...own]) one.exclusive.forEach((value, at) => (exclusive[at] = (exclusive[at] ?? 0) + value));
  return { name, exclusive, folders: below, files: own };
}

const costly = (a: { exclusive: readonly number[] }, b: { exclusive: readonly number[] }) => (b.exclusive[0] ?? 0) - (a.exclusive[0] ?? 0);
