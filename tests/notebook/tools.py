"""nbconvert and papermill run the first notebook, and say what went wrong in one that fails.

    tools.py PROGRAM    the causeway beside which causeway-kernel stands
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import nbformat
import papermill
from notebooks import install_kernel, refuted, root

first = root / "docs" / "notebooks" / "ten_minutes.ipynb"
failing = nbformat.v4.new_notebook(
    cells=[nbformat.v4.new_code_cell("x = 1"), nbformat.v4.new_code_cell("randn(-1)"), nbformat.v4.new_code_cell("2")],
    metadata={"kernelspec": {"name": "causeway", "display_name": "Causeway", "language": "lua"}})


class ToolTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_nbconvert_makes_a_page(self):
        done = subprocess.run([sys.executable, "-m", "nbconvert", "--to", "html", "--execute", str(first), "--output-dir",
                               str(self.folder)], cwd=root, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (self.folder / "ten_minutes.html").read_text()
        self.assertIn("image/svg+xml", page)
        self.assertIn("background:rgba(", page)  # a tensor's heat map

    def test_papermill_runs_a_notebook(self):
        written = self.folder / "out.ipynb"
        book = papermill.execute_notebook(str(first), str(written), cwd=str(root), progress_bar=False)
        self.assertIsNone(book.metadata.papermill.exception)
        self.assertFalse(any(refuted(cell) for cell in nbformat.read(written, as_version=4).cells))

    def test_a_cell_that_fails_ends_the_run_with_its_sentence(self):
        source, written = self.folder / "in.ipynb", self.folder / "out.ipynb"
        nbformat.write(failing, source)
        with self.assertRaises(papermill.PapermillExecutionError) as caught:
            papermill.execute_notebook(str(source), str(written), cwd=str(root), progress_bar=False)
        self.assertEqual(caught.exception.ename, "bad argument")
        self.assertIn("randn", caught.exception.evalue)
        done = subprocess.run([sys.executable, "-m", "nbconvert", "--to", "html", "--execute", str(source)],
                              capture_output=True, text=True, timeout=300)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("dimension 1: -1, expected 0 or more", done.stderr)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as jupyter:
        install_kernel(program, Path(jupyter))
        result = unittest.main(exit=False, verbosity=2).result
    sys.exit(1 if result.failures or result.errors or result.skipped else 0)
