"""How documents are searched: what a preset and a reranker are, what is read with them, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import reground
from reground.app.documents import Source, corpus_retriever, open_source, reranked
from reground.app.options import Index, Searching
from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.retrieval.settings import PRESETS
from tests.app.test_eval_cli import Server, call, data, server
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


__all__ = ["data", "server"]
FILM = {"id": "film", "title": "The Long Night (film)", "text": "The Long Night is a drama that Ada Moss directed."}
ADA = {"id": "ada", "title": "Ada Moss", "text": "Ada Moss came from Kirk."}
OTHERS = [{"id": f"o{n}", "title": f"Where {n}", "text": "Where was the night? Who was it born to?"} for n in range(9)]
QUESTION = "Where was the director of The Long Night born?"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (*OTHERS, ADA, FILM)))
    return path


async def read(docs: Path, **options: object) -> tuple[list[str], str]:
    """The ids of the passages that a method read, and the retriever's name in the run's configuration."""
    model = ScriptedModel(["Answer: Kirk"] * 3)
    result = await reground.aask(
        QUESTION, method="rag", model=model, corpus=docs, settings={"k": 2}, home=docs.parent / "home", **options
    )
    config = json.loads((result.trajectory_path.parent / "config.json").read_text())
    return [passage.id for step in result.trajectory.steps for passage in getattr(step, "passages", ())], config[
        "retriever"
    ]


async def test_a_method_reads_the_best_passages_first(docs: Path) -> None:
    plain, name = await read(docs, retrieval="bm25")
    linked, other = await read(docs, rerank="links")
    assert await read(docs) == (linked, other), "what nothing is said of is reranked by links"
    assert set(linked) == {"film", "ada"} != set(plain)
    assert other.startswith(f"{name} > links@")
    _, deeper = await read(docs, rerank="links", rerank_depth=5)
    assert deeper != other  # another run, so nothing recorded is replayed for it


async def test_a_retriever_of_the_users_own_is_reranked_and_stays_open(tmp_path: Path) -> None:
    class Own(ScriptedRetriever):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    own = Own([Passage(**each) for each in (*OTHERS, FILM, ADA)])
    model = ScriptedModel(["Answer: Kirk"] * 3)
    result = await reground.aask(
        QUESTION, method="rag", model=model, corpus=own, rerank="links", settings={"k": 2}, home=tmp_path
    )
    assert result.text
    assert len(own.queries) == 3  # the question, and two documents that were followed
    assert not own.closed


async def test_an_unknown_reranker_is_refused_before_anything_is_indexed(tmp_path: Path) -> None:
    seen: list[object] = []
    with pytest.raises(ConfigurationError, match="did you mean links"):
        await reground.aask(
            "Why?", model=ScriptedModel(["x"]), corpus=tmp_path, rerank="link", on_index=seen.append
        )  # an empty folder: indexing it would be another error
    assert not seen


def test_evaluations_rerank_too(server: Server, data: Path, docs: Path, capfd) -> None:
    command, more = "compare", ("--methods", "rag,direct", "--budgets", "none")
    assert call(server, data, command, *more, "--corpus", str(docs), "--rerank", "links", "--out", "out") == 0
    capfd.readouterr()
    configs = [json.loads(path.read_text()) for path in Path("out").rglob("config.json")]
    assert any(" > links@" in (config.get("retriever") or "") for config in configs)
    assert call(server, data, command, *more, "--corpus", str(docs), "--rerank", "linked", "--out", "other") == 2
    assert "error: no reranker is called 'linked'; did you mean links?" in capfd.readouterr().err
