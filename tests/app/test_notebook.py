"""A notebook, run by a kernel as Jupyter's: what its cells show."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

RUN = [sys.executable, "-c", "from nbclient.cli import main; main()", "--inplace", "--allow-errors", "notebook.ipynb"]


@pytest.mark.skipif(not (find_spec("ipykernel") and find_spec("nbclient")), reason="needs ipykernel and nbclient")
def test_a_cell_shows_the_answer_with_its_evidence_its_progress_and_short_errors(docs: Path, monkeypatch) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(docs.parent / name))
    with serving(MockOpenAI(lambda body: "The Seine is 775 km long [1]. It is green [1].")) as server:
        asked = f'reground.ask("How long is the Seine?", corpus="docs", model="openai/mock", base_url="{server.url}"'
        sources = [
            f'import reground\n{asked})\n{asked}, where="path:seine.md", fresh=True)',
            'await reground.acheck("The Seine is 775 km long. It is green.", corpus="docs")',
            f'{asked}, method="no_such")',
        ]
        cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
        cells = [{**cell, "source": source} for source in sources]
        notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
        (docs.parent / "notebook.ipynb").write_text(json.dumps(notebook))
        subprocess.run(RUN, cwd=docs.parent, check=True)
    shown = json.loads((docs.parent / "notebook.ipynb").read_text())["cells"]
    *progress, answer = shown[0]["outputs"]
    told = "".join(line for each in progress for line in each["text"])
    assert "answer" in told and "0 of 0" not in told
    assert {"text/html", "text/markdown"} <= answer["data"].keys()
    (check,), (error,) = (each["outputs"] for each in shown[1:])
    assert "> “The Seine flows" in "".join(check["data"]["text/markdown"])
    assert error["ename"] == "ConfigurationError"
    assert len([each for each in error["traceback"] if "File" in each]) <= 1, "no frames inside reground"
