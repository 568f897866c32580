"""`reground train agent` from the outside: all stages with a tiny model and a scripted teacher behind a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

from reground.app.cli import run
from reground.core.files import append_line
from reground.core.language import Message
from reground.methods.search_agent import Prompts
from reground.methods.search_agent.actions import GivenAnswer, LinkSelection, Search, Terminate, reply
from reground.testing.openai_server import MockOpenAI
from reground.training.fitting import read_metrics
from reground.training.rows import Demonstration, read_rows
from tests.app.test_eval_cli import QUESTIONS
from tests.servers import serving
from tests.training.tiny import tiny_llama

SEARCHES = [
    reply(Search("who wrote that book", "Nobody has named the writer so far.")),
    reply(Search("writer of the book", "The name of its writer must be found.")),
]
SAID = {
    "decide": SEARCHES,
    "summarise": [reply(LinkSelection("[link_id=1] names the writer.", (1,), "That settles the question for good."))],
    "answer": [reply(GivenAnswer("The writer [link_id=1].", "The note of the library says it."))],
    "relevance": ["No code at all."],
    "grounding": ["ACTION_SELECTED = Check_Answer(passed=True)  # [END]"],
}
LONG = (Message(role="user", content="a " * 5000), Message(role="assistant", content="b"))


def teacher(body: dict[str, Any]) -> str | list[str]:
    asked = body["messages"][0]["content"]
    for name, said in SAID.items():
        if asked == Prompts().system(name):
            done = name == "decide" and "Search(query=" in body["messages"][-1]["content"]
            return [reply(Terminate("The writer is known by now."))] if done else said
    return "Explanation: it is better\nAnswer: #2\nRanking: #2 > #1" if "Way #" in asked else "Answer: The writer"


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MockOpenAI, list[str]]]:
    """The teacher, and the options that name it, a training split and its documents."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    data = tmp_path / "data" / "nq_open"
    data.mkdir(parents=True)
    (data / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS))
    corpus = tmp_path / "shelf"
    corpus.mkdir()
    for number in range(len(QUESTIONS)):
        (corpus / f"{number}.txt").write_text(f"A note of the library: Writer {number} has written book {number}.")
    with serving(MockOpenAI(teacher)) as server:
        where = ["--data", str(tmp_path / "data"), "--corpus", str(corpus)]
        yield server, [*where, "--model", "openai/mock", "--base-url", server.url]


def test_all_stages_one_after_the_other(given: tuple[MockOpenAI, list[str]], tmp_path: Path, capfd) -> None:
    server, options = given
    out, base = str(tmp_path / "out"), str(tiny_llama(tmp_path / "base", context=4096))
    grow = ["train", "agent", "grow", "--task", "nq_open_train", *options, "--out", out, "--limit", "3"]
    grow += ["--repeats", "2", "--set", "samples=2", "--set", "max_searches=2"]
    assert run([*grow, "--dry-run"]) == 0
    assert "grow: 6 trajectories" in capfd.readouterr().out
    assert not server.received
    assert run(grow) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "42 steps, 71% with a usable sample (decide 12/12" in said
    assert "relevance 0/12" in said
    paid = len(server.received)
    assert run(grow) == 0
    assert len(server.received) == paid, "a finished run is not paid again"
    assert run([*grow, "--limit", "5", "--seed", "9"]) == 2  # refused, so it has no questions
    assert len(json.loads((tmp_path / "out" / "questions.json").read_text())["ids"]) == 3

    assert run(["train", "agent", "mix", "--out", out]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "36 steps" in said
    assert "left out: 12 no usable sample" in said
    rows = read_rows(mixed := tmp_path / "out" / "data" / "mixture.jsonl", Demonstration)
    assert [message.role for message in rows[0].messages] == ["system", "user", "assistant"]
    assert SEARCHES[1] not in {row.messages[-1].content for row in rows}, "the first of equals was chosen"

    rank = ["train", "agent", "rank", *options[4:], "--out", out]
    assert run([*rank, "--dry-run"]) == 0
    assert run(rank) == 0
    assert "6 steps in" in " ".join(capfd.readouterr().out.split())
    paid = len(server.received)
    assert run(rank) == 0
    assert len(server.received) == paid
    assert run(["train", "agent", "mix", "--out", out, "--by", "ranking"]) == 0
    assert SEARCHES[1] in {row.messages[-1].content for row in read_rows(mixed, Demonstration)}

    capfd.readouterr()
    fit = ["train", "agent", "fit", "--out", out, "--base", base, "--max-length", "4096", "--threads", "1"]
    assert run([*fit, "--dry-run"]) == 0
    told = f"note: 1 of {len(rows) + 1} rows are longer than max_length=4096 and are left out"
    append_line(mixed, rows[0].model_copy(update={"messages": (rows[0].messages[0], *LONG)}).model_dump_json())
    assert run([*fit, "--quiet", "--epochs", "2", "--learning-rate", "1e-3"]) == 0
    said = capfd.readouterr()
    assert f"--model hf/{out}/model --set shots=0" in " ".join(said.out.split())
    assert said.err == told + "\n", "--quiet shows no bars of the libraries either"
    steps = read_metrics(tmp_path / "out" / "fit" / "model" / "metrics.jsonl")
    assert steps[-1]["loss"] < steps[0]["loss"]


def test_failed_questions_are_told_and_tried_again_by_the_same_command(
    given: tuple[MockOpenAI, list[str]], tmp_path: Path, capfd
) -> None:
    server, options = given
    grow = ["train", "agent", "grow", "--task", "nq_open_train", *options, "--out", str(tmp_path / "out")]
    grow += ["--limit", "3", "-j", "1", "--set", "samples=2", "--set", "max_searches=1"]
    server.misbehave("400")
    assert run(grow) == 3
    assert "1 question failed: the same command tries them again" in " ".join(capfd.readouterr().err.split())
    paid = len(server.received)
    assert run(grow) == 0, capfd.readouterr().err
    assert 0 < len(server.received) - paid < paid, "only the failed one is asked again"
    assert json.loads((tmp_path / "out" / "grown" / "summary.json").read_text())["failed"] == 0


def test_a_budget_limits_what_is_grown(given: tuple[MockOpenAI, list[str]], tmp_path: Path) -> None:
    _, options = given
    grow = ["train", "agent", "grow", "--task", "nq_open_train", *options, "--out", str(tmp_path / "out")]
    assert run([*grow, "--limit", "1", "--budget-tokens", "3000"]) == 0
    config = json.loads((tmp_path / "out" / "grown" / "config.json").read_text())
    assert config["budget"]["tokens"] == 3000
    assert config["settings"]["samples"] == 4, "its own size, which the limit ends"
    record = json.loads((tmp_path / "out" / "grown" / "scores.jsonl").read_text().splitlines()[0])
    assert record["usage"]["prompt"] + record["usage"]["completion"] <= 3000
