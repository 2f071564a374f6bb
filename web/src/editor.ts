/** Addresses that open a file in the user's editor. */

import { signal } from "@preact/signals";

const KEY = "stackline.editor";
const DEFAULT = "vscode://file{file}:{line}";
/** Schemes refused for editor URLs, which would run as scripts of this page. */
const SCRIPTS = ["javascript:", "data:", "vbscript:"];

/** Base directory of relative paths, once known. */
let folder = "";

export function setFolder(path: string | null): void {
  folder = path ?? "";
}

/** The pattern of such addresses, with `{file}` and `{line}` in it. */
export function pattern(): string {
  loadSettings();
  return known || DEFAULT;
}

/** Cached value, since the first read of browser storage is slow. */
let known: string | undefined;

function stored(name: string): string {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

export function setPattern(text: string): void {
  known = text;
  try {
    localStorage.setItem(KEY, text);
  } catch {
    // A page from a disk may not keep anything: the default serves.
  }
}

const FOLDERS = "stackline.folders";

/** A directory of the recording, and its path on this machine. */
export interface Folder {
  readonly from: string;
  readonly to: string;
}

/** Mappings of recorded directories to this machine. */
export const folders = signal<readonly Folder[]>([]);

/** Read the browser storage once, in advance or on demand. */
export function loadSettings(): void {
  if (known !== undefined) return;
  known = stored(KEY);
  try {
    const all: unknown = JSON.parse(stored(FOLDERS) || "[]");
    const isFolder = (one: unknown): one is Folder => typeof (one as Folder)?.from === "string" && typeof (one as Folder)?.to === "string";
    if (Array.isArray(all) && all.length > 0) folders.value = all.filter(isFolder);
  } catch {
    // What somebody else wrote there is none of ours.
  }
}

export function setFolders(all: readonly Folder[]): void {
  folders.value = all.filter(({ from }) => from.trim() !== "");
  try {
    localStorage.setItem(FOLDERS, JSON.stringify(folders.value));
  } catch {
    // A page from a disk may not keep anything: they hold until it is closed.
  }
}

function knownFolders(): readonly Folder[] {
  loadSettings();
  return folders.value;
}

const bare = (folder: string) => folder.trim().replace(/[/\\]+$/, "");

/** Path of a file on this machine, by the longest mapped directory. */
export function localPath(file: string, known: readonly Folder[] = knownFolders()): string {
  const isBelow = ({ from }: Folder) => file.startsWith(`${bare(from)}/`);
  const [folder] = known.filter(isBelow).toSorted((a, b) => bare(b.from).length - bare(a.from).length);
  return folder ? bare(folder.to) + file.slice(bare(folder.from).length) : file;
}

/** A file by its full name: relative ones count from the folder of the server. */
export const absolute = (file: string, base = folder): string => (file.startsWith("/") ? file : `${base.replace(/\/$/, "")}/${file}`);

/** The address of a line. No pattern can start a script of this page. */
export function editorLink(file: string, line: number, template = pattern(), base = folder): string {
  const path = localPath(absolute(file, base));
  const escaped = path.split("/").map(encodeURIComponent).join("/");
  const address = template.replaceAll("{file}", () => escaped).replaceAll("{line}", () => `${line}`);
  try {
    return SCRIPTS.includes(new URL(address).protocol) ? "#" : address;
  } catch {
    return "#";
  }
}
