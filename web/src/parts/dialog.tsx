/** Windows over the page: one at a time, which Esc closes. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Which one is open. */
export const dialog = signal<"" | "keys" | "search">("");

export const close = () => (dialog.value = "");

export function Dialog({ title, children, class: name }: { title: string; children: ComponentChildren; class?: string }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    // The browser keeps the keyboard inside, and gives it back.
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} class={name} aria-label={title} onClose={close} onClick={(event) => event.target === element.current && element.current?.close()}>
      {children}
    </dialog>
  );
}
