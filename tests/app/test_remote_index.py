"""An index on object storage as a user meets it: `index --push`, and its address wherever a corpus is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import reground
from reground.app.cli import run
from reground.app.evaluating import open_search
from reground.app.options_documents import Documents
from reground.app.options_serving import Offering
from reground.app.serving.engine import open_engine
from reground.core.errors import ConfigurationError
from reground.models.options import ModelOptions
from reground.models.scripted import ScriptedModel
from tests.cluster.near import Near, order, spec
from tests.object_store import KEY, S3, SECRET, s3_server
from tests.retrieval.corpora import write
from tests.servers import in_order, serving


@pytest.fixture(autouse=True)
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A store; two machines share it, which are two homes here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    write(tmp_path, {"docs/cats.md": "# Cats\n\nCats purr when they are content.\n"})
    with s3_server(monkeypatch) as server:
        yield server


@pytest.fixture
def pushed(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> S3:
    """The store with an index of docs/, seen from another machine."""
    assert run(["index", "docs", "--push", s3.address]) == 0
    assert f"is at {s3.address}" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "elsewhere"))
    return s3


def ask(corpus: str | Path | list[str], **options: object) -> reground.Result:
    return reground.ask("When do cats purr?", method="rag", model=ScriptedModel(["When content [1]."]), corpus=corpus,
                        **options)  # fmt: skip


def test_push_tells_what_it_did_as_json(s3: S3, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "docs", "--out", "docs.idx", "--push", s3.address, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["pushed"]
    assert told["address"] == s3.address and told["sent"] == told["files"] > 1
    assert run(["index", "docs", "--out", "docs.idx", "--push", s3.address, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["pushed"]
    assert again == {**told, "sent": 0, "sent_bytes": 0}


def test_ask_on_the_command_line_and_by_a_file(pushed: S3, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(in_order("When content [1].")) as server:
        usual = ["ask", "When do cats purr?", "--method", "rag", "--model", "openai/mock", "--base-url", server.url]
        assert run([*usual, "--corpus", pushed.address, "--json"]) == 0
        first = json.loads(capsys.readouterr().out)
        assert first["shown"][0]["url"] == "cats.md" and first["notes"] == []
        (tmp_path / "own.toml").write_text(f'corpus = "{pushed.address}"\n')
        assert run([*usual, "--config", "own.toml", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["trajectory"] == first["trajectory"], "the same run"
        pushed.refuse = ("503 Service Unavailable", "")
        assert run([*usual, "--corpus", pushed.address]) == 0
        assert "from the cache" in capsys.readouterr().err


def test_the_run_is_that_of_the_same_index_here(pushed: S3) -> None:
    remote = [ask(each) for each in (pushed.address, Path(pushed.address), [pushed.address])]
    here = ask("docs")
    assert {each.trajectory_path for each in remote} == {here.trajectory_path}
    assert remote[0].corpus is None and here.corpus == Path("docs")


def test_a_warning_is_among_the_notes(pushed: S3) -> None:
    assert ask(pushed.address).notes == ()
    pushed.refuse = ("503 Service Unavailable", "")
    (note,) = ask(pushed.address).notes
    assert note.startswith(f"the store of {pushed.address} does not answer")


async def test_benchmarks_and_servers_open_it(pushed: S3) -> None:
    retriever = await open_search(Path(pushed.address), Documents())
    assert retriever is not None and [each.id for each in await retriever.retrieve("purr", k=1)] == ["cats.md"]
    offering = Offering(method=["rag"], model=["openai/mock"], corpus=[f"cats={Path(pushed.address)}", pushed.address],
                        model_options=ModelOptions(base_url="http://127.0.0.1:9"))  # fmt: skip
    async with open_engine(offering) as engine:
        assert [*engine.corpora] == ["cats", "docs"]
        names = {each.name for each in engine.corpora.values()}
        assert len(names) == 1 and names.pop().startswith(f"{retriever.name} > links@"), "a benchmark does not rerank"


def test_retrieve_and_an_evaluation_find_in_it(pushed: S3, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["retrieve", "purr", "--corpus", pushed.address, "--json"]) == 0
    assert [each["id"] for each in json.loads(capsys.readouterr().out)] == ["cats.md"]
    (tmp_path / "q.jsonl").write_text('{"id": "1", "question": "When do cats purr?", "answer": "content"}\n')
    with serving(in_order("content [1]")) as server:
        usual = ["--model", "openai/mock", "--base-url", server.url, "--out", "runs/cats", "--quiet"]
        assert run(["eval", "--questions", "q.jsonl", "--method", "rag", "--corpus", pushed.address, *usual]) == 0
        assert "cats.md" in (tmp_path / "runs/cats/trajectories.jsonl").read_text()


async def test_a_worker_brings_it_by_itself(pushed: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = order(tmp_path, "http://127.0.0.1:9", 1, corpus=Path(pushed.address))
    worker = Near(spec(given))
    assert await worker.open(given.task) is None
    await worker.close()


def test_it_has_to_be_of_the_kind_and_the_language_that_are_asked_for(pushed: S3) -> None:
    with pytest.raises(ConfigurationError, match=f"the index {pushed.address} was made with the language en"):
        ask(pushed.address, language="de")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["index", "docs", "--push", "elsewhere/"], "--push takes an address on object storage"),
        (["index", "docs", "--push", "s3://nowhere-at-all/x"], "there is no bucket for s3://nowhere-at-all/x"),
        (["index", "docs", "--out", "s3://bucket/x"], "--out is a folder on this machine"),
        (["index", "docs", "--push", "s3://b/x", "--kind", "hybrid"], "need an index of its own: --out"),
        (["ask", "What?", "--model", "openai/x", "--corpus", "s3://nowhere-at-all/x"], "there is no bucket"),
        (["questions", "--corpus", "s3://bucket/x"], "is an index: give the documents"),
        (["train", "retriever", "data", "--corpus", "s3://bucket/x"], "is an index: give the documents"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    s3: S3, command: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert said in error and SECRET not in error and KEY not in error
    assert not [name for method, name in s3.requests if method == "PUT" and "nowhere" in name]
