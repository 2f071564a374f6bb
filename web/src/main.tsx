/** Page frame: navigation, filter bar, page and details. */

import { effect } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { useAnswer } from "./answers";
import { readTheme, setTheme, type Theme, theme } from "./colors";
import { loadSettings, setFolder } from "./editor";
import { Compare } from "./pages/compare";
import { Flame } from "./pages/flame";
import { Issues } from "./pages/issues";
import { Layers, NEEDED } from "./pages/layers";
import { Memory } from "./pages/memory";
import { Overview } from "./pages/overview";
import { Run } from "./pages/run";
import { Source } from "./pages/source";
import { Timeline } from "./pages/timeline";
import { run } from "./filter";
import { Details } from "./parts/details";
import { openInEditor } from "./parts/editor-link";
import { dialog } from "./parts/dialog";
import { FilterBar } from "./parts/filters";
import { Folders } from "./parts/folders";
import { Glossary } from "./parts/glossary";
import { ServerOffline } from "./parts/server-offline";
import { Keys } from "./parts/keys";
import { DataLossBanner } from "./parts/data-loss-banner";
import { Palette } from "./parts/palette";
import { Shown } from "./parts/notice";
import { address, change, chooseRank, firstPage, followHistory, page, PAGES, type PageId, state, transport } from "./state";
import type { Meta } from "./generated/answers";
import "./style.css";

function App() {
  const meta = useAnswer("meta");
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        dialog.value = "search";
      }
      if (dialog.value !== "") return;
      const isTyping = event.target instanceof HTMLElement && /INPUT|SELECT|TEXTAREA/.test(event.target.tagName);
      const pageEntry = PAGES[Number(event.key) - 1];
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (pageEntry) change({ page: pageEntry.id });
      if (event.key === "t") change({ as: state.value.as === "table" ? "" : "table" });
      if (event.key === "?") dialog.value = "keys";
      if (event.key === "o") openInEditor();
      if (event.key === "Escape") back();
      if (event.key === "/") {
        const field = document.querySelector<HTMLInputElement>("[data-field=find]");
        field?.focus();
        if (field) event.preventDefault();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  if (meta.state === "ok") {
    setFolder(meta.answer.document.folder);
    run.value = meta.answer.document;
    firstPage.value = isMemoryAlone(meta.answer.document) ? "memory" : "overview";
  }
  return <Shown query={meta}>{({ document: run }) => <Frame meta={run} />}</Shown>;
}

/** Clear the selection, else the mark, else the zoom of the flame graph. */
function back(): void {
  const part = ["sel", "mark", "root"].find((name) => state.value[name]);
  if (part) change({ [part]: "" }, "replace");
}

function Frame({ meta }: { meta: Meta }) {
  return (
    <div class="frame">
      <a class="skip" href="#page" onClick={(event) => {
        event.preventDefault();
        document.getElementById("page")?.focus();
      }}>Skip to the content</a>
      <header>
        <strong>Stackline</strong>
        <span class="name" title={meta.name}>{meta.name}</span>
        <RankChoice meta={meta} />
        {transport.kind === "report" && <span class="quiet">report file with precomputed views</span>}
        <button type="button" onClick={() => (dialog.value = "search")}>Search <kbd>Ctrl+K</kbd></button>
        <button type="button" onClick={() => (dialog.value = "keys")}>Keys <kbd>?</kbd></button>
        <label>
          Theme{" "}
          <select value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
            <option value="">system</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
            <option value="contrast">high contrast</option>
          </select>
        </label>
      </header>
      <nav aria-label="Pages">
        <ol>
          {PAGES.map(({ id, title, needs }, at) => (
            <li key={id}>
              <a
                href={`#page=${id}`}
                aria-current={page.value === id ? "page" : undefined}
                class={lacks(meta, id, needs) ? "without" : undefined}
                title={lacks(meta, id, needs)}
                onClick={(event) => {
                  event.preventDefault();
                  change({ page: id });
                }}
              >
                <kbd aria-hidden="true">{at + 1}</kbd> {title}
              </a>
            </li>
          ))}
        </ol>
      </nav>
      <main id="page" tabIndex={-1}>
        <ServerOffline meta={meta} />
        <DataLossBanner meta={meta} />
        <FilterBar meta={meta} />
        <Page id={page.value} meta={meta} />
      </main>
      <Details />
      {dialog.value === "keys" && <Keys />}
      {dialog.value === "glossary" && <Glossary />}
      {dialog.value === "search" && <Palette />}
      {dialog.value === "folders" && <Folders />}
    </div>
  );
}

/** Check for an input that is only a memory file, without data for other pages. */
const isMemoryAlone = (meta: Meta) => meta.memory !== null;

const MEMORY_ALONE = "This file contains only memory data and no execution trace. To record a trace: stackline record --mode trace --memory -- python train.py";

/** Pages that show files of memory, too. */
const OF_MEMORY: readonly PageId[] = ["memory", "issues", "run"];

/** Pages that need events with a duration. */
const EVENTS: readonly PageId[] = ["issues", "flame", "timeline", "source"];

/** Reason why a page has no data, if so. The page stays listed and names its requirements. */
function lacks(meta: Meta, id: PageId, needs: string): string | undefined {
  if (isMemoryAlone(meta) && !OF_MEMORY.includes(id)) return MEMORY_ALONE;
  if (EVENTS.includes(id) && meta.has.timeline && !meta.has.events && !(id === "issues" && meta.has.memory) && !(id === "flame" && meta.recording)) return "This page needs events with a start and a duration, which this trace lacks";
  if (id === "source" && !meta.has.python && meta.recording === null) return "This page needs Python functions: record with torch.profiler and with_stack=True, or with stackline record -- python train.py";
  if (needs === "timeline" && !meta.has.timeline) return "This page needs a trace of every call: run stackline record --mode trace -- python train.py";
  if (needs === "memory" && !meta.has.memory) return "This page needs memory allocations: record with torch.profiler and profile_memory=True, take a memory snapshot, or run stackline record --mode trace --memory -- python train.py";
  if (needs === "layers") return NEEDED;
  if (needs === "baseline" && meta.baseline === null) return "This page needs a second run for comparison: open both with stackline view RUN --baseline OTHER";
  return undefined;
}

function RankChoice({ meta }: { meta: Meta }) {
  if (meta.traces.length < 2) return null;
  return (
    <label>
      Rank{" "}
      <select value={state.value.rank ?? ""} onChange={(event) => chooseRank(event.currentTarget.value)}>
        <option value="">all (plots show rank {meta.traces[0]!.info.rank})</option>
        {meta.traces.map(({ info }) => (
          <option key={info.rank} value={`${info.rank}`}>{info.rank}</option>
        ))}
      </select>
    </label>
  );
}

/** Placeholder for pages that need an execution trace. */
const MemoryAlone = ({ title }: { title: string }) => (
  <section aria-labelledby="alone-title">
    <h1 id="alone-title">{title}</h1>
    <p class="notice">{MEMORY_ALONE} <button type="button" class="link" onClick={() => change({ page: "memory" })}>Memory</button></p>
  </section>
);

function Page({ id, meta }: { id: PageId; meta: Meta }) {
  if (isMemoryAlone(meta) && !OF_MEMORY.includes(id)) return <MemoryAlone title={PAGES.find((one) => one.id === id)!.title} />;
  switch (id) {
    case "overview":
      return <Overview meta={meta} />;
    case "issues":
      return <Issues meta={meta} />;
    case "flame":
      return <Flame />;
    case "timeline":
      return <Timeline />;
    case "memory":
      return <Memory />;
    case "layers":
      return <Layers meta={meta} />;
    case "compare":
      return <Compare meta={meta} />;
    case "source":
      return <Source />;
    case "run":
      return <Run meta={meta} />;
  }
}

readTheme();
effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
// For scripts and tests: the same answers that the page shows.
Object.assign(globalThis, { stackline: Object.assign(transport, { address }) });
followHistory();
render(<App />, document.getElementById("stackline")!);
// Once the first page is there: nobody opens an editor before.
setTimeout(loadSettings, 200);
