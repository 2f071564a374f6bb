/** A button that copies a text. */

import { useState } from "preact/hooks";

export function Copy({ text, title = "Copy as text" }: { text: () => string; title?: string }) {
  const [status, setStatus] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      setStatus("Copied");
    } catch {
      // A page from a disk, or one in a frame, may not be allowed to: then by hand.
      setStatus(byHand(text()) ? "Copied" : "The browser blocked copying");
    }
  };
  return (
    <>
      <button type="button" onClick={() => void copy()}>{title}</button>
      <span class="quiet" aria-live="polite">{status}</span>
    </>
  );
}

/** Copies as people would: selects the text, and copies the selection. */
function byHand(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
