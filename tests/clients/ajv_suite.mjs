// The schemas of tests/backends/grammar/schemas by the judgement of ajv: valid documents validate, invalid ones do
// not, and documents of random walks along masks validate. A case that ajv misjudges says why in "ajv_errs", and ajv
// has to disagree with it. Exit 77 where ajv or ajv-formats is not installed.
//   ajv_suite.mjs MASK_WALKS  the program that walks
//   FLYBALL_NODE_MODULES      folder with the packages (or <FLYBALL_BINARY_DIR>/node_modules)
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const build = process.env.FLYBALL_BINARY_DIR;
const places = [process.env.FLYBALL_NODE_MODULES, build && join(build, 'node_modules')];
const modules = places.find((place) => place && ['ajv', 'ajv-formats'].every((name) => existsSync(join(place, name))));
if (!modules) {
  console.log('SKIPPED: the npm packages ajv and ajv-formats are not installed (FLYBALL_NODE_MODULES)');
  process.exit(77);
}
const load = createRequire(join(modules, 'ajv', 'package.json'));
const { default: Ajv2020 } = load('ajv/dist/2020');
const { default: addFormats } = load('ajv-formats');

const kWalks = 12;  // for each schema and seed
const kSeeds = [1, 2];
const kFewest = 650;  // schemas

const folder = fileURLToPath(new URL('../backends/grammar/schemas', import.meta.url));
// ajv divides doubles for multipleOf, and the quotient of a multiple may be off an integer: 121120123.82 / 0.01 is off
// by 2e-6. A quotient within 1e-3 counts as an integer.
const options = { strict: false, logger: false, multipleOfPrecision: 3 };
const meta = new Ajv2020(options);

// A validator of its own for each schema, because schemas share $id.
function compile(schema) {
  assert(meta.validateSchema(schema), meta.errorsText());
  const ajv = new Ajv2020({ ...options, validateSchema: false });
  addFormats(ajv);
  return ajv.compile(schema);
}

let documents = 0;
let walked = 0;
// Yields a text for each disagreement between ajv and a case.
function* disagreements({ schema, valid, invalid }, walks) {
  let validate;
  try {
    validate = compile(schema);
  } catch (error) {
    yield `ajv refuses the schema: ${error.message}`;
    return;
  }
  const judge = (document) => {
    documents += 1;
    try {
      return validate(document) ? 'valid' : `invalid: ${JSON.stringify(validate.errors)}`;
    } catch (error) {
      return error.message;
    }
  };
  for (const document of valid) {
    const verdict = judge(document);
    if (verdict !== 'valid') yield `a valid document is ${verdict}\n      ${JSON.stringify(document)}`;
  }
  for (const document of invalid) {
    const verdict = judge(document);
    if (!verdict.startsWith('invalid')) yield `an invalid document is ${verdict}\n      ${JSON.stringify(document)}`;
  }
  for (const text of walks) {
    walked += 1;
    const verdict = judge(JSON.parse(text));
    if (verdict !== 'valid') yield `a walk's document is ${verdict}\n      ${text}`;
  }
}

let failures = 0;
let schemas = 0;
let excepted = 0;
function fail(each, what) {
  failures += 1;
  console.log(`FAIL  ${what}\n      schema ${JSON.stringify(each.schema)}`);
}

for (const file of readdirSync(folder).sort()) {
  const path = join(folder, file);
  const cases = JSON.parse(readFileSync(path, 'utf8'));
  const runs = kSeeds.map((seed) => {
    const out = execFileSync(process.argv[2], [path, kWalks, seed], { encoding: 'utf8', maxBuffer: 1 << 28 });
    return out.trimEnd().split('\n').map((line) => JSON.parse(line));
  });
  for (const lines of runs) assert.equal(lines.length, cases.length, `${file}: a line of mask_walks for each schema`);
  for (const [i, each] of cases.entries()) {
    schemas += 1;
    const walks = runs.flatMap((lines) => lines[i].documents ?? []);
    for (const lines of runs) if (lines[i].error) fail(each, `mask_walks: ${lines[i].error}`);
    if (walks.length === 0) fail(each, 'no walk ended');
    const found = [...disagreements(each, walks)];
    if (each.ajv_errs) {
      excepted += 1;
      if (found.length === 0) fail(each, `ajv agrees, but the case says that it errs: ${each.ajv_errs}`);
    } else {
      for (const one of found) fail(each, one);
    }
  }
}
const counts = `${documents - walked} documents of the cases and ${walked} of walks`;
console.log(`${schemas} schemas, ${excepted} of them exceptions: ajv judged ${counts}; ${failures} failures`);
assert(schemas >= kFewest, `${schemas} schemas; ${kFewest} are wanted`);
process.exit(failures === 0 ? 0 : 1);
