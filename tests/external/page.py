#!/usr/bin/env python3
"""Makes programs of the code on docs/cpp.md, against an installed prefix, and runs them: page.py PREFIX FOLDER

Where PREFIX is "" it runs Python's code alone, on the module that Python finds by itself.

The blocks stand for what a reader types, so what they need around them is here: the tensors that they name, and main.
Python's blocks run one after the other where there is NumPy; those of Transformers and of PyTorch only where those are.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CPP = """{includes}
#include "core/tensor/random.hpp"

int main() {{
    const auto x = [] {{ return causeway::random::normal(causeway::DType::f32, {{1, 2, 100, 8}}); }};
    const causeway::Tensor B = x(), C = x(), V = x();
    {body}
    return result.O.shape() == V.shape() && result.state.shape() == causeway::Shape{{1, 2, 8, 8}} ? 0 : 1;
}}
"""
C = """#include <stdlib.h>
{includes}

int main(void) {{
    float* q = calloc(8 * 4096 * 64, sizeof *q);
    float *k = q, *v = q;
    causeway_tensor tk, tv;
    {body}
    free(q);
    return O.data == NULL && causeway_last_error()[0] == 0 ? 0 : 1;
}}
"""
CMAKE = """cmake_minimum_required(VERSION 3.22)
project(page LANGUAGES C CXX)
add_executable(program page.cpp)
{body}
add_executable(in_c page.c)
target_link_libraries(in_c PRIVATE causeway::c)
"""
PYTHON = """
import numpy
g, beta = -numpy.random.rand(1, 8, 4096).astype("f4"), numpy.random.rand(1, 8, 4096).astype("f4")
pool = numpy.zeros((4, 8, 64, 64), "f4")
"""
TORCH = """
import torch
q, k, v, g, beta = (torch.from_numpy(x).requires_grad_() for x in (q, k, v, g, beta))
"""
MODEL = """
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                     num_attention_heads=1))
"""


def blocks(page, language):
    """The blocks of code that are marked with a language, "" for those that are not."""
    return [text for mark, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if mark == language]


def split(block):
    """The lines of #include, and the others."""
    lines = block.split("\n")
    includes = [line for line in lines if line.startswith("#include")]
    return {"includes": "\n".join(includes), "body": "\n    ".join(x for x in lines if x not in includes).strip()}


def only(found, word):
    """The one block with a word."""
    (block,) = [block for block in found if word in block]
    return block


def run(command, **options):
    print("page:", *command, file=sys.stderr)
    subprocess.run(command, check=True, **options)


def compiled(page, prefix, folder):
    c = split(only(blocks(page, "c"), "causeway_linear_attention"))
    c["body"] = c["body"].replace("/* and tk, tv likewise */", "\n    tk = tv = tq; tk.data = k; tv.data = v;")
    (folder / "page.cpp").write_text(CPP.format(**split(only(blocks(page, "cpp"), "#include"))))
    (folder / "page.c").write_text(C.format(**c))
    (folder / "CMakeLists.txt").write_text(CMAKE.format(body=only(blocks(page, "cmake"), "find_package")))
    run(["cmake", "-S", str(folder), "-B", str(folder / "build"), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
         "-DCMAKE_BUILD_TYPE=Release"], stdout=subprocess.DEVNULL)
    run(["cmake", "--build", str(folder / "build")], stdout=subprocess.DEVNULL)
    for program in ("program", "in_c"):
        run([str(folder / "build" / program)])


def interpreted(page, prefix, folder):
    prompt = only(blocks(page, ""), ">>> import causeway")
    script, torch_blocks = re.findall(r"^>>> (.*)$", prompt, re.MULTILINE) + [PYTHON], []
    for block in blocks(page, "python"):
        if "transformers" in block:
            script += [MODEL, block] if find_spec("transformers") else []
        elif "backward()" in block:
            torch_blocks = [TORCH, block] if find_spec("torch") else []
        else:
            script.append(block)
    path = folder / "page.py"
    path.write_text("\n".join(script + torch_blocks) + '\nprint("the Python of the page runs")\n')
    where = {"PYTHONPATH": str(Path(prefix) / "lib/python3/dist-packages")} if prefix else {}
    run([sys.executable, str(path)], env={**os.environ, **where})


def main(prefix, folder):
    page = (ROOT / "docs/cpp.md").read_text(encoding="utf-8")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if prefix:
        compiled(page, prefix, folder)
    if find_spec("numpy"):
        interpreted(page, prefix, folder)
    else:
        print("page: there is no NumPy: the Python of the page does not run", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
