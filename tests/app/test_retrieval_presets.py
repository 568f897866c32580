"""--retrieval NAME: what a name stands for, what fits it, and what is said where it does not."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from reground.app.documents import Source, corpus_retriever, open_source, reranked
from reground.app.options import Index, Searching
from reground.core.errors import ConfigurationError
from reground.retrieval.scripted import ScriptedRetriever
from reground.retrieval.settings import PRESETS
from tests.retrieval.corpora import write

NOTES: dict[str, str | bytes] = {"cats.md": "# Cats\n\nCats purr.", "dogs.txt": "Dogs bark."}


@pytest.mark.parametrize("options", [Searching, Index])
def test_the_options_offer_every_preset(options: type) -> None:
    offered = get_type_hints(options)["retrieval"]
    assert {name for each in get_args(offered) for name in get_args(each)} == PRESETS.keys()


async def test_an_index_of_another_kind_is_refused_with_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra [hybrid]")
    from reground.retrieval.index import build_index

    build_index(write(tmp_path / "notes", NOTES), tmp_path / "index")
    opened = await corpus_retriever(tmp_path / "index", retrieval="bm25")
    assert (await opened.retrieve("purr", k=1))[0].id == "cats.md"
    with pytest.raises(ConfigurationError, match="is of the kind bm25, and --retrieval best needs hybrid"):
        await corpus_retriever(tmp_path / "index", retrieval="best")


async def test_a_retriever_of_ones_own_takes_no_preset() -> None:
    with pytest.raises(ConfigurationError, match="not for a retriever"):
        await open_source(Source(ScriptedRetriever([])), Searching(retrieval="bm25"), AsyncExitStack())


def test_best_reranks_unless_told_how() -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra [hybrid]")
    own = ScriptedRetriever([])
    assert "links" in reranked(own, Searching(retrieval="best")).name
    assert reranked(own, Searching(retrieval="hybrid")) is own
    assert reranked(own, Searching(retrieval="bm25")) is own
    served = Searching(retrieval="best", rerank="llama-server:http://localhost:1")
    assert "links" not in reranked(own, served).name


@pytest.mark.parametrize("command", ["index {docs} --out i", "ask Why? --corpus {docs} --model openai/x"])
def test_a_missing_extra_is_one_line_before_anything_is_read(tmp_path: Path, command: str) -> None:
    docs = write(tmp_path / "notes", NOTES)
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'onnxruntime' else find(name, *more)\n",
        encoding="utf-8",
    )
    words = [*command.format(docs=docs).split(), "--retrieval", "best"]
    code = f"import sitecustomize, sys; sys.argv[1:] = {words!r}; from reground.app.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr.strip() == ("error: --retrieval best needs the extra [hybrid]: pip install 'reground[hybrid]'")
