/**
 * State of the page as part of the address, so that Back works, and a link shows the same view. The part of the address after
 * `#` works for a server, behind a proxy, and for a file on a disk.
 */

import { batch, computed, signal } from "@preact/signals";
import { connect } from "./transport";

export const PAGES = [
  { id: "overview", title: "Overview", needs: "" },
  { id: "issues", title: "Issues", needs: "timeline" },
  { id: "flame", title: "Flame graph", needs: "" },
  { id: "timeline", title: "Timeline", needs: "timeline" },
  { id: "memory", title: "Memory", needs: "memory" },
  { id: "layers", title: "Layers & kernels", needs: "layers" },
  { id: "compare", title: "Compare", needs: "baseline" },
  { id: "source", title: "Source", needs: "" },
  { id: "run", title: "This run", needs: "" },
] as const;

export type PageId = (typeof PAGES)[number]["id"];
export type State = Readonly<Record<string, string>>;

export const transport = connect();

/** Old names of parts, in saved links, with the new names. */
const RENAMED = new Map([["beside", "baseline"], ["colour", "color"], ["gone", "removed"]]);

/** The parts of the address. */
export const state = signal<State>(parse(location.hash));

/** The page that is shown where the address names none. */
export const firstPage = signal<PageId>("overview");

export const page = computed<PageId>(() => {
  const requestedPage = state.value.page;
  return PAGES.find(({ id }) => id === requestedPage)?.id ?? firstPage.value;
});

/** Selection, as `kind:number`: `event:12`, `finding:0`. */
export const selection = computed(() => state.value.sel ?? "");

/** Selected rank; undefined means the first. */
export const rank = computed(() => state.value.rank);

export function parse(hash: string): State {
  const parts = [...new URLSearchParams(hash.replace(/^#/, ""))];
  return Object.fromEntries(parts.map(([name, value]) => [RENAMED.get(name) ?? name, value]));
}

export function format(parts: State): string {
  const search = new URLSearchParams(Object.entries(parts).filter(([, value]) => value !== ""));
  return `#${search}`;
}

/** Parts that belong to one page, and go when another is opened. */
const OF_PAGE = ["root", "from", "to", "file", "line", "area", "confidence", "cause"];

/** Change parts of the address. Back returns from a new page or selection, but not from a moved view. */
export function change(parts: State, how: "push" | "replace" = "push"): void {
  const before = state.value;
  const remaining = parts.page !== undefined && parts.page !== before.page ? without(before, OF_PAGE) : before;
  const after = { ...remaining, ...parts };
  const text = format(after);
  if (text === format(before)) {
    return;
  }
  if (how === "push") {
    // Back returns to the view that was seen last.
    write();
    history.pushState(null, "", text);
  } else {
    writeAddressLater(text);
  }
  state.value = parse(text);
}

/** Ms between two times that the address is written while one moves: a browser takes a quarter of a frame for each, and refuses hundreds at once. */
const MIN_INTERVAL_MS = 250;
/** An address that is not written yet, and when the last one was. */
export const address = { waits: undefined as string | undefined, at: Number.NEGATIVE_INFINITY };
let timer: ReturnType<typeof setTimeout> | undefined;

/** Replace the URL in the browser's history, at once if the last change was long ago. */
function writeAddressLater(text: string): void {
  address.waits = text;
  const left = address.at + MIN_INTERVAL_MS - performance.now();
  if (left <= 0) write();
  else timer ??= setTimeout(write, left);
}

function write(): void {
  clearTimeout(timer);
  timer = undefined;
  if (address.waits === undefined) return;
  history.replaceState(null, "", address.waits);
  Object.assign(address, { waits: undefined, at: performance.now() });
}

/** Change the view of the call tree. Rows differ between views, so the selection keeps the frame. */
export function changeCallView(parts: State): void {
  const before = state.value.sel ?? "";
  const sel = !before.startsWith("node:") ? before : before === selectedFrame.sel ? selectedFrame.frame : "";
  change({ sel, ...parts, root: "" });
}

/** Frame of the selected row in URL form, and its callers. */
export const selectedFrame = { sel: "", frame: "", around: [] as readonly string[] };

/** Select another rank and clear the state of the previous one. An empty text selects all ranks, with plots of the first. */
export function chooseRank(rank: string): void {
  change({ rank, sel: "", from: "", to: "", root: "", mark: "", steps: "", thread: "", device: "", alive: "", apply: "" });
}

function without(parts: State, names: readonly string[]): State {
  return Object.fromEntries(Object.entries(parts).filter(([name]) => !names.includes(name)));
}

export function followHistory(): void {
  const read = () => {
    // Somebody went elsewhere before what was seen last was written.
    address.waits = undefined;
    batch(() => (state.value = parse(location.hash)));
  };
  addEventListener("popstate", read);
  addEventListener("hashchange", read);
  addEventListener("pagehide", write);
}
