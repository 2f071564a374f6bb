/** Addresses that open a file in the user's editor. */

const KEY = "stackline.editor";
const DEFAULT = "vscode://file{file}:{line}";

/** The pattern of such addresses, with `{file}` and `{line}` in it. */
export function pattern(): string {
  try {
    return localStorage.getItem(KEY) ?? DEFAULT;
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

/** The address of a line. Whatever the pattern is, it starts no script. */
export function editorLink(file: string, line: number, template = pattern()): string {
  const path = encodeURI(file.startsWith("/") ? file : `/${file}`);
  const address = template.replaceAll("{file}", () => path).replaceAll("{line}", () => `${line}`);
  return /^(javascript|data|vbscript):/i.test(address.trim()) ? "#" : address;
}
