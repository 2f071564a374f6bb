/** Controls that need a server and are marked in a report. */

import { commandOf } from "../command";
import { run } from "../filter";
import { transport } from "../state";

/** Reason why a control does not work in a report; undefined with a server. */
export const absence = (): string | undefined => (transport.kind === "report" && run.value ? `This control does not work in a report file; to use it, open the run with ${commandOf(run.value)}` : undefined);

/** Attributes of a control that does not work in a report. */
export const marked = () => ({ disabled: absence() !== undefined, title: absence() });
