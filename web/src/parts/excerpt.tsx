/** Lines of source, with the one that matters marked. */

import { editorLink } from "../editor";
import { change } from "../state";
import type { FindingDetail } from "../types";
import { highlighted } from "../source/highlight";

export function Excerpt({ excerpt }: { excerpt: NonNullable<FindingDetail["excerpt"]> }) {
  const { file, line, first = 1, lines, missing } = excerpt;
  return (
    <figure class="excerpt">
      <figcaption>
        <button type="button" class="link" onClick={() => change({ page: "source", file, line: `${line}` })}>{file}:{line}</button>{" "}
        <a href={editorLink(file, line)}>Open in editor</a>
      </figcaption>
      {missing || !lines ? (
        <p class="notice">The source is not here, or is shorter than when the run was recorded: {file}</p>
      ) : (
        <pre>
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
