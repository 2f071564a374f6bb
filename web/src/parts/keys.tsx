/** Dialog with all keys and mouse actions; those of the open page come first. */

import { page, type PageId } from "../state";
import { dialog, Dialog } from "./dialog";

interface KeysOfPage {
  /** The page; none for the keys of all pages. */
  readonly id?: PageId;
  readonly title: string;
  readonly actions: ReadonlyArray<readonly [input: string, action: string]>;
}

const KEYS: readonly KeysOfPage[] = [
  { title: "Everywhere", actions: [["1 … 9", "open a page"], ["Ctrl+K", "search all names"], ["/", "search the plot"], ["N, Shift+N", "next match of the search, previous match of the search"], ["O", "open the source of the selection in the editor"], ["Enter", "go to the details of the selection"], ["T", "show a table instead of the plot"], ["Esc", "clear the selection; press again to clear the marked range, then the zoom"], ["?", "show this list"]] },
  { id: "flame", title: "Flame graph", actions: [["← ↑ → ↓", "select an adjacent frame; up selects the caller"], ["F, W", "zoom to the selected frame"], ["S", "zoom out to the caller"], ["A, D", "previous frame, next frame"], ["0", "show all"], ["I", "next view: top-down, bottom-up, flat"], ["U", "callers of the selected frame in all call paths"], ["G", "callees of the selected frame in all call paths"], ["C", "next color scheme"], ["Click", "select a frame; click again to zoom to it"]] },
  { id: "timeline", title: "Timeline", actions: [["W, S", "zoom"], ["A, D", "move"], ["0", "show all"], ["← ↑ → ↓", "select an adjacent event (the first one, if none is selected); up selects the enclosing or launching event"], ["F", "zoom to the selected event"], ["M", "mark the time range of the selected event or, if none is selected, the visible time range"], ["J, K", "next and previous segment of the critical path, if shown"], ["Click", "select an event; a click on a step marks its time range, a click on the name of a lane shows all or few of its levels"], ["Drag", "mark a time range"], ["Ctrl+wheel", "zoom at the pointer"]] },
  { id: "memory", title: "Memory", actions: [["W, S", "zoom"], ["A, D, ←, →", "move"], ["0", "show all"], ["F", "zoom to the lifetime of the selected object"], ["↑, ↓", "previous memory object, next memory object"], ["Click", "select an object or a call, or zoom to a box of several calls; a click on a peak of the curve lists its live objects"], ["Drag", "zoom to a range of calls"], ["Ctrl+wheel", "zoom at the pointer"]] },
  { id: "compare", title: "Compare: both timelines", actions: [["W, S", "zoom"], ["A, D, ←, →", "move"], ["0", "show all"], ["Click", "show an event; a click on the name of a lane shows all or few of its levels"], ["Ctrl+wheel", "zoom at the pointer"]] },
];

export function Keys() {
  const isOfPage = ({ id }: KeysOfPage) => Number(id === page.value);
  return (
    <Dialog title="Keys and mouse">
      <h2>Keys and mouse</h2>
      {/* What is too high for a small window can be scrolled by keyboard, too. */}
      <div class="columns" tabIndex={0} role="group" aria-label="Keys by page">
        {KEYS.toSorted((a, b) => isOfPage(b) - isOfPage(a)).map(({ title, actions }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl class="pairs">
              {actions.map(([input, action]) => <div key={input}><dt><kbd>{input}</kbd></dt><dd>{action}</dd></div>)}
            </dl>
          </section>
        ))}
      </div>
      <p class="quiet">
        The keys of a plot work after you click the plot or focus it with Tab.{" "}
        Terms are defined in the <button type="button" class="link" onClick={() => (dialog.value = "glossary")}>glossary</button>.
      </p>
    </Dialog>
  );
}
