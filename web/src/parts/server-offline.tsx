/** Banner while the server is offline: loaded data stays, and the page reconnects by itself. */

import { commandOf } from "../command";
import { transport } from "../state";
import type { Meta } from "../generated/answers";

export function ServerOffline({ meta }: { meta: Meta }) {
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
