/** Button "?" of a picture: its tooltip names the main keys and mouse actions, and a click lists all of them. */

import { dialog } from "./dialog";

export const HintButton = ({ hint }: { hint: string }) => (
  <button type="button" title={`${hint} Press ? for all keys.`} aria-label="Keys and mouse" onClick={() => (dialog.value = "keys")}>?</button>
);
