import { expect, test } from "vitest";
import { editorLink } from "./editor";

test("addresses of lines", () => {
  expect(editorLink("/a b/t#1.py", 3, "vscode://file{file}:{line}")).toBe("vscode://file/a%20b/t%231.py:3");
  expect(editorLink("t.py", 3, "idea://open?file={file}&line={line}", "/srv/")).toBe("idea://open?file=/srv/t.py&line=3");
  for (const script of [" javascript:alert({line})", "java\tscript:alert(1)", "data:text/html,x", "no address"]) {
    expect(editorLink("t.py", 3, script)).toBe("#");
  }
});
