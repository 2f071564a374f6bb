/** A name that may be long: two lines of it, and all of it for whoever points at it. */

export const Name = ({ text, lines = 2 }: { text: string; lines?: number }) => (
  <span class="clamp" style={lines === 2 ? undefined : { "-webkit-line-clamp": `${lines}` }} title={text}>{text}</span>
);
