/** Opens a line in the user's editor; the key O does so with the first one that is seen. */

import { editorLink } from "../editor";

export const EditorLink = ({ file, line }: { file: string; line: number }) => (
  <a class="editor" href={editorLink(file, line)}>Open in editor</a>
);

/** Of what is selected, else of the page. */
export function openInEditor(): void {
  const link = document.querySelector<HTMLAnchorElement>(".details a.editor") ?? document.querySelector<HTMLAnchorElement>("main a.editor");
  link?.click();
}
