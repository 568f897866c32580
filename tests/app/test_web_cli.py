"""`--web` from the command line: an engine of one's own over a little web, then its snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reground.app.cli import run
from tests.servers import in_order, model_of, serving
from tests.web.little_web import LittleWeb, page

QUESTION = "Where was John Harrison born?"
PAGE = page("John Harrison", "John Harrison was an English clockmaker.", "He was born in 1693 in Foulby, a village.")
ENGINE = """
def search(query, k):
    return [
        {{"title": "Harrison", "url": "{url}/harrison", "snippet": "a clockmaker"}},
        {{"title": "Gone", "url": "{url}/gone", "snippet": "born somewhere"}},
    ][:k]
"""


@pytest.fixture
def web(home: Path) -> Iterator[list[str]]:
    """A little web with one page, and the options that search it."""
    with serving(LittleWeb({"/harrison": PAGE})) as web:
        (home / "engine.py").write_text(ENGINE.format(url=web.url))
        (home / "web.toml").write_text(f'web_network = ["{web.network}"]\n')
        yield ["--web", "engine.py:search", "--config", "web.toml"]


def test_ask_and_ask_again_what_was_found(web: list[str], capsys) -> None:
    with serving(in_order("He was born in Foulby [1].")) as model:
        common = ["ask", QUESTION, "--method", "rag", "--set", "k=2", "--json", *model_of(model)]
        assert run([*common, *web, "--trace", "trace.jsonl"]) == 0
        first = json.loads(capsys.readouterr().out)
        (cited,) = first["citations"]
        assert cited["url"].endswith("/harrison") and cited["fetched"].endswith("+00:00")
        assert run(["show", "trace.jsonl", "-n", "1"]) == 0
        assert "/gone: its server answered 404" in capsys.readouterr().out

        # What was found is a corpus, as docs/how-to/web.md says.
        trajectory = json.loads(
            Path("trace.jsonl").read_text()
        )  # what was found is a corpus, as the page on the web says
        passages = [each for step in trajectory["steps"] if step["kind"] == "retrieve" for each in step["passages"]]
        Path("web.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in passages))
        assert run([*common, "--corpus", "web.jsonl"]) == 0
        (again,) = json.loads(capsys.readouterr().out)["citations"]
    assert (again["quote"], again["passage_id"]) == (cited["quote"], cited["passage_id"])


@pytest.mark.parametrize(
    ("searched", "said"), [(["--web", "ddgs", "--corpus", "."], "give one of them"), (["--web", "bing"], "retired")]
)
def test_what_cannot_be_searched_is_refused(searched: list[str], said: str, home: Path, capsys) -> None:
    assert run(["ask", QUESTION, *searched, "--model", "openai/mock"]) == 2
    assert said in capsys.readouterr().err


def test_eval_over_the_web(web: list[str], home: Path) -> None:
    (home / "questions.jsonl").write_text(json.dumps({"id": "1", "question": QUESTION, "answer": "Foulby"}) + "\n")
    with serving(in_order("Foulby")) as model:
        named = [*model_of(model), "--method", "rag", "--out", "run"]
        assert run(["eval", "--questions", "questions.jsonl", *named, *web]) == 0
    text = (home / "run" / "trajectories.jsonl").read_text()
    assert "Foulby, a village" in text and '"retriever":"web:' in text


RETRIEVER = """
from reground.core.evidence import Passage


class Mine:
    name = "mine"

    async def retrieve(self, query, /, *, k):
        return [Passage(id="1", text=f"He was born in Foulby. {query}")][:k]


RETRIEVER = Mine()
broken = 7
"""


@pytest.mark.parametrize("name", ["", ":RETRIEVER", ":Mine"])
def test_a_retriever_of_ones_own(name: str, home: Path, capsys) -> None:
    (home / "mine.py").write_text(RETRIEVER)
    assert run(["retrieve", "Harrison", "--retriever", f"mine.py{name}", "--json"]) == 0
    (passage,) = json.loads(capsys.readouterr().out)
    assert passage["text"] == "He was born in Foulby. Harrison"


@pytest.mark.parametrize(
    ("spec", "said"),
    [("mine.py:broken", "is no retriever"), ("mine.py:absent", "is no retriever"), ("absent.py", "there is no"),
     ("pinecone", "no plug-in brings one")],
)  # fmt: skip
def test_what_is_no_retriever(spec: str, said: str, home: Path, capsys) -> None:
    (home / "mine.py").write_text(RETRIEVER)
    assert run(["retrieve", "Harrison", "--retriever", spec]) == 2
    assert said in capsys.readouterr().err
