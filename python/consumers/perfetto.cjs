// Perfetto's own trace processor, as its UI runs it: opens a trace and prints the answers to queries.
//
//   node perfetto.cjs FOLDER TRACE QUERY…
//
// FOLDER holds engine_bundle.js and the WebAssembly module of a release of the UI. Prints a JSON array with one table of
// rows for each query. The engine expects a browser's worker: it runs in a context that has what it asks for of one.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

// Messages of perfetto/protos/perfetto/trace_processor/trace_processor.proto.
const REQUEST = 2, RESPONSE = 3, FATAL_ERROR = 5, APPEND = 101, QUERY = 103, APPENDED = 201, RESULT = 203;
const APPEND_TRACE_DATA = 1, FINALIZE_TRACE_DATA = 2, QUERY_STREAMING = 3;
const CHUNK = 4 << 20;

function varint(value) {
  const bytes = [];
  for (value = BigInt(value); value > 0x7fn; value >>= 7n) bytes.push(Number(value & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(value)]);
}

function field(number, value) {
  if (Buffer.isBuffer(value)) return Buffer.concat([varint(number << 3 | 2), varint(value.length), value]);
  return Buffer.concat([varint(number << 3), varint(value)]);
}

function* numbers(bytes) {
  for (let at = 0; at < bytes.length; at++) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n, at++) {
      value |= BigInt(bytes[at] & 0x7f) << shift;
      if (bytes[at] < 0x80) break;
    }
    yield [value, at + 1];
  }
}

// The fields of a message: number and value, which is a BigInt or bytes.
function* fields(bytes) {
  let rest = Buffer.from(bytes);
  const number = () => {
    const [value, length] = numbers(rest).next().value;
    rest = rest.subarray(length);
    return value;
  };
  while (rest.length > 0) {
    const tag = Number(number());
    let value;
    if ((tag & 7) === 0) value = number();
    else {
      const length = (tag & 7) === 2 ? Number(number()) : { 1: 8, 5: 4 }[tag & 7];
      value = rest.subarray(0, length);
      rest = rest.subarray(length);
    }
    yield [tag >> 3, value];
  }
}

// Adds the rows of one part of an answer.
function readResult(bytes, answer) {
  for (const [number, value] of fields(bytes)) {
    if (number === 1) answer.columns.push(value.toString());
    if (number === 2 && value.length > 0) throw new Error(value.toString());
    if (number === 3) readBatch(value, answer);
  }
}

function readBatch(bytes, answer) {
  let cells = [], integers = [], floats = Buffer.alloc(0), texts = [];
  for (const [number, value] of fields(bytes)) {
    if (number === 1) cells = [...value];
    if (number === 2) integers = [...numbers(value)].map(([value]) => Number(BigInt.asIntN(64, value)));
    if (number === 3) floats = value;
    if (number === 5) texts = value.toString().split('\0');
    if (number === 6) answer.done = value !== 0n;
  }
  let at = 0;
  for (const cell of cells) {
    if (cell === 1) answer.cells.push(null);
    else if (cell === 2) answer.cells.push(integers.shift());
    else if (cell === 3) answer.cells.push(floats.readDoubleLE(8 * at++));
    else if (cell === 4) answer.cells.push(texts.shift());
    else throw new Error(`a cell of kind ${cell}`);
  }
}

// The engine, and what sends it a request and gives the fields of the answers to it.
async function start(folder) {
  const context = vm.createContext({
    console: { log() {}, warn() {}, error: console.error },
    WorkerGlobalScope: function () {},
    location: { href: 'file:///engine_bundle.js' },
    performance, setTimeout, clearTimeout, TextDecoder, TextEncoder, URL,
  });
  context.self = context;
  context.importScripts = () => {};
  vm.runInContext('WebAssembly.instantiateStreaming = undefined', context);
  const bytes = vm.runInContext('(bytes) => Uint8Array.from(bytes)', context);
  // The module lies beside the script, which asks for it as a worker may: at once.
  context.XMLHttpRequest = class {
    open(_, name) {
      this.name = path.basename(String(name));
    }
    send() {
      this.status = 200;
      this.response = bytes(fs.readFileSync(path.join(folder, this.name))).buffer;
      if (this.onload) this.onload();
    }
  };
  vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), context);
  let got = () => {};
  const port = { postMessage: (message) => got(message) };
  context.onmessage({ data: port });
  let sequence = 0;
  return (request, done) => new Promise((resolve, reject) => {
    got = (message) => {
      try {
        for (const [, reply] of fields(message)) {
          for (const [number, value] of fields(reply)) {
            if (number === FATAL_ERROR) throw new Error(value.toString());
            if (done(number, value)) resolve();
          }
        }
      } catch (error) {
        reject(error);
      }
    };
    const message = field(1, Buffer.concat([field(1, ++sequence), ...request]));
    Promise.resolve(port.onmessage({ data: bytes(message) })).catch(reject);
  });
}

async function main([folder, file, ...queries]) {
  const send = await start(folder);
  const trace = fs.readFileSync(file);
  for (let at = 0; at < trace.length; at += CHUNK) {
    const part = [field(REQUEST, APPEND_TRACE_DATA), field(APPEND, trace.subarray(at, at + CHUNK))];
    await send(part, (number, value) => {
      if (number !== APPENDED) return false;
      for (const [inner, error] of fields(value)) if (inner === 2) throw new Error(error.toString());
      return true;
    });
  }
  await send([field(REQUEST, FINALIZE_TRACE_DATA)], (number, value) => number === RESPONSE && value === 2n);
  const answers = [];
  for (const query of queries) {
    const answer = { columns: [], cells: [], done: false };
    await send([field(REQUEST, QUERY_STREAMING), field(QUERY, field(1, Buffer.from(query)))], (number, value) => {
      if (number === RESULT) readResult(value, answer);
      return answer.done;
    });
    const rows = [];
    while (answer.cells.length > 0) rows.push(answer.cells.splice(0, answer.columns.length));
    answers.push(rows);
  }
  process.stdout.write(JSON.stringify(answers) + '\n');
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(String(error && error.message || error));
  process.exit(1);
});
