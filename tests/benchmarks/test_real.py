"""The benchmark on a real server, its parts on the mock server; what it measures is for people to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import real
from benchmarks.real import Read, reusable
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

TEXT = "The Elbe is long [1].\n\nThe Vltava flows into it [1].\n\nAnswer: the Elbe"


async def test_the_naive_port_sends_the_same_prompts_one_after_the_other(tmp_path: Path) -> None:
    from reground.retrieval.index import build_index, open_index

    build_index(real.corpus_path(), tmp_path / "index")
    make = real.methods(open_index(tmp_path / "index"))
    assert list(make) == ["RAT", "RaR", "Search Agent"]
    for name in make:
        async with MockOpenAI(lambda body: TEXT, latency=0.01) as server:
            questions = real.Questions([("a", "Which river is long?"), ("b", "Where does the Vltava end?")], "mock")
            said, _ = await real.naive(make[name], questions, server.url)
            assert server.most_at_once == 1
            sent = [body["messages"] for body in server.received]
            server.received.clear()
            answers, watched = await real.earnest(make[name], questions, server.url, 2)
            assert answers == said
            assert server.most_at_once >= 2  # RaR writes its queries at once
            assert sorted(map(str, sent)) == sorted(str(body["messages"]) for body in server.received)
            assert len(await real.as_read(watched, server.url)) == len(sent)


def test_every_method_is_measured_in_every_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(MockOpenAI(lambda body: TEXT)) as server:
        sizes = ["--questions", "2", "--flights", "1,2"]
        real.main(["--base-url", server.url, *sizes, "--json", f"{tmp_path}/rows"])
    rows = json.loads((tmp_path / "rows").read_text())
    assert [row["method"] for row in rows[::3]] == ["RAT", "RaR", "Search Agent"]
    assert [row["way"] for row in rows] == ["naive port", "reground", "reground"] * 3
    assert all(row["equal"] == row["questions"] == 2 and row["wall_s"] > 0 for row in rows)
    assert all(row["of_sent"] <= row["of_answered"] for row in rows)
    assert "| RaR | reground | 2 |" in capsys.readouterr().out


def test_without_weights_it_says_why_it_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="needs the extra [local]")
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path))
    real.main(["--model", "smollm2"])
    assert capsys.readouterr().out == "skipped: smollm2 is not here yet: reground models pull smollm2\n"


def test_what_could_be_reused_is_the_longest_beginning_of_an_earlier_call() -> None:
    calls = [
        Read([1, 2, 3, 4, 9], prompt=4, began=0, ended=2),
        Read([1, 2, 5, 6], prompt=3, began=1, ended=3),  # the first has no reply yet
        Read([1, 2, 3, 4, 9, 8, 7], prompt=6, began=4, ended=5),  # goes on after the first one's reply
        Read([1, 2, 5, 6], prompt=3, began=6, ended=7),  # the same again: one token is read anyway
        Read([0], prompt=1, began=8, ended=9),
    ]
    assert reusable(calls, answered=False) == [0, 2, 5, 2, 0]
    assert reusable(calls, answered=True) == [0, 0, 5, 2, 0]
