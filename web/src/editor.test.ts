import { expect, test } from "vitest";
import { editorLink } from "./editor";

test("addresses of lines", () => {
  expect(editorLink("/a b/t.py", 3, "vscode://file{file}:{line}")).toBe("vscode://file/a%20b/t.py:3");
  expect(editorLink("t.py", 3, "idea://open?file={file}&line={line}")).toBe("idea://open?file=/t.py&line=3");
  expect(editorLink("t.py", 3, " javascript:alert({line})")).toBe("#");
});
