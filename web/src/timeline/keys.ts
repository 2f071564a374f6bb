/** Keys of the timeline. Letters work everywhere except in input fields; arrows and Enter only if the drawing has the focus. */

import { useEffect, useRef } from "preact/hooks";

/** Call a handler with each key without a modifier. Its result is true if the key was used. */
export function useKeys(used: (key: string) => boolean): void {
  const latest = useRef(used);
  latest.current = used;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target instanceof HTMLElement ? event.target : undefined;
      const isTyping = target !== undefined && /INPUT|SELECT|TEXTAREA/.test(target.tagName);
      const isOutsideCanvas = (event.key.startsWith("Arrow") || event.key === "Enter") && target?.tagName !== "CANVAS";
      if (isTyping || isOutsideCanvas || event.ctrlKey || event.metaKey || event.altKey) return;
      if (latest.current(event.key)) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
