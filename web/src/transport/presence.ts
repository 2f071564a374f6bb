/** Reconnection to the server: poll until it answers, then repeat the failed queries. */

import { signal } from "@preact/signals";
import type { Meta } from "../generated/answers";
import type { Answer } from "./decode";
import { Refused, type Transport } from "./index";

/** Interval between attempts, in ms. */
const PAUSE_MS = 2000;

/** `known` is the metadata of the displayed run. */
export function watchPresence(carrier: Transport, known: () => Answer | undefined) {
  /** Silent: no answer. Other: another server answers and rejects this page. */
  const offline = signal<"" | "silent" | "other">("");
  const back = signal(0);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const attempt = async () => {
    clearTimeout(timer);
    try {
      const { document } = await carrier.request("meta");
      const shown = known()?.document as Meta | undefined;
      // Another run: nothing of what is shown is of it.
      if (shown && shown.hash !== document.hash) return location.reload();
      offline.value = "";
      back.value += 1;
    } catch (error) {
      offline.value = error instanceof Refused && error.reason === "offline" ? "silent" : "other";
      timer = setTimeout(attempt, PAUSE_MS);
    }
  };
  return {
    offline,
    back,
    retry: () => void attempt(),
    lost: () => {
      if (offline.value !== "") return;
      offline.value = "silent";
      timer = setTimeout(attempt, PAUSE_MS);
    },
  };
}
