import { expect, test } from "vitest";
import { editorLink, localPath } from "./editor";

test("addresses of lines", () => {
  expect(editorLink("/a b/t#1.py", 3, "vscode://file{file}:{line}")).toBe("vscode://file/a%20b/t%231.py:3");
  expect(editorLink("t.py", 3, "idea://open?file={file}&line={line}", "/srv/")).toBe("idea://open?file=/srv/t.py&line=3");
  for (const script of [" javascript:alert({line})", "java\tscript:alert(1)", "data:text/html,x", "no address"]) {
    expect(editorLink("t.py", 3, script)).toBe("#");
  }
});

test("files of folders that lie elsewhere", () => {
  const known = [{ from: "/job/code/", to: "/mine/code" }, { from: "/job", to: "/mnt" }, { from: "/job/code/lib", to: "/lib/" }];
  const paths = ["/job/code/train.py", "/job/data.py", "/job/code/lib/a.py", "/job/codes/x.py", "/other/train.py", "train.py"].map((file) => localPath(file, known));
  expect(paths).toEqual(["/mine/code/train.py", "/mnt/data.py", "/lib/a.py", "/mnt/codes/x.py", "/other/train.py", "train.py"]);
});
