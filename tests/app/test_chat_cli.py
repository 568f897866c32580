"""`reground chat`: by a pipe, and in a pseudo-terminal as a person uses it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reground.app.cli import run
from reground.core.trajectory import read_trajectories
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving
from tests.signals import heed_ctrl_c

FIRST, FOLLOW_UP = "When was Charles Bridge finished?", "and who built it?"


def said(body):
    """Condenses the follow-up, and answers both questions."""
    prompt = body["messages"][-1]["content"]
    if "Last message:" in prompt:
        return "Who built Charles Bridge?"
    return "It was finished in 1402 [1]." if FIRST in prompt else "Petr Parler built it [1]."


@pytest.fixture
def server():
    with serving(MockOpenAI(said)) as server:
        yield server


@pytest.fixture
def options(home, server):
    text = "# Bridges\n\nCharles Bridge was finished in 1402.\n\nPetr Parler built it.\n"
    (home / "docs").mkdir()
    (home / "docs" / "bridges.md").write_text(text)
    return ["chat", "-c", "docs", "--method", "rag", "--model", "openai/mock", "--base-url", server.url]


@pytest.fixture
def piped(options, monkeypatch, capsys):
    """Asks the lines of a pipe, and gives the exit code, the output and the errors."""

    def ask(more, *lines):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return run([*options, *more]), *capsys.readouterr()

    return ask


def kinds(file=None):
    """What the lines of a conversation are, by default of the only one."""
    (file,) = Path("home", "conversations").glob("*.jsonl") if file is None else [file]
    return [json.loads(line)["kind"] for line in file.read_text().splitlines()]


def test_questions_from_a_pipe_and_a_follow_up(piped, server):
    code, out, _ = piped(["--trace", "trace.jsonl"], FIRST, "", FOLLOW_UP)
    assert code == 0
    assert "It was finished in 1402 [1]." in out
    assert "asked: Who built Charles Bridge?" in out
    assert "“Charles Bridge was finished in 1402.”" in out
    assert "bridges.md:3" in out
    traced = list(read_trajectories(Path("trace.jsonl")))
    assert [each.question for each in traced] == [FIRST, "Who built Charles Bridge?"]
    assert kinds() == ["question", "answer"] * 2
    assert len(server.received) == 3


def test_json_is_one_line_an_answer_and_the_exit_code_tells_the_worst(piped, server):
    server.misbehave("ok", "400")
    code, out, err = piped(["--json"], FIRST, "Why does it fail?")
    answered, failed = (json.loads(line) for line in out.splitlines())
    assert (code, answered["answer"]) == (1, "It was finished in 1402 [1].")
    assert answered["sentences"][0]["supports"][0]["line"] == 3
    assert failed["question"] == "Why does it fail?"
    assert failed["error"] in err
    assert "secret" not in out + err
    assert piped(["--json"], "Xylophones?")[0] == 4


def test_a_conversation_is_taken_up(piped, server):
    talk = ["--conversation", "talk.jsonl"]
    assert piped(talk, FIRST)[0] == 0
    code, _, err = piped(talk, FIRST)
    assert (code, "--resume takes a conversation up" in err) == (2, True)
    with Path("talk.jsonl").open("a") as written:
        written.write('{"kind":"question","te')
    code, out, err = piped([*talk, "--resume"], FOLLOW_UP, "/quit", FIRST)
    assert (code, "talk.jsonl.damaged" in err) == (0, True)
    assert "taken up after 1 question; the last: When was Charles Bridge finished?" in err
    assert "asked: Who built Charles Bridge?" in out
    assert "Petr Parler built it" in out
    assert kinds(Path("talk.jsonl")) == ["question", "answer"] * 2
    assert len(server.received) == 3


def test_what_cannot_be_asked_is_refused_before_a_model_is_brought(capsys):
    assert run(["chat", "--model", "gguf/no-such-model"]) == 2
    assert "needs documents" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--resume"], "no conversation in "),
        (["--resume", "--conversation", "none.jsonl"], "no conversation in none.jsonl"),
        (["--support", "embedding"], "the check embedding needs what to check with"),
        (["--model", "opnai/x"], "did you mean openai"),
        (["--trace", "docs/bridges.md"], "docs/bridges.md holds something else than trajectories"),
        (["--conversation", "docs/bridges.md"], "docs/bridges.md holds something else than a conversation"),
        (["--conversation", "docs/bridges.md", "--resume"], "docs/bridges.md holds something else than a conversation"),
    ],
)
def test_wrong_options_are_refused_in_a_line(piped, server, more, why):
    code, _, err = piped(more, FIRST)
    assert (code, why in err, len(err.splitlines())) == (2, True, 1)
    assert not server.received
    assert not [*Path("home").glob("conversations/*")]


class Terminal:
    """A person at a pseudo-terminal."""

    def __init__(self, command):
        self._mine, theirs = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reground", *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
            preexec_fn=heed_ctrl_c,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, text):
        os.write(self._mine, text.encode())

    def asks(self, question):
        self.waits_for("> ")
        self.type(f"{question}\n")

    def waits_for(self, text, seconds=60.0):
        """Reads until a text appears, and returns what came before it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} did not come: {self.seen[-2000:]}"
            if select.select([self._mine], [], [], left)[0]:
                self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self._mine, 65536).decode())
        before, _, self.seen = self.seen.partition(text)
        return before

    def ends(self, *, interrupted=False):
        """Reads to the end, and returns the exit code. interrupted: by Ctrl-C at the prompt.

        readline does not see a signal that comes between its prompt and its wait for a key, so it is sent again.
        """
        while True:
            try:
                while interrupted and not select.select([self._mine], [], [], 1.0)[0]:
                    self.process.send_signal(signal.SIGINT)
                if not os.read(self._mine, 65536):
                    break
            except OSError:  # the other side is closed
                break
        return self.process.wait(20)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._mine)


@pytest.fixture
def terminal(options):
    made: list[Terminal] = []

    def start(*more):
        made.append(Terminal([*options, *more]))
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_a_conversation_in_a_terminal(terminal):
    person = terminal()
    person.waits_for("Ctrl-D end")
    for word in ("/help", "/halp"):  # which are no questions
        person.asks(word)
        person.waits_for("Ctrl-D end")
    person.asks(FIRST)
    person.waits_for("It was finished in 1402 [1].")
    person.waits_for("Supported by")
    person.asks(FOLLOW_UP)
    person.waits_for("asked: Who built Charles Bridge?")
    person.waits_for("Petr Parler built it [1].")
    person.asks("\x10\x10")  # Ctrl-P: the line two back is the first question
    person.waits_for("asked: Who built Charles Bridge?")
    person.waits_for("> ")
    person.type("\x04")
    person.waits_for("--resume takes it up")
    assert person.ends() == 0 and kinds() == ["question", "answer"] * 3


def test_steps_are_told_while_the_question_is_in_work(terminal, server):
    """And the last one, which is the answer, is not told twice."""
    server.misbehave("ok", "ok", "stall")  # the draft and the query, then nothing more
    person = terminal("--method", "rat")
    person.asks(FIRST)
    for told in ("draft: It was finished in 1402", "query: It was finished", "found: Bridges"):
        person.waits_for(told)
    while len(server.received) < 3:
        time.sleep(0.02)
    person.process.send_signal(signal.SIGINT)
    person.waits_for("stopped; Ctrl-C again ends")
    person.asks(FIRST)
    assert "revise: " not in person.waits_for("Supported by")


def test_ctrl_c_stops_the_question_within_a_second_and_then_the_conversation(terminal, server):
    server.misbehave("stall")
    person = terminal()
    person.asks(FIRST)
    person.waits_for("answer")
    while not server.received:  # else the second question would be the one that stalls
        time.sleep(0.02)
    person.process.send_signal(signal.SIGINT)
    began = time.monotonic()
    person.waits_for("stopped; Ctrl-C again ends", 2.0)
    assert time.monotonic() - began < 1.5
    person.asks(FIRST)
    person.waits_for("It was finished in 1402 [1].")
    person.waits_for("> ")
    person.process.send_signal(signal.SIGINT)
    assert person.ends(interrupted=True) == 0
    assert kinds() == ["question", "stopped", "question", "answer"]


def test_nothing_is_lost_to_kill_9_and_the_question_goes_on(terminal, server):
    person = terminal()
    person.asks(FIRST)
    person.waits_for("It was finished in 1402 [1].")
    person.waits_for("> ")
    server.misbehave("ok", "stall")  # the follow-up is condensed, and its answer never comes
    person.type(f"{FOLLOW_UP}\n")
    person.waits_for("answer")
    person.process.kill()
    assert person.ends() == -signal.SIGKILL
    assert kinds() == ["question", "answer", "question"]
    paid = len(server.received)
    again = terminal("--resume")
    again.waits_for("taken up after 1 question")
    again.waits_for(f"going on with: {FOLLOW_UP}")
    again.waits_for("Petr Parler built it [1].")
    again.asks("/quit")
    assert len(server.received) == paid + 1  # the condensed question is not paid again
    assert again.ends() == 0
