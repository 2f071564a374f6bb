/** Controls that need a server and are marked in a report. */

import { commandOf } from "../command";
import { run } from "../filter";
import { transport } from "../state";

/** Why it cannot be answered here; nothing where a server answers. */
export const absence = (): string | undefined => (transport.kind === "report" && run.value ? `Not in this report; available with ${commandOf(run.value)}` : undefined);

/** What such a button has beside its own. */
export const marked = () => ({ disabled: absence() !== undefined, title: absence() });
