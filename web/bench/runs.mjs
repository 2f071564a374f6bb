/** The runs that budgets are measured on: generated ones, made once and kept. */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

export const NODES = 1_000_000;
/** Records of a trace of five million events: the others are arrows and names of lanes. */
export const RECORDS = 7_400_000;

/** Makes what is not there yet; gives names and paths. The folder needs some 3 GB of room while it is made, and keeps 300 MB. */
export function generated(folder, stackline, synth) {
  mkdirSync(folder, { recursive: true });
  const tree = once(join(folder, "tree-1m"), (path) => execFileSync(synth, ["tree", path, "--nodes", `${NODES}`]));
  const events = once(join(folder, "events-5m"), (path) => {
    const [demo, long] = [join(folder, "demo.json"), join(folder, "long.json")];
    execFileSync(synth, ["demo", demo]);
    execFileSync(synth, ["replicate", demo, long, "--events", `${RECORDS}`]);
    execFileSync(stackline, ["import", long, "-o", path], { stdio: "ignore" });
    rmSync(long);
  });
  return [{ name: "tree of 1 M nodes", path: tree }, { name: "5 M events", path: events }];
}

/** A path that is made under another name first: what was broken off is not taken for done. */
function once(path, make) {
  if (existsSync(path)) return path;
  const part = `${path}.part`;
  rmSync(part, { recursive: true, force: true });
  make(part);
  renameSync(part, path);
  return path;
}
