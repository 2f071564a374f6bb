/** Dialog with the glossary of the documentation, which is built into the page. */

import text from "../../../docs/reference/glossary.md?raw";
import { glossarySections } from "../glossary";
import { Dialog } from "./dialog";
import { Sentence } from "./name";

export function Glossary() {
  return (
    <Dialog title="Glossary">
      <h2>Glossary</h2>
      {/* Focusable, so that keys scroll the list. */}
      <div tabIndex={0} role="group" aria-label="Terms by subject">
        {glossarySections(text).map(({ title, terms }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl class="pairs">
              {terms.map(([term, definition]) => <div key={term}><dt><Sentence text={term} isName /></dt><dd><Sentence text={definition} isName /></dd></div>)}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
