/** Dialog with all keys. */

import { Dialog } from "./dialog";

const KEYS: ReadonlyArray<readonly [where: string, keys: ReadonlyArray<readonly [key: string, what: string]>]> = [
  ["Everywhere", [["1 … 9", "open a page"], ["Ctrl+K", "search all names"], ["/", "search the plot"], ["N, Shift+N", "next match of the search, previous match of the search"], ["O", "open the source of the selection in the editor"], ["Enter", "go to the details of the selection"], ["T", "show a table instead of the plot"], ["Esc", "clear the selection; press again to clear the marked range, then the zoom"], ["?", "show this list"]]],
  ["Flame graph", [["← ↑ → ↓", "select an adjacent frame; up selects the caller"], ["F, W", "zoom to the selected frame"], ["S", "zoom out to the caller"], ["A, D", "previous frame, next frame"], ["0", "show all"], ["I", "next view: top-down, bottom-up, flat"], ["U", "callers of the selected frame in all call paths"], ["G", "callees of the selected frame in all call paths"], ["C", "next color scheme"]]],
  ["Timeline", [["W, S", "zoom"], ["A, D", "move"], ["0", "show all"], ["← ↑ → ↓", "select an adjacent event (the first one, if none is selected); up selects the enclosing or launching event"], ["F", "zoom to the selected event"], ["M", "mark the time range of the selected event or, if none is selected, the visible time range"], ["J, K", "next and previous segment of the critical path, if shown"]]],
  ["Memory", [["W, S", "zoom"], ["A, D, ←, →", "move"], ["0", "show all"], ["F", "zoom to the lifetime of the selected object"], ["↑, ↓", "previous memory object, next memory object"]]],
];

export function Keys() {
  return (
    <Dialog title="Keys">
      <h2>Keys</h2>
      {/* What is too high for a small window can be scrolled by keyboard, too. */}
      <div class="columns" tabIndex={0} role="group" aria-label="Keys by page">
        {KEYS.map(([where, keys]) => (
          <section key={where}>
            <h3>{where}</h3>
            <dl class="pairs">
              {keys.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}
            </dl>
          </section>
        ))}
      </div>
      <p class="quiet">The keys of a plot work after you click the plot or focus it with Tab. Terms are defined in the glossary, docs/reference/glossary.md.</p>
    </Dialog>
  );
}
