/** Modal dialogs: one at a time, closed by Esc. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** The open dialog. */
export const dialog = signal<"" | "keys" | "glossary" | "search" | "folders">("");

export const close = () => (dialog.value = "");

export function Dialog({ title, children, class: name }: { title: string; children: ComponentChildren; class?: string }) {
  const element = useRef<HTMLDialogElement>(null);
  // At once: what is typed next is meant for it.
  useLayoutEffect(() => {
    // The browser keeps the keyboard inside, and gives it back.
    element.current?.showModal();
    // It may have been scrolled to what has the keyboard now.
    if (element.current) element.current.scrollTop = 0;
  }, []);
  return (
    <dialog ref={element} class={name} aria-label={title} onClose={close} onClick={(event) => event.target === element.current && element.current?.close()}>
      {children}
    </dialog>
  );
}
