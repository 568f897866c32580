"""`--web` from the command line: an engine of one's own over a little web, then its snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from tests.servers import in_order, serving
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
def engine(tmp_path: Path) -> Path:
    return tmp_path / "engine.py"


def test_ask_freeze_and_ask_again(engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, snapshot = tmp_path / "trace.jsonl", tmp_path / "web.jsonl"
    with serving(in_order("He was born in Foulby [1].")) as model:
        common = [
            *("ask", QUESTION, "--method", "rag", "--set", "k=2", "--model", "openai/mock", "--json"),
            *("--base-url", model.url),
        ]
        with serving(LittleWeb({"/harrison": PAGE})) as web:
            engine.write_text(ENGINE.format(url=web.url))
            (tmp_path / "web.toml").write_text(f'web_network = ["{web.network}"]\n')
            network = ["--config", str(tmp_path / "web.toml")]
            named = ["--web", f"{engine}:search", *network, "--trace", str(trace)]
            assert run([*common, *named]) == 0
            first = json.loads(capsys.readouterr().out)
        (cited,) = first["citations"]
        assert cited["url"] == f"{web.url}/harrison" and cited["fetched"].endswith("+00:00")
        assert run(["show", str(trace), "-n", "1"]) == 0
        assert f"not read: {web.url}/gone: its server answered 404" in capsys.readouterr().out

        assert run(["freeze", str(trace), "--out", str(snapshot)]) == 0
        assert "1 searches with 1 of 2 texts" in capsys.readouterr().out  # the snippet is the engine's own
        assert run(["freeze", str(trace), "--out", str(snapshot), "--all-texts"]) == 0
        assert "1 searches with 2 of 2 texts" in capsys.readouterr().out
        assert run([*common, "--web", f"frozen:{snapshot}"]) == 0
        again = json.loads(capsys.readouterr().out)
    changing = {"trajectory", "usage"}
    assert {k: v for k, v in again.items() if k not in changing} == {
        k: v for k, v in first.items() if k not in changing
    }


def test_freezing_a_run_without_the_web_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    with serving(in_order("Foulby.")) as model:
        assert run(["ask", QUESTION, "--method", "direct", "--model", "openai/mock", "--base-url", model.url,
                    "--trace", str(trace)]) == 0  # fmt: skip
    capsys.readouterr()
    assert run(["freeze", str(trace)]) == 2
    assert "no search of the web" in capsys.readouterr().err


def test_the_web_and_documents_together_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", QUESTION, "--web", "ddgs", "--corpus", str(tmp_path), "--model", "openai/mock"]) == 2
    assert "give one of them" in capsys.readouterr().err
    assert run(["ask", QUESTION, "--web", "bing", "--model", "openai/mock"]) == 2
    assert "retired" in capsys.readouterr().err


def test_eval_over_the_web(engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = tmp_path / "questions.jsonl"
    rows = [{"id": "1", "question": QUESTION, "answer": "Foulby"}]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "run"
    with serving(in_order("Foulby")) as model, serving(LittleWeb({"/harrison": PAGE})) as web:
        engine.write_text(ENGINE.format(url=web.url))
        named = ["--model", "openai/mock", "--base-url", model.url, "--method", "rag", "--out", str(out)]
        (tmp_path / "web.toml").write_text(f'web_network = ["{web.network}"]\n')
        searched = ["--web", f"{engine}:search", "--config", str(tmp_path / "web.toml")]
        code = run(["eval", "--questions", str(questions), *named, *searched])
    assert code == 0
    text = (out / "trajectories.jsonl").read_text()
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
def test_a_retriever_of_ones_own(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(RETRIEVER)
    assert run(["retrieve", "Harrison", "--retriever", f"{tmp_path / 'mine.py'}{name}", "--json"]) == 0
    (passage,) = json.loads(capsys.readouterr().out)
    assert passage["text"] == "He was born in Foulby. Harrison"


@pytest.mark.parametrize(
    ("spec", "said"),
    [("mine.py:broken", "is no retriever"), ("mine.py:absent", "is no retriever"), ("absent.py", "there is no"),
     ("pinecone", "no plug-in brings one")],
)  # fmt: skip
def test_what_is_no_retriever(spec: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(RETRIEVER)
    place = spec if spec == "pinecone" else str(tmp_path / spec)
    assert run(["retrieve", "Harrison", "--retriever", place]) == 2
    assert said in capsys.readouterr().err
