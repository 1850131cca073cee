# Files that llama.cpp itself saves answer as those that they were made of: saved.py <flyball_greedy>.
# For each family `flyball make-model` writes a file, llama_model_save_to_file of npm's node-llama-cpp writes it again, and
# our greedy continuations of both are equal. Exit 77, SKIPPED, where the package is absent.
import ctypes
import glob
import json
import os
import subprocess
import sys

TOKENS = 24
PROMPTS = [[1, 5, 9, 200, 31, 7], list(range(40, 120))]
LARGE = 'dim=512,ffn=1024,head_dim=128,window=64'
FAMILIES = {
    'llama': 'arch=llama', 'biases': 'biases=1', 'mixtral': 'experts=8,experts_used=2,expert_ffn=256',
    'qwen2': 'arch=qwen2', 'qwen3': 'arch=qwen3,head_dim=128',
    'qwen3moe': 'arch=qwen3moe,experts=8,experts_used=2,expert_ffn=256', 'phi3': 'arch=phi3',
    'gemma2': f'arch=gemma2,{LARGE}', 'gemma3': f'arch=gemma3,layers=6,{LARGE}', 'granite': 'arch=granite',
    'mistral3': 'arch=mistral3,rope=yarn,context=512', 'smollm3': 'arch=smollm3,layers=4', 'yarn': 'rope=yarn',
    'llama3': 'rope=llama3', 'longrope': 'arch=phi3,rope=longrope,context=4096', 'granite4': 'arch=granite,biases=1',
}


class Params(ctypes.Structure):  # llama_model_params: passed on as it comes, and smaller than this
    _fields_ = [('words', ctypes.c_uint64 * 64)]


def load_llama():
    build = os.environ.get('FLYBALL_BINARY_DIR', '.')
    modules = os.environ.get('FLYBALL_NODE_MODULES', os.path.join(build, 'node_modules'))
    folder = os.path.join(modules, '@node-llama-cpp/linux-x64/bins/linux-x64')
    names = ['libggml-base.so', 'libggml.v*.so', 'libllama.v*.so']
    found = [sorted(glob.glob(os.path.join(folder, name))) for name in names]
    if os.uname().machine != 'x86_64' or not all(found):
        print(f'SKIPPED: no libllama in {folder}')
        sys.exit(77)
    base, ggml, llama = [ctypes.CDLL(paths[0], ctypes.RTLD_GLOBAL) for paths in found]
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    llama.quiet = quiet  # as long as the library is
    llama.llama_log_set(quiet, None)
    ggml.ggml_backend_load_all_from_path(folder.encode())
    llama.llama_model_default_params.restype = Params
    llama.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Params]
    llama.llama_model_load_from_file.restype = ctypes.c_void_p
    llama.llama_model_save_to_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    llama.llama_model_free.argtypes = [ctypes.c_void_p]
    return llama


def continuations(helper, path):
    lines = '\n'.join(json.dumps(prompt) for prompt in PROMPTS)
    out = subprocess.run([helper, path, str(TOKENS), '1'], input=lines, capture_output=True, text=True, check=True).stdout
    return [json.loads(line)['tokens'] for line in out.splitlines()]


def main():
    helper = sys.argv[1]
    llama = load_llama()
    work = os.path.join(os.environ.get('FLYBALL_BINARY_DIR', '.'), 'oracle_saved')
    os.makedirs(work, exist_ok=True)
    failed = 0
    for name, keys in FAMILIES.items():
        made, saved = (os.path.join(work, f'{name}{end}.gguf') for end in ('', '.saved'))
        # F16: llama.cpp repacks quantized matrices in memory, and then cannot write them.
        subprocess.run([os.environ['FLYBALL'], 'make-model', '--quiet', '--out', made, '--shape', f'tiny,{keys}',
                        '--type', 'F16'], check=True)
        model = llama.llama_model_load_from_file(made.encode(), llama.llama_model_default_params())
        if not model:
            sys.exit(f'FAILED {name}: llama.cpp does not load {made}')
        llama.llama_model_save_to_file(model, saved.encode())
        llama.llama_model_free(model)
        try:
            equal = continuations(helper, made) == continuations(helper, saved)
            failed += not equal
            print(f'{"ok    " if equal else "FAILED"} {name}')
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f'FAILED {name}: {error.stderr.strip()}')
    sys.exit(1 if failed else 0)


main()
