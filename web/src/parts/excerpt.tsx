/** Source excerpt with a marked line. */

import { useAnswer } from "../answers";
import { highlighted } from "../source/highlight";
import { change } from "../state";
import type { Excerpt as Lines } from "../generated/answers";
import { EditorLink } from "./editor-link";
import { SourceDirectoryHint } from "./folders";

/** Extensions of source files that the server serves. */
const SOURCE = /\.(py|pyx|pxd|pyi|c|cc|cpp|cxx|h|hpp|cu|cuh|hip|rs)$/;

/** Source around a line if available, with its location in any case. Native source files are not served. */
export function Around({ file, line, isNative = false }: { file: string; line: number; isNative?: boolean }) {
  const query = useAnswer(!isNative && SOURCE.test(file) ? "excerpt" : undefined, { file, line });
  // The same link before and after the lines are there: one that is being clicked is not replaced.
  return <Excerpt excerpt={query.state === "ok" ? query.answer.document : { file, line, missing: false }} />;
}

function Caption({ file, line }: { file: string; line: number }) {
  return (
    <figcaption>
      <button type="button" class="link" onClick={() => change({ page: "source", file, line: `${line}` })}>{file}:{line}</button>{" "}
      <EditorLink file={file} line={line} />
    </figcaption>
  );
}

/** Notice that a file changed after the recording. */
export function Changed({ changed }: { changed: boolean | null | undefined }) {
  if (!changed) return null;
  return <p class="notice">This source file was changed after recording, so line numbers may no longer match.</p>;
}

export function Excerpt({ excerpt }: { excerpt: Lines }) {
  const { file, line, first = 1, lines, missing, changed } = excerpt;
  return (
    <figure class="excerpt">
      <Caption file={file} line={line} />
      <Changed changed={changed} />
      {missing && <p class="notice">Source not available: {file} is outside the directories that Stackline may read (--source-root DIR adds one), or shorter than at recording time.<SourceDirectoryHint file={file} /></p>}
      {!missing && lines && (
        <pre tabIndex={0} role="region" aria-label={`Source of ${file}, line ${line}`}>
          {highlighted(lines.join("\n"), file).map((parts, at) => (
            <div key={at} class={first + at === line ? "line hot" : "line"}>
              <span class="no">{first + at}</span>
              <code>{parts}</code>
            </div>
          ))}
        </pre>
      )}
    </figure>
  );
}
