/** Long names, and sentences from the server. */

/** More of a name nobody reads; a trace may have names of a million letters. */
const LONGEST = 2000;

export const cut = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

/** A name that may be long: so many lines of it, and all of it for whoever points at it. */
export const Name = ({ text, lines = 2 }: { text: string; lines?: number }) => (
  <span class="clamp" style={lines === 2 ? undefined : { "-webkit-line-clamp": `${lines}` }} title={cut(text)}>{text === "" ? <i class="quiet">no name</i> : cut(text)}</span>
);

/** A sentence that begins with a large letter, if not with a name, and whose commands stand between backquotes. */
export const Sentence = ({ text, isName = false }: { text: string; isName?: boolean }) => (
  <>{(isName ? text : text.replace(/^[a-z]/, (first) => first.toUpperCase())).split("`").map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>
);
