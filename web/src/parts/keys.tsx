/** All keys. */

import { Dialog } from "./dialog";

const KEYS: ReadonlyArray<readonly [where: string, keys: ReadonlyArray<readonly [key: string, what: string]>]> = [
  ["Everywhere", [["1 … 9", "the pages"], ["Ctrl+K", "search in all names"], ["/", "search in the picture"], ["N, Shift+N", "the next one that is found, the one before"], ["O", "opens what is selected in the editor"], ["Enter", "to the details of what is selected"], ["T", "a table in place of the picture"], ["Esc", "takes back the selection, then the mark, then the zoom"], ["?", "this list"]]],
  ["Flame graph", [["← ↑ → ↓", "move; up is the caller"], ["F, W", "zoom to the frame"], ["S", "zoom out to its caller"], ["A, D", "the frame before, the next one"], ["0", "show all"], ["I", "the next view: top-down, bottom-up, flat"], ["U", "callers of the frame, wherever it stands"], ["G", "what the frame calls, wherever it stands"], ["C", "colour by something else"]]],
  ["Timeline", [["W, S", "zoom"], ["A, D", "move"], ["0", "show all"], ["← ↑ → ↓", "from the event that is selected, or the first box, to others; up is what is around it, or launched it"], ["F", "zoom to the event"], ["M", "mark the event, or what is seen"], ["J, K", "along the critical path, when it is shown, segment by segment"]]],
  ["Memory", [["W, S", "zoom"], ["A, D, ←, →", "move"], ["0", "show all"], ["F", "zoom to the life of the object"], ["↑, ↓", "the object before, the next one"]]],
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
      <p class="quiet">Keys of pictures work once the picture is clicked or reached with Tab.</p>
    </Dialog>
  );
}
