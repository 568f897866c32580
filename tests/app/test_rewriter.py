"""A rewriter of its own beside the model: `rewriter=` in Python, `--rewriter` for ask, eval and compare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import reground
from reground.app import catalogue
from reground.app.cli import run
from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage
from reground.models.options import ModelOptions, Price
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import MockOpenAI
from tests.servers import model_of, serving

METHOD = "rewrite_retrieve_read"
RETRIEVER = ScriptedRetriever([Passage(id="a", title="A", text="The Danube flows through Vienna.")])


class Closing(ScriptedModel):
    """A scripted model that counts how often it was closed."""

    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def ask(rewriter, home: Path, model=None, **more):
    model = model if model is not None else ScriptedModel(["The Danube [1]."])
    return reground.ask(
        "Which river?", method=METHOD, model=model, rewriter=rewriter, corpus=RETRIEVER, home=home, **more
    )


def test_a_rewriter_of_one_s_own_rewrites_and_is_closed(tmp_path: Path) -> None:
    model, rewriter = Closing(["The Danube [1]."]), Closing(["Danube Vienna"], name="mine")
    result = ask(rewriter, tmp_path, model)
    assert rewriter.prompts == ["rewrite a better search query: Which river?"]
    assert [step.query for step in result.steps] == ["Danube Vienna"]
    assert (model.closed, rewriter.closed) == (1, 1)


def test_both_are_closed_when_the_method_cannot_be_built(tmp_path: Path) -> None:
    model, rewriter = Closing([]), Closing([])
    with pytest.raises(ConfigurationError):
        ask(rewriter, tmp_path, model, settings={"k": 0})
    assert (model.closed, rewriter.closed) == (1, 1)


def test_runs_with_different_rewriters_are_different_runs(tmp_path: Path) -> None:
    runs = set()
    for rewriter in (None, ScriptedModel(["one"], name="one"), ScriptedModel(["two"], name="two")):
        script = ["Queries: mine", "Answer [1]."] if rewriter is None else ["Answer [1]."]
        runs.add(ask(rewriter, tmp_path, ScriptedModel(script)).trajectory.id)
    assert len(runs) == 3
    configs = [json.loads(path.read_text()) for path in tmp_path.glob("ask-*/config.json")]
    assert sorted(str(config["model_settings"].get("rewriter")) for config in configs) == ["None", "one", "two"]
    silent = ScriptedModel([], name="one")
    assert ask(silent, tmp_path, ScriptedModel([])).text == "Answer [1]."


def test_a_rewriter_is_no_setting() -> None:
    parts = {"model": ScriptedModel([]), "retriever": RETRIEVER}
    with pytest.raises(ConfigurationError, match="no setting 'rewriter'"):
        catalogue.build_method(METHOD, **parts, settings={"rewriter": "x"})
    assert "rewriter" not in catalogue.method(METHOD).defaults
    assert "rewriter_style" in catalogue.method(METHOD).defaults


def test_a_rewriter_in_this_process_costs_no_server_s_price_and_has_no_adapter_of_another(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra [train]")
    options = ModelOptions(price=Price.parse("1,2"), adapter=tmp_path, threads=1)
    rewriter = catalogue.load_model("hf/somewhere", options, helper=True)
    assert rewriter.name == "hf/somewhere"
    inner = rewriter
    while hasattr(inner, "model"):
        inner = inner.model
    assert inner._options == ModelOptions(threads=1)


# The command line


@pytest.fixture
def server(docs: Path, bamboogle: list[str]) -> Iterator[MockOpenAI]:
    questions = Path("data/bamboogle/questions.jsonl")
    questions.write_text(re.sub(r"W\d", "Danube", questions.read_text()))

    def say(body):
        return "Danube Vienna" if body["model"].startswith("rewriter") else "Answer: Danube **"

    with serving(MockOpenAI(say, models=("mock", "rewriter", "rewriter-2"))) as serving_now:
        yield serving_now


def asked(server: MockOpenAI) -> list[str]:
    return [body["model"] for body in server.received]


def test_ask_takes_a_rewriter(server: MockOpenAI, capsys) -> None:
    arguments = ["ask", "Which river flows through Vienna?", "-m", METHOD, "-c", "docs", *model_of(server)]
    assert run([*arguments, "--rewriter", "openai/rewriter", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "Danube" in answer["answer"]
    assert [step["query"] for step in answer["steps"]] == ["Danube Vienna"]
    assert asked(server) == ["rewriter", "mock"]


def evaluation(server: MockOpenAI, command: str, *more: str) -> int:
    where = ["--task", "bamboogle", "--data", "data", "--limit", "2", "--corpus", "docs", "--out", "out"]
    return run([command, *where, *model_of(server), *more])


def test_eval_takes_a_rewriter_and_does_not_mix_two(server: MockOpenAI, capfd) -> None:
    with_rewriter = ["--method", METHOD, "--rewriter", "openai/rewriter"]
    assert evaluation(server, "eval", *with_rewriter) == 0
    assert sorted(asked(server)) == ["mock", "mock", "rewriter", "rewriter"]
    summary = json.loads(Path("out/summary.json").read_text())
    assert [summary["metrics"][name]["mean"] for name in ("exact match", "hit")] == [1.0, 1.0]
    assert json.loads(Path("out/config.json").read_text())["model_settings"]["rewriter"] == "openai/rewriter"
    assert evaluation(server, "eval", *with_rewriter) == 0
    assert len(asked(server)) == 4
    capfd.readouterr()
    for other in (["--rewriter", "openai/rewriter-2"], []):
        assert evaluation(server, "eval", "--method", METHOD, *other) == 2
        assert "model_settings.rewriter was" in capfd.readouterr().err
    assert len(asked(server)) == 4


def test_compare_gives_the_rewriter_to_the_methods_that_take_one(server: MockOpenAI) -> None:
    both = ["--methods", f"rag,{METHOD}", "--budgets", "2k", "--rewriter", "openai/rewriter"]
    assert evaluation(server, "compare", *both) == 0
    assert asked(server).count("rewriter") == 2
    settings = {
        name: json.loads(Path(f"out/{name}@2k/config.json").read_text())["model_settings"]
        for name in both[1].split(",")
    }
    assert settings[METHOD]["rewriter"] == "openai/rewriter"
    assert "rewriter" not in settings["rag"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask", "Why?", "-m", "rag", "-c", "docs"], "rag would not use it"),
        (["compare", "--task", "bamboogle", "--data", "data", "-m", "direct,rag"], "direct, rag would not use it"),
        (["ask", "Why?", "-m", METHOD, "-c", "docs", "--budget-usd", "1"], "--price"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_is_asked(
    server: MockOpenAI, arguments: list[str], says: str, capsys
) -> None:
    model = "hf/x" if "--budget-usd" in arguments else "openai/mock"
    given = ["--model", model, "--base-url", server.url]
    assert run([*arguments, *given, "--rewriter", "openai/rewriter"]) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert "Traceback" not in said.err
    assert server.received == []
