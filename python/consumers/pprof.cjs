// Decodes profiles with pprof-format, the package that profilers of Node.js read and write pprof with.
//
//   node pprof.cjs PPROF_FORMAT FILE
//
// PPROF_FORMAT is the folder of the npm package. Prints JSON: for each type of sample its unit, its total, and the self
// value of each function by its name.
'use strict';

const fs = require('node:fs');
const zlib = require('node:zlib');

const [folder, file] = process.argv.slice(2);
const { Profile } = require(folder);
const profile = Profile.decode(zlib.gunzipSync(fs.readFileSync(file)));
const text = (index) => profile.stringTable.strings[Number(index)];
const by = (rows) => new Map(rows.map((row) => [String(row.id), row]));
const [locations, functions] = [by(profile.location), by(profile.function)];
const found = profile.sampleType.map((type, at) => {
  const values = {};
  let total = 0;
  for (const sample of profile.sample) {
    const value = Number(sample.value[at]);
    // Of several functions at one place the first is the innermost.
    const line = sample.locationId.length > 0 ? locations.get(String(sample.locationId[0])).line[0] : undefined;
    const name = line === undefined ? '' : text(functions.get(String(line.functionId)).name);
    values[name] = (values[name] || 0) + value;
    total += value;
  }
  return { type: text(type.type), unit: text(type.unit), total, functions: values };
});
process.stdout.write(JSON.stringify(found) + '\n');
