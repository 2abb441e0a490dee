"""The notebooks of docs/notebooks run, cell by cell, and every cell shows the kinds of things that are committed.

    notebooks.py PROGRAM    the causeway beside which causeway-kernel stands
"""
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

root = Path(__file__).resolve().parents[2]


def install_kernel(program, folder):
    place = folder / "kernels" / "causeway"
    place.mkdir(parents=True)
    template = (root / "lua" / "notebook" / "kernel.json").read_text()
    (place / "kernel.json").write_text(template.replace("@CAUSEWAY@", str(Path(program).resolve())))
    os.environ["JUPYTER_DATA_DIR"] = str(folder)
    os.environ["XDG_STATE_HOME"] = str(folder)  # the history of this test, not that of its user


def kinds(cell):
    """The forms of what a cell shows."""
    return [sorted(o["data"]) if "data" in o else o["output_type"] for o in cell.get("outputs", [])]


def refuted(cell):
    """Whether a table of claims in the outputs says that one does not hold."""
    texts = [o["data"].get("text/plain", "") for o in cell.get("outputs", []) if "data" in o]
    return any(line.split()[-1:] == ["no"] for text in texts if "margin" in text for line in text.splitlines())


def check(path):
    committed = nbformat.read(path, as_version=4)
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, kernel_name="causeway", timeout=300, resources={"metadata": {"path": str(root)}}).execute()
    wrong = 0
    for number, (before, now) in enumerate(zip(committed.cells, book.cells), 1):
        if kinds(before) != kinds(now):
            print(f"{path.name}, cell {number}: shows {kinds(now)}, committed are {kinds(before)}")
            wrong += 1
        if refuted(now):
            print(f"{path.name}, cell {number}: a claim does not hold")
            wrong += 1
    print(f"{path.name}: {len(book.cells)} cells")
    return wrong


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        install_kernel(sys.argv[1], Path(folder))
        paths = sorted((root / "docs" / "notebooks").glob("*.ipynb"))
        sys.exit(1 if not paths or sum(check(path) for path in paths) else 0)
