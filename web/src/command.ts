/** The commands of Stackline that the page names. */

import type { Meta } from "./generated/answers";

/** Command that serves a run, with its baseline if any. */
export const commandOf = ({ name, baseline }: Pick<Meta, "name" | "baseline">): string => `stackline view ${quoted(name)}${baseline === null ? "" : ` --baseline ${quoted(baseline)}`}`;

/** A path as a shell takes it. */
const quoted = (path: string): string => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
