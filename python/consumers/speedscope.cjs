// speedscope's own importer, as its release has it: opens files and prints what it found in them.
//
//   node speedscope.cjs SPEEDSCOPE FILE…
//
// SPEEDSCOPE is the folder of the npm package. Prints a JSON array: for each file the profiles that it holds, each with
// its unit, its total weight, and the self weight of each function by its name. The release is one script for browsers;
// it is run up to where it would draw something.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

function importer(folder) {
  const release = path.join(folder, 'dist', 'release');
  const script = fs.readdirSync(release).find((name) => /^speedscope-.*\.js$/.test(name));
  const code = fs.readFileSync(path.join(release, script), 'utf8');
  const named = /async function ([\w$]+)\(\w+,\w+\)\{return\(await [\w$]+\)\.importProfilesFromArrayBuffer/.exec(code);
  const draws = code.indexOf('console.log(`speedscope v');
  if (named === null || draws < 0) throw new Error('this release of speedscope is put together in another way');
  // What is asked of a page before something is drawn does not matter.
  const nothing = new Proxy(function () {}, {
    get: (_, key) => key === Symbol.toPrimitive ? () => '' : nothing,
    apply: () => nothing,
    construct: () => nothing,
    set: () => true,
  });
  const context = vm.createContext({
    console: { log() {}, warn() {}, error: console.error },
    document: nothing, navigator: nothing, location: { hash: '', protocol: 'file:' }, matchMedia: () => nothing,
    requestAnimationFrame() {}, addEventListener() {}, localStorage: nothing, HTMLElement: function () {},
    performance, setTimeout, clearTimeout, TextDecoder, TextEncoder, URL, Blob, FileReader: function () {},
  });
  context.window = context.self = context;
  vm.runInContext(`${code.slice(0, draws)};globalThis.opened=${named[1]};return;${code.slice(draws)}`, context);
  const bytes = vm.runInContext('(bytes) => Uint8Array.from(bytes).buffer', context);
  return (file) => context.opened(path.basename(file), bytes(fs.readFileSync(file)));
}

async function main([folder, ...files]) {
  const open = importer(folder);
  const found = [];
  for (const file of files) {
    const group = await open(file);
    if (!group) throw new Error(`speedscope does not know what ${path.basename(file)} is`);
    found.push(group.profiles.map((profile) => {
      const functions = {};
      profile.forEachFrame((frame) => {
        functions[frame.name] = (functions[frame.name] || 0) + frame.getSelfWeight();
      });
      return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalWeight(), functions };
    }));
  }
  process.stdout.write(JSON.stringify(found) + '\n');
}

main(process.argv.slice(2)).catch((error) => {
  console.error(String(error && error.message || error));
  process.exit(1);
});
