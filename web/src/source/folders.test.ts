import { expect, test } from "vitest";
import { type Folder, foldersOf } from "./folders";

/** A folder as data: its cost, folders and files in their order. */
const words = (folder: Folder): unknown => [folder.name, folder.exclusive, folder.folders.map(words), folder.files.map(({ file }) => file)];

test("files are listed in their folders with summed costs, costliest first", () => {
  const files = [
    { file: "torch/nn/linear.py", exclusive: [5, 1] },
    { file: "torch/optim/adam.py", exclusive: [7, 0] },
    { file: "train.py", exclusive: [1, 1] },
    { file: "lib/python/site/numpy/core.py", exclusive: [30, 0] },
    { file: "lib/python/site/numpy/fft.py", exclusive: [40, 0] },
  ];
  expect(words(foldersOf(files))).toEqual(["", [83, 2], [
    ["lib/python/site/numpy", [70, 0], [], ["lib/python/site/numpy/fft.py", "lib/python/site/numpy/core.py"]],
    ["torch", [12, 1], [["optim", [7, 0], [], ["torch/optim/adam.py"]], ["nn", [5, 1], [], ["torch/nn/linear.py"]]], []],
  ], ["train.py"]]);
  expect(foldersOf([]).folders).toEqual([]);
  // An absolute path begins with a folder of no name.
  expect(foldersOf([{ file: "/srv/a/b.py", exclusive: [1] }]).folders[0]!.name).toBe("/srv/a");
});
