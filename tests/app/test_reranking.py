"""--rerank for every command that searches: what a method reads, what a run is called, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import reground
from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.app.test_eval_cli import Server, call, data, server

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
