"""`reground questions` as a user runs it, against a server on loopback."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reground.app.cli import run
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving
from tests.signals import heed_ctrl_c

TOWNS = ("Arles", "Bruges", "Cadiz", "Delft", "Essen")


def reply(body: dict[str, Any]) -> str:
    """Writes a question about the town of a pair, and answers it only where both passages are shown."""
    prompt = str(body["messages"][-1]["content"])
    person = re.search(r"Person (\w+) was born", prompt)
    if "Write one question" in prompt:
        assert person is not None
        name = person[1]
        return f"Question: Which {name} {name} {name} river runs by the birthplace of {name}?\nAnswer: river of {name}"
    river = re.search(r"along the (river of \w+)", prompt)
    return f"Answer: {river[1]}" if prompt.count("<passage ") == 2 and river else "Answer: Not in these passages."


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MockOpenAI]:
    docs = tmp_path / "docs"
    docs.mkdir()
    for town in TOWNS:
        (docs / f"{town}.md").write_text(f"# {town}\n\nThe town lies along the river of {town}x.\n")
        (docs / f"person-{town}.md").write_text(f"# Somebody\n\nPerson {town}x was born in {town}.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serving(MockOpenAI(reply)) as mock:
        monkeypatch.setenv("OPENAI_BASE_URL", mock.url)
        yield mock


COMMAND = ["questions", "--corpus", "docs", "-n", "3", "--model", "openai/mock", "-j", "1"]


def lines(path: str = "questions.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_questions_are_proposed_and_the_command_that_compares_can_be_pasted(server: MockOpenAI, capfd) -> None:
    Path("docs").rename("my docs")
    more = ["--corpus", "my docs", "--base-url", server.url, "--language", "German"]
    assert run([*COMMAND, *more]) == 0, capfd.readouterr().err
    out, err = capfd.readouterr()
    found = lines()
    assert len(found) == 3
    for one in found:
        person, town = sorted(one["passages"], reverse=True)
        assert person == f"person-{town}"
        assert one["answer"] in Path("my docs", town).read_text()
    assert "3 of 3 questions from 3 pairs of passages" in out
    assert "3/3 questions" in err
    compare = re.search(r"reground (compare --questions questions.jsonl .*)", out)
    assert compare is not None
    command = [*shlex.split(compare[1]), "--methods", "direct,rag", "--budgets", "none", "--out", "cmp"]
    assert run(command) == 0, capfd.readouterr().err
    configs = [json.loads(path.read_text()) for path in Path("cmp").rglob("config.json")]
    (searched,) = [config["retriever"] for config in configs if config["method"] == "rag"]
    assert "links" in searched, "own questions are searched as who asks searches"
    (report,) = json.loads(Path("cmp/report.json").read_text())["reports"]
    scored = {each["label"]: each["metrics"]["token F1"]["scored"] for each in report["runs"]}
    assert scored == {"direct@none": 3, "rag@none": 3}


def test_the_same_command_pays_for_nothing_and_more_are_added(server: MockOpenAI, capfd) -> None:
    assert run(COMMAND) == 0
    before, asked = lines(), len(server.received)
    assert run(COMMAND) == 0
    assert (lines(), len(server.received)) == (before, asked)
    capfd.readouterr()
    assert run([*COMMAND, "-n", "4", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert lines()[:3] == before
    assert (told["kept"], told["questions"]) == (4, lines())
    assert len(server.received) - asked == 4


def test_an_index_has_the_same_passages_as_its_documents(server: MockOpenAI) -> None:
    assert run(["index", "docs", "--out", "docs.idx", "-q"]) == run(COMMAND) == 0
    assert run([*COMMAND, "--corpus", "docs.idx", "--out", "more.jsonl"]) == 0
    assert lines("more.jsonl") == lines()


def test_a_budget_ends_it_and_a_larger_one_goes_on(server: MockOpenAI, capfd) -> None:
    assert run([*COMMAND, "--budget-calls", "5"]) == 0
    assert "the calls budget ended it" in capfd.readouterr().out
    assert (len(lines()), len(server.received)) == (1, 5)
    assert run(COMMAND) == 0
    assert (len(lines()), len(server.received)) == (3, 12)


def test_killed_and_started_again_it_goes_on(server: MockOpenAI) -> None:
    server.latency = 0.1
    process = subprocess.Popen(
        [sys.executable, "-c", "from reground.app.cli import main; main()", *COMMAND],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c,
    )  # fmt: skip
    while process.poll() is None and not Path("questions.jsonl").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(lines()) < 3
    server.latency = 0
    asked = len(server.received)
    assert run(COMMAND) == 0
    assert len(lines()) == 3
    assert len(server.received) <= 12 + 1, f"only what was in flight of {asked} calls is asked again"


def test_what_cannot_work_is_said_in_a_line(server: MockOpenAI, tmp_path: Path, capfd) -> None:
    lonely = tmp_path / "lonely"
    lonely.mkdir()
    (lonely / "a.md").write_text("# One\n\nNothing links this.\n")
    for more, said in (
        (["--corpus", "lonely", "--out", "a.jsonl"], "no two of its 1 passages share a rare name or title"),
        (["--corpus", "nowhere", "--out", "b.jsonl"], "there is no such corpus"),
        (["--out", "docs"], "is a folder"),
    ):
        assert run([*COMMAND, *more]) == 2
        assert said in " ".join(capfd.readouterr().err.split())
    assert server.received == []
    server.script = lambda body: "I cannot."
    Path("reground.toml").write_text("tries = 2\n")
    assert run(COMMAND) == 1
    out = capfd.readouterr().out
    assert "0 of 3 questions from 2 pairs" in out
    assert "dropped: 2 not in the form asked for" in out
    assert not Path("questions.jsonl").exists()
