/** Addresses that open a file in the user's editor. */

const KEY = "stackline.editor";
const DEFAULT = "vscode://file{file}:{line}";
/** What an address must not begin with: it would run as a script of this page. */
const SCRIPTS = ["javascript:", "data:", "vbscript:"];

/** Where paths that are relative count from; set once it is known. */
let folder = "";

export function setFolder(path: string | null): void {
  folder = path ?? "";
}

/** The pattern of such addresses, with `{file}` and `{line}` in it. */
export function pattern(): string {
  try {
    return localStorage.getItem(KEY) || DEFAULT;
  } catch {
    return DEFAULT;
  }
}

export function setPattern(text: string): void {
  try {
    localStorage.setItem(KEY, text);
  } catch {
    // A page from a disk may not keep anything: the default serves.
  }
}

/** The address of a line. Whatever the pattern is, it starts no script of this page. */
export function editorLink(file: string, line: number, template = pattern(), base = folder): string {
  const path = file.startsWith("/") ? file : `${base.replace(/\/$/, "")}/${file}`;
  const escaped = path.split("/").map(encodeURIComponent).join("/");
  const address = template.replaceAll("{file}", () => escaped).replaceAll("{line}", () => `${line}`);
  try {
    return SCRIPTS.includes(new URL(address).protocol) ? "#" : address;
  } catch {
    return "#";
  }
}
