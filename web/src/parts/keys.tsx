/** Dialog with all keys. */

import { Dialog } from "./dialog";

const KEYS: ReadonlyArray<readonly [where: string, keys: ReadonlyArray<readonly [key: string, what: string]>]> = [
  ["Everywhere", [["1 … 9", "open a page"], ["Ctrl+K", "search all names"], ["/", "search the plot"], ["N, Shift+N", "next match, previous match"], ["O", "open the selection in the editor"], ["Enter", "go to the details of the selection"], ["T", "show a table instead of the plot"], ["Esc", "clear one thing per press: the selection, then the marked range, then the zoom"], ["?", "show this list"]]],
  ["Flame graph", [["← ↑ → ↓", "move; up is the caller"], ["F, W", "zoom to the frame"], ["S", "zoom out to the caller"], ["A, D", "previous frame, next frame"], ["0", "show all"], ["I", "next view: top-down, bottom-up, flat"], ["U", "callers of the frame in all call paths"], ["G", "callees of the frame in all call paths"], ["C", "next color scheme"]]],
  ["Timeline", [["W, S", "zoom"], ["A, D", "move"], ["0", "show all"], ["← ↑ → ↓", "select another event, starting at the first box; up is the enclosing or launching event"], ["F", "zoom to the event"], ["M", "mark the event, or the visible time range"], ["J, K", "next and previous segment of the critical path, if shown"]]],
  ["Memory", [["W, S", "zoom"], ["A, D, ←, →", "move"], ["0", "show all"], ["F", "zoom to the lifetime of the object"], ["↑, ↓", "previous object, next object"]]],
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
      <p class="quiet">Keys of a plot work after it is clicked or focused with Tab. Terms are defined in the glossary, docs/reference/glossary.md.</p>
    </Dialog>
  );
}
