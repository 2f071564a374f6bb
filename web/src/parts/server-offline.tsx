/** Banner while the server is offline: loaded data stays, and the page reconnects by itself. */

import { commandOf } from "../command";
import { transport } from "../state";
import type { Meta } from "../generated/answers";

export function ServerOffline({ meta }: { meta: Meta }) {
  const { value } = transport.offline;
  if (value === "") return null;
  return (
    <p class="notice offline" aria-live="polite">
      {value === "silent" ? (
        <>
          <strong>The server has stopped or cannot be reached.</strong> Loaded data stays on the page, which tries to reconnect every two seconds.
          If the server has ended, start it again and open the printed address: <code>{commandOf(meta)}</code>{" "}
        </>
      ) : (
        <>
          <strong>Another server uses this address and rejects this page.</strong> Open the last address that was printed by <code>stackline view</code>.{" "}
        </>
      )}
      <button type="button" onClick={transport.retry}>Try now</button>
    </p>
  );
}
