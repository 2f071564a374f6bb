/** Long names, and sentences from the server. */

/** Maximum length of a displayed name; a trace may have names of a million letters. */
const LONGEST = 2000;

export const cut = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

/** A long name, limited to some lines, with the full name as tooltip. */
export const Name = ({ text, lines = 2 }: { text: string; lines?: number }) => (
  <span class="clamp" style={lines === 2 ? undefined : { "-webkit-line-clamp": `${lines}` }} title={cut(text)}>{text === "" ? <i class="quiet">no name</i> : cut(text)}</span>
);

/** A sentence with a capital first letter, except for a name, and with commands between backquotes as code. */
export const Sentence = ({ text, isName = false }: { text: string; isName?: boolean }) => (
  <>{(isName ? text : text.replace(/^[a-z]/, (first) => first.toUpperCase())).split("`").map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>
);
