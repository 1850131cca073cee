// llama.cpp through npm's node-llama-cpp, on the processor alone: found and started.
// FLYBALL_NODE_MODULES: where the package is (default <build>/node_modules). Exit 77, SKIPPED, where it is absent.
import {existsSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

export async function startLlama(options = {}) {
  const modules = process.env.FLYBALL_NODE_MODULES ?? join(process.env.FLYBALL_BINARY_DIR ?? '.', 'node_modules');
  const entryPoint = join(modules, 'node-llama-cpp/dist/index.js');
  if (!existsSync(entryPoint)) {
    console.log(`SKIPPED: no node-llama-cpp in ${modules} (set FLYBALL_NODE_MODULES)`);
    process.exit(77);
  }
  const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entryPoint));
  return getLlama({gpu: false, build: 'never', progressLogs: false, logLevel: LlamaLogLevel.error, ...options});
}
