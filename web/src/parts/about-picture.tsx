/** Explanations of a picture, folded below it. */

import type { ComponentChildren } from "preact";

export const AboutPicture = ({ children }: { children: ComponentChildren }) => (
  <details class="quiet">
    <summary>About this picture</summary>
    {children}
  </details>
);
