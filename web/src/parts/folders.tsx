/** Dialog that maps source directories of the recording to directories on this machine, for editor links. */

import { useState } from "preact/hooks";
import { absolute, folders, localPath, setFolders } from "../editor";
import { close, dialog, Dialog } from "./dialog";

/** The folder that is asked about. */
let missingFolder = "";

/** Opens the dialog for the folder of a file. */
export function chooseFolder(file: string): void {
  missingFolder = file.replace(/\/[^/]*$/, "");
  dialog.value = "folders";
}

/** Offers to say where the folder of a file is; with it, links to the editor work though the text is not here. */
export function SourceDirectoryHint({ file }: { file: string }) {
  const whole = absolute(file);
  const path = localPath(whole);
  return (
    <span class="elsewhere">
      {path !== file && <> Editor links open {path}.</>}{" "}
      <button type="button" onClick={() => chooseFolder(whole)}>Set source directory …</button>
    </span>
  );
}

export function Folders() {
  const known = folders.value.find(({ from }) => from === missingFolder);
  const [from, setFrom] = useState(missingFolder);
  const [to, setTo] = useState(known?.to ?? "");
  const others = folders.value.filter((one) => one !== known);
  return (
    <Dialog title="Source directory">
      <h2>Source directory</h2>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          setFolders(to.trim() === "" ? others : [...others, { from, to }]);
          close();
        }}
      >
        <p><label>Source directory at the time of recording <input size={40} data-field="folder-from" value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></label></p>
        <p><label>Directory on this machine <input size={40} data-field="folder-to" value={to} onInput={(event) => setTo(event.currentTarget.value)} /></label></p>
        <p class="quiet">Editor links of all runs in this browser open files in this directory. If the field is empty, links use the paths as recorded.</p>
        <p class="bar"><button type="submit">Save</button> <button type="button" onClick={close}>Cancel</button></p>
      </form>
      {others.length > 0 && (
        <ul class="events">
          {others.map((one) => (
            <li key={one.from}>{one.from} is at {one.to} <button type="button" class="link" onClick={() => setFolders(folders.value.filter((other) => other !== one))}>Remove</button></li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
