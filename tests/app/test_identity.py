"""What makes the same question another run, and what a run that goes on has to pay."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import reground
from reground.app.cli import run
from reground.app.runs import resolved
from reground.core.answers import Answer
from reground.core.budget import Budget
from reground.core.errors import EmptyAnswer
from reground.core.evidence import Passage
from reground.core.language import Reply
from reground.core.run import Run
from reground.core.trajectory import read_trajectories
from reground.models.options import ModelOptions, Price
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import MockOpenAI
from tests.servers import in_order, model_of, serving

METHOD = '''"""Asks."""
from dataclasses import dataclass
from reground.core.answers import TEXT, Answer


@dataclass(frozen=True, kw_only=True)
class Asks:
    """Asks. k: nothing."""

    model: object
    form: object = TEXT
    k: int = 1

    async def solve(self, question, run, /):
        return Answer(text=await run.ask(self.model, question, name="x"))


METHOD = Asks
'''


pytestmark = pytest.mark.usefixtures("home")


def ask(*, said: str, options: ModelOptions | None = None, **more: object) -> str:
    model = ScriptedModel([said])
    return reground.ask("Why?", method="direct", model=model, model_options=options, **more).text


def test_a_question_and_an_evaluation_are_named_alike(home: Path, bamboogle: list[str]) -> None:
    (home / "mine.py").write_text(METHOD)
    with serving(in_order("One.", "Two.", "Three.")) as server:
        given = ["--method", "mine.py", *model_of(server), "-q", "--set", "k=3"]
        assert run(["eval", *bamboogle, *given, "--out", "RUN", "--limit", "1"]) == 0
        assert run(["ask", "Why?", *given]) == 0
        (home / "mine.py").write_text(METHOD + "# another method")
        assert run(["ask", "Why?", *given]) == 0
    asked = [json.loads(path.read_text()) for path in sorted((home / "home").glob("runs/*/config.json"))]
    evaluated = json.loads((home / "RUN" / "config.json").read_text())
    assert len({config["settings"]["file"] for config in asked}) == len(asked) == 2
    same = ("method", "model", "retriever", "settings", "model_settings")
    assert evaluated["settings"]["k"] == 3
    assert [evaluated[name] for name in same] in [[config[name] for name in same] for config in asked]


def test_what_changes_replies_is_another_run_and_a_default_is_not(home: Path) -> None:
    assert ask(said="One.") == "One."
    assert ask(said="Two.", options=ModelOptions(dtype="bfloat16")) == "Two."
    assert ask(said="Three.", options=ModelOptions(context=1024)) == "Three."
    assert ask(said="never", options=ModelOptions(dtype="auto")) == "One."
    for said in ("Four.", "Five."):
        (home / "adapter_model.safetensors").write_text(said)
        assert ask(said=said, options=ModelOptions(adapter=home)) == said, "the content of an adapter's folder"


def test_another_server_is_another_run_also_where_the_environment_names_it(monkeypatch) -> None:
    for said in ("One.", "Two."):
        with serving(in_order(said)) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            assert reground.ask("Why?", method="direct", model="openai/mock").text == said


def test_sets_and_functions_among_settings_are_told_apart() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Own:
        allowed: object = None

        async def solve(self, question: str, run: Run, /) -> Answer:
            return Answer(text=question)

    values = [frozenset({"en"}), frozenset({"de"}), lambda text: text + "a", lambda text: text + "b"]
    found = [json.dumps(resolved(Own(allowed=value))) for value in values]
    assert len(set(found)) == 4
    assert resolved(Own(allowed=frozenset({"en", "de"}))) == resolved(Own(allowed=frozenset({"de", "en"})))


@pytest.mark.parametrize("secret", ["http://user:hunter2@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key=hunter2"])
def test_a_base_url_with_a_secret_is_refused_and_not_repeated(secret: str, capsys, home: Path) -> None:
    assert run(["ask", "Why?", "--method", "direct", "--model", "openai/mock", "--base-url", secret]) == 2
    said = capsys.readouterr().err
    assert "--api-key-env" in said
    assert "hunter" not in said
    assert not [path for path in home.rglob("*") if path.is_file() and b"hunter" in path.read_bytes()]


@pytest.mark.usefixtures("docs")
def test_calls_paid_before_a_price_was_given_count_at_that_price(capsys) -> None:
    with serving(MockOpenAI(lambda body: "The Danube.\n\nAnother.")) as server:
        arguments = ["ask", "Where?", "--corpus", "docs", "-m", "rar", *model_of(server)]
        assert run([*arguments, "--budget-calls", "2"]) == 0
        assert run([*arguments, "--budget-usd", "1", "--price", "1,2"]) == 0, capsys.readouterr().err
        assert "USD" in capsys.readouterr().out


def test_the_price_of_a_replayed_call_is_that_of_the_whole_call(home: Path) -> None:
    with serving(in_order("One two three.")) as server:
        options = ModelOptions(base_url=server.url)
        free = reground.ask("Why?", method="direct", model="openai/mock", model_options=options)
        priced = ModelOptions(base_url=server.url, price=Price(1.0, 1.0, 2.0))
        again = reground.ask("Why?", method="direct", model="openai/mock", model_options=priced, budget=Budget(usd=1.0))
    assert free.usage.usd is None
    assert again.usage.usd == pytest.approx((free.usage.prompt + 2 * free.usage.completion) / 1e6)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(text=" "), "no text"),
        (Reply(text="<think>Hm", finish_reason="length"), "still thinking .*max_tokens=4096"),
        (Reply(text="", finish_reason="length"), "before it wrote a word"),
        (Reply(text="", finish_reason="tool_calls"), "tool instead of text"),
        (Reply(text="", finish_reason="content_filter"), "content filter"),
    ],
)
def test_an_answer_without_text_is_a_failure_with_its_reason(reply: Reply, why: str, tmp_path: Path) -> None:
    with pytest.raises(EmptyAnswer, match=why):
        reground.ask("Why?", method="direct", model=ScriptedModel([reply]), home=tmp_path)
    (path,) = tmp_path.glob("ask-*/trajectory.jsonl")
    (trajectory,) = read_trajectories(path)
    assert trajectory.failure is not None
    assert trajectory.failure.type == "EmptyAnswer"


@pytest.mark.parametrize("said", ["[1]", " [1], [2].", "[1, 2]"])
def test_an_answer_of_nothing_but_markers_is_a_failure(said: str, home: Path) -> None:
    notes = ScriptedRetriever([Passage(id=name, text=f"The {name} bridge is old.") for name in ("north", "south")])
    with pytest.raises(EmptyAnswer, match=r"only the number of a passage, \[1"):
        reground.ask("Which bridge is old?", corpus=notes, model=ScriptedModel([said] * 2), home=home)
    with pytest.raises(EmptyAnswer, match="no text"):
        reground.ask("Which bridge?", corpus=notes, model=ScriptedModel([" "]), home=home)
    listed = reground.ask("Which rows?", method="direct", model=ScriptedModel([said]), home=home)
    assert listed.text.strip() == said.strip(), "without passages a bracket is no marker"


def test_an_answer_without_text_has_exit_code_1_and_one_line(capsys) -> None:
    with serving(in_order("<think>Only a thought</think>")) as server:
        assert run(["ask", "Why?", "--method", "direct", *model_of(server), "-q"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: the answer is empty")
    assert len(said.err.strip().splitlines()) == 1
