// Our CPU engine, or our Vulkan engine, beside llama.cpp's (npm's node-llama-cpp), on one file in one run, taking turns.
//   tests/bench/peers [--json] [--build DIR] [--model FILE | --shape 1.1b --type Q4_0] [--threads 1,2]
//                     [--prompts 256,512] [--generate 64] [--repeat 3] [--device NAME]
// --device: both by Vulkan, on the device of that name (a part of it); llama.cpp is given the first one
// (GGML_VK_VISIBLE_DEVICES=0, unless the environment says otherwise).
// Prints medians of prefill and decode in tokens per second, decode's share of the memory bandwidth (the best
// of the measurements between the runs), and the ratios ours / llama.cpp's. Each repetition has a random prompt of its own, so nothing is cached; the
// engines alternate, so what else the machine does falls on both.
// DIR (default $FLYBALL_BINARY_DIR, else build/release) holds flyball and engine_bench, and node_modules unless
// FLYBALL_NODE_MODULES says where. Exit 77 where node-llama-cpp is absent.
import {spawn, spawnSync} from 'node:child_process';
import {existsSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {createInterface} from 'node:readline';
import {parseArgs} from 'node:util';
import {startLlama} from '../oracle/llama.mjs';

const {values: options} = parseArgs({options: {
  json: {type: 'boolean', default: false},
  build: {type: 'string', default: process.env.FLYBALL_BINARY_DIR ?? resolve(import.meta.dirname, '../../build/release')},
  model: {type: 'string'},
  shape: {type: 'string', default: '1.1b'},
  type: {type: 'string', default: 'Q4_0'},
  threads: {type: 'string', default: '1,2'},
  prompts: {type: 'string', default: '256,512'},
  generate: {type: 'string', default: '64'},
  repeat: {type: 'string', default: '3'},
  device: {type: 'string'},
}});
process.env.FLYBALL_BINARY_DIR ??= options.build;
const numbers = (text) => text.split(',').map(Number);
const threadCounts = numbers(options.threads), promptLengths = numbers(options.prompts);
const generate = Number(options.generate), repeat = Number(options.repeat);
const kDecodePrompt = 16;  // short: decode is measured, not its prefill
const context = Math.max(...promptLengths, kDecodePrompt + generate) + 16;
const say = (text) => process.stderr.write(`${text}\n`);

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const round = (x, digits = 2) => Number(x.toFixed(digits));

// {prefill(tokens), decode(tokens, n)}: tokens per second of each.
async function startOurs(model, threads) {
  const child = spawn(join(options.build, 'tests/bench/engine_bench'), [model, String(threads), String(context), ...(options.device ? [options.device] : [])],
    {stdio: ['pipe', 'pipe', 'inherit']});
  const lines = createInterface({input: child.stdout})[Symbol.asyncIterator]();
  const next = async () => {
    const {value, done} = await lines.next();
    if (done) throw new Error('engine_bench ended');
    return JSON.parse(value);
  };
  const about = await next();
  const send = (line) => {
    child.stdin.write(`${JSON.stringify(line)}\n`);
    return next();
  };
  const ask = (tokens, n) => send({tokens, generate: n});
  return {
    about,
    async prefill(tokens) {
      const answer = await ask(tokens, 1);
      return answer.prompt_tokens / answer.prefill_s;
    },
    async decode(tokens, n) {
      const answer = await ask(tokens, n);
      return (answer.tokens - 1) / answer.decode_s;
    },
    async bandwidth() { return (await send({probe: true})).bandwidth_gbps; },
    async stop() { child.stdin.end(); },
  };
}

async function startTheirs(llama, path, threads) {
  const model = await llama.loadModel({modelPath: path, gpuLayers: options.device ? 'max' : 0});
  const ctx = await model.createContext({contextSize: context, batchSize: 512, threads: {ideal: threads, min: threads}});
  const sequence = ctx.getSequence();
  // The prompt in one call, the next token's logits with it; then one token a call.
  const wanted = {generateNext: {logits: {filter: {tokens: [], includeTop: 1}}}};
  const step = async (tokens) => {
    const results = await sequence.controlledEvaluate([...tokens.slice(0, -1), [tokens.at(-1), wanted]]);
    return results.at(-1).next.logits.keys().next().value;
  };
  const seconds = async (work) => {
    const start = performance.now();
    await work();
    return (performance.now() - start) / 1000;
  };
  return {
    async prefill(tokens) {
      await sequence.clearHistory();
      return tokens.length / await seconds(() => step(tokens));
    },
    async decode(tokens, n) {
      await sequence.clearHistory();
      let token = await step(tokens);
      return (n - 1) / await seconds(async () => {
        for (let i = 1; i < n; ++i) token = await step([token]);
      });
    },
    vocabulary: model.fileInfo.metadata.tokenizer.ggml.tokens.length,
    async stop() {
      await ctx.dispose();
      await model.dispose();
    },
  };
}

function modelFile() {
  if (options.model) return options.model;
  const path = join(options.build, `bench-${options.shape.replace(/[^\w.]/g, '_')}-${options.type}.gguf`);
  if (!existsSync(path)) {
    say(`writing ${path}`);
    const made = spawnSync(process.env.FLYBALL ?? join(options.build, 'flyball'),
      ['make-model', '--quiet', '--out', path, '--shape', options.shape, '--type', options.type],
      {stdio: ['ignore', 'inherit', 'inherit']});
    if (made.status !== 0) process.exit(1);
  }
  return path;
}

if (options.device) process.env.GGML_VK_VISIBLE_DEVICES ??= '0';
const llama = await startLlama({maxThreads: Math.max(...threadCounts), ...(options.device && {gpu: 'vulkan'})});
const model = modelFile();
const report = {model, repeat, generate, runs: []};
for (const threads of threadCounts) {
  const ours = await startOurs(model, threads);
  const theirs = await startTheirs(llama, model, threads);
  const tokens = (n) => Array.from({length: n}, () => Math.floor(Math.random() * theirs.vocabulary));
  const bandwidths = [await ours.bandwidth()];
  const run = {threads, isa: ours.about.isa, bandwidth_gbps: 0, prefill: {}};
  // {ours, llama_cpp, ratio} of medians; both warm, and each first as often as second.
  const duel = async (name, one) => {
    // What a first prompt compiles counts for neither.
    await one(ours, true);
    await one(theirs, true);
    const rates = [[], []];
    for (let i = 0; i < repeat; ++i) {
      for (const side of i % 2 ? [1, 0] : [0, 1]) rates[side].push(await one([ours, theirs][side], false));
      say(`${threads} threads, ${name}: ours ${rates[0].at(-1).toFixed(1)}, llama.cpp ${rates[1].at(-1).toFixed(1)} tokens/s`);
    }
    bandwidths.push(await ours.bandwidth());
    return {ours: round(median(rates[0])), llama_cpp: round(median(rates[1])), ratio: round(median(rates[0]) / median(rates[1]), 3)};
  };
  for (const n of promptLengths) {
    run.prefill[n] = await duel(`prefill ${n}`, (engine, warm) => engine.prefill(tokens(warm ? Math.min(32, n) : n)));
  }
  run.decode = await duel(`decode ${generate}`, (engine, warm) => engine.decode(tokens(kDecodePrompt), warm ? 4 : generate));
  run.bandwidth_gbps = round(Math.max(...bandwidths));
  const share = (rate) => round(rate * ours.about.weight_bytes_per_token / 1e9 / run.bandwidth_gbps, 3);
  run.decode_bandwidth_share = {ours: share(run.decode.ours), llama_cpp: share(run.decode.llama_cpp)};
  report.runs.push(run);
  await ours.stop();
  await theirs.stop();
}

if (options.json) {
  console.log(JSON.stringify(report, null, 2));
} else {
  const row = (...cells) => console.log(cells.map((cell, i) => i ? String(cell).padStart(11) : cell.padEnd(24)).join(''));
  for (const run of report.runs) {
    console.log(`\n${run.threads} thread(s), ${run.isa}, memory read at ${run.bandwidth_gbps} GB/s`);
    row('tokens/s', 'ours', 'llama.cpp', 'ratio');
    for (const [n, rates] of Object.entries(run.prefill)) row(`prefill ${n}`, rates.ours, rates.llama_cpp, rates.ratio);
    row(`decode ${generate}`, run.decode.ours, run.decode.llama_cpp, run.decode.ratio);
    row('decode, of bandwidth', run.decode_bandwidth_share.ours, run.decode_bandwidth_share.llama_cpp);
  }
}
process.exit(0);
