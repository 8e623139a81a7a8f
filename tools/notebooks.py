"""Executes the notebooks of the documentation and stores their outputs: `python tools/notebooks.py [docs/start/first_scene.ipynb …]`.

The site shows the stored outputs; it executes nothing. Each notebook runs from the beginning in a temporary folder with a copy of
examples/. No times and no versions are stored, so that a diff shows what changed.
Needs nbclient and ipykernel.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "docs/start"
TIMEOUT = 3600
"""Time limit of a cell in seconds."""


def execute(path: Path) -> None:
    """Executes a notebook and writes it with its outputs. Raises CellExecutionError, and writes nothing, if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        here = Path(folder, FOLDER)
        here.mkdir(parents=True)
        shutil.copytree(ROOT / "examples", Path(folder, "examples"), ignore=shutil.ignore_patterns("__pycache__"))
        NotebookClient(notebook, timeout=TIMEOUT, record_timing=False, resources={"metadata": {"path": here}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = tidy(cell.outputs)
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def tidy(outputs: list[Any]) -> list[Any]:
    """The outputs of a cell, made equal for every run: pieces of text are joined, and standard error is left out."""
    kept: list[Any] = []
    for each in outputs:
        if each.output_type == "stream":
            if each.name == "stderr":
                continue
            if kept and kept[-1].output_type == "stream":
                kept[-1].text += each.text
                continue
        elif "image/png" in each.get("data", {}):
            each.data = {"image/png": each.data["image/png"], "text/plain": each.data["text/plain"]}  # Pillow offers a JPEG as well
        kept.append(each)
    return kept


if __name__ == "__main__":
    for each in map(Path, sys.argv[1:] or sorted(map(str, (ROOT / FOLDER).glob("*.ipynb")))):
        print(each, flush=True)
        execute(each)
