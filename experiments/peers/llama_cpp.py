#!/usr/bin/env python3
"""llama.cpp beside causeway on one model: how long a prompt of 490 tokens takes, and a token behind it.

Optional: needs llama.cpp as the package xllamacpp brings it (pip install xllamacpp), and the built program; without
them it says so and ends. Both run on the same threads, in turns, greedily, and the texts that they write are compared.
llama.cpp's times are its own; causeway's prompt is a generation of one token, and its token the difference of one of
65 and one of 1, over 64.

    python3 experiments/peers/llama_cpp.py [--model FILE.gguf] [--float32] [--threads 1] [--rounds 5]
        [--program build/causeway]

--float32 unpacks the weights to Float32 first, in a file that is removed at the end (the package gguf does it).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

here = pathlib.Path(__file__).resolve().parent
cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", default=str(cache / "causeway/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))
parser.add_argument("--float32", action="store_true")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--program", default=str(here.parent.parent / "build/causeway"))
options = parser.parse_args()

try:
    import xllamacpp
except ImportError as reason:
    raise SystemExit(f"llama_cpp.py: xllamacpp is not here: {reason}")
for path in (options.model, options.program):
    if not os.path.isfile(path):
        raise SystemExit(f"llama_cpp.py: {path} is not there")


def in_float32(path, folder):
    """The path of the same model, all of whose weights are Float32."""
    try:
        from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize
    except ImportError as reason:
        raise SystemExit(f"llama_cpp.py: {reason}: --float32 needs pip install gguf")
    reader = GGUFReader(path)
    to = os.path.join(folder, "float32-" + os.path.basename(path))
    writer = GGUFWriter(to, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":  # the writer's own
            continue
        value = 0 if name == "general.file_type" else field.contents()
        sub_type = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, field.types[0], sub_type)
    for tensor in reader.tensors:
        shape = tuple(int(n) for n in reversed(tensor.shape))
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type).astype("float32").reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return to


unpacked = tempfile.TemporaryDirectory()
if options.float32:
    options.model = in_float32(options.model, unpacked.name)

TOKENS = 64
PROMPT_BYTES = 2000
prompt = (here.parent / "data/heldout.txt").read_text()[:PROMPT_BYTES]

params = xllamacpp.CommonParams()
params.model.path = options.model
params.n_ctx, params.n_parallel = 1024, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
server = xllamacpp.Server(params)


def of_llama_cpp():
    answer = server.handle_completions(
        {"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "cache_prompt": False, "ignore_eos": True})
    answer = answer if isinstance(answer, dict) else json.loads(answer)
    times = answer["timings"]
    return times["prompt_ms"], times["predicted_per_token_ms"], answer["choices"][0]["text"], times["prompt_n"]


CODE = """
local file = assert(io.open(arg[2], "rb"))
local prompt = file:read(tonumber(arg[3]))
local m, n = model(arg[1]), tonumber(arg[4])
local function seconds(tokens)
  local start = clock()
  local text = m:generate(prompt, {tokens = tokens, stream = false})
  return clock() - start, text
end
seconds(1)
local one = seconds(1)
local all, text = seconds(n + 1)
print(json_encode({prompt_ms = 1000 * one, token_ms = 1000 * (all - one) / n, text = text, prompt_n = #m:tokens(prompt)}))
"""


def of_causeway():
    script = subprocess.run(
        [options.program, "-", options.model, str(here.parent / "data/heldout.txt"), str(PROMPT_BYTES), str(TOKENS)],
        input=CODE, capture_output=True, text=True, env={**os.environ, "CAUSEWAY_THREADS": str(options.threads)})
    if script.returncode != 0:
        raise SystemExit(f"llama_cpp.py: {options.program}: {script.stderr.strip()}")
    out = json.loads(script.stdout)
    return out["prompt_ms"], out["token_ms"], out["text"], out["prompt_n"]


of_llama_cpp()  # the weights into memory
runs = {"llama.cpp": [], "causeway": []}
for _ in range(options.rounds):
    runs["llama.cpp"].append(of_llama_cpp())
    runs["causeway"].append(of_causeway())
print(f"{os.path.basename(options.model)}, {options.threads} thread(s), medians of {options.rounds} in turns, by the "
      "clock: beside other programs they mean little")
for name, rows in runs.items():
    prompt_ms, token_ms = ([row[i] for row in rows] for i in (0, 1))
    print(f"{name:10} prompt of {rows[0][3]} tokens {statistics.median(prompt_ms):8.0f} ms ({min(prompt_ms):.0f} to "
          f"{max(prompt_ms):.0f}), a token {statistics.median(token_ms):7.2f} ms ({min(token_ms):.2f} to "
          f"{max(token_ms):.2f})")
theirs, ours = runs["llama.cpp"][0][2], runs["causeway"][0][2]
same = len(os.path.commonprefix([theirs, ours]))
print(f"the greedy texts agree in their first {same} of {min(len(theirs), len(ours))} characters")
