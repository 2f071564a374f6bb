/** The commands of Stackline that the page names. */

import type { Meta } from "./generated/answers";

/** The command that serves a run: with what it is compared with, if anything. */
export const commandOf = ({ name, baseline }: Pick<Meta, "name" | "baseline">): string => `stackline view ${quoted(name)}${baseline === null ? "" : ` --baseline ${quoted(baseline)}`}`;

/** A path as a shell takes it. */
const quoted = (path: string): string => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
