/** Link that opens a line in the user's editor; the key O opens the first visible one. */

import { editorLink } from "../editor";

export const EditorLink = ({ file, line }: { file: string; line: number }) => (
  <a class="editor" href={editorLink(file, line)}>Open in editor</a>
);

/** Open the editor link of the selection, else of the page. */
export function openInEditor(): void {
  const link = document.querySelector<HTMLAnchorElement>(".details a.editor") ?? document.querySelector<HTMLAnchorElement>("main a.editor");
  link?.click();
}
