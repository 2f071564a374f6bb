/** That the server has gone: what is there stays, and it is asked again by itself. */

import { transport } from "../state";
import type { Meta } from "../types";

/** The command that serves a run: with what it is compared with, if anything. */
export const commandOf = ({ name, baseline }: Pick<Meta, "name" | "baseline">): string => `stackline view ${quoted(name)}${baseline === null ? "" : ` --baseline ${quoted(baseline)}`}`;

/** A path as a shell takes it. */
const quoted = (path: string): string => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

export function Gone({ meta }: { meta: Meta }) {
  const { value } = transport.gone;
  if (value === "") return null;
  return (
    <p class="notice gone" aria-live="polite">
      {value === "silent" ? (
        <>
          <strong>The server has stopped</strong>, or cannot be reached: what was asked before is still here. It is asked again every two seconds.
          If it has ended, start it again, and open the address that it prints: <code>{commandOf(meta)}</code>{" "}
        </>
      ) : (
        <>
          <strong>Another server answers here</strong>, which does not know this page: open the address that <code>stackline view</code> printed last.{" "}
        </>
      )}
      <button type="button" onClick={transport.retry}>Try now</button>
    </p>
  );
}
