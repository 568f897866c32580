"""`reground.ask` as it is called from scripts and notebooks, with what people hand in."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import inspect
import os
import signal
import threading
import time
import warnings
from pathlib import Path

import pytest

import reground
from reground.app.options import Ask, meanings
from reground.core.errors import CapabilityError, ConfigurationError, DataError, ModelError, RegroundError
from reground.core.evidence import Passage
from reground.core.language import Grammar, Message, Sampling
from reground.models.function import FunctionModel
from reground.models.options import ModelOptions
from reground.models.scripted import ScriptedModel
from reground.retrieval.index import build_index
from reground.retrieval.settings import IndexSettings
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

pytestmark = pytest.mark.usefixtures("home")


async def test_ask_works_where_an_event_loop_runs_already() -> None:
    assert reground.ask("Why?", method="direct", model=ScriptedModel(["Because."])).text == "Because."
    with pytest.raises(ModelError, match="down"):
        reground.ask("Why not?", method="direct", model=ScriptedModel([ModelError("down")]))


def test_ctrl_c_in_a_notebook_ends_the_work_in_its_thread() -> None:
    began, ended = threading.Event(), threading.Event()

    async def slow(prompt: str) -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    async def notebook() -> None:
        reground.ask("Why?", method="direct", model=slow)

    def interrupt() -> None:
        began.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    loop = asyncio.new_event_loop()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background ignores Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(notebook())
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()
    assert ended.is_set()
    assert time.monotonic() - started < 30


def test_help_shows_every_option_and_the_coroutine_has_the_same() -> None:
    shown = inspect.signature(reground.ask).parameters
    assert shown == inspect.signature(reground.aask).parameters
    assert next(iter(shown)) == "question"
    assert inspect.iscoroutinefunction(reground.aask)
    words = meanings(Ask)
    for field in dataclasses.fields(Ask):
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        assert shown[field.name].default == default
        assert f"{field.name}: {words[field.name]}" in " ".join((reground.ask.__doc__ or "").split())
    assert len(shown) == len(words)


@pytest.mark.parametrize(("wrong", "right"), [("corpsu", "corpus"), ("setings", "settings"), ("modle", "model")])
def test_a_misspelt_keyword_is_answered_with_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(TypeError, match=rf"ask\(\) takes no '{wrong}'; did you mean {right}"):
        reground.ask("Why?", **{wrong: "x"})
    with pytest.raises(AttributeError):
        _ = getattr(reground, wrong)


@pytest.mark.parametrize("budget", [5, {"tokens": 5}, reground.Budget(tokens=5)])
def test_a_number_is_a_budget_of_tokens(budget: object) -> None:
    with pytest.raises(RegroundError, match="of 5 tokens"):
        reground.ask("Why?", method="direct", model=ScriptedModel(["x"]), budget=budget)


def plain(prompt: str) -> str:
    return f"I heard: {prompt[:4]}"


async def waiting(prompt: str) -> str:
    return plain(prompt)


@pytest.mark.parametrize("function", [plain, waiting, lambda prompt: plain(prompt)])
def test_a_function_is_a_model(function: object) -> None:
    result = reground.ask("Why?", method="direct", model=function)
    assert result.text.startswith("I heard:")
    assert result.usage.calls == 1
    assert result.usage.prompt > 0


def test_an_answer_is_checked_in_the_language_of_its_index(home: Path) -> None:
    documents = home / "de"
    documents.mkdir()
    (documents / "a.md").write_text("Mieter müssen dem Vermieter entstandene Schäden unverzüglich anzeigen.\n")
    build_index(documents, home / "de.idx", IndexSettings(language="de"))
    said = "Der Schaden ist von dem Mieter unverzüglich anzuzeigen."
    result = reground.ask("Wer zeigt Schäden an?", model=lambda prompt: said, method="rag", corpus=home / "de.idx")
    assert [sentence.supported for sentence in result.sentences] == [True]


async def test_a_function_keeps_to_no_grammar() -> None:
    held = Sampling(grammar=Grammar(gbnf='root ::= "a"', json_schema="{}"))
    with pytest.raises(CapabilityError, match="keeps to no grammar"):
        await FunctionModel(plain).generate([Message(role="user", content="Why?")], held)


def test_a_changed_function_is_another_model() -> None:
    assert FunctionModel(lambda prompt: "a").name != FunctionModel(lambda prompt: "b").name
    assert FunctionModel(plain).name == FunctionModel(plain).name


WRONG = [
    *(("budget", value, "budget") for value in ("1000", True, 0.5, {"token": 5}, {"tokens": "many"})),
    *(("model", value, "a model is") for value in (5, None, ScriptedModel)),
    *(("corpus", value, "corpus") for value in ([], [5], 5)),
    ("corpus", ["docs/absent.md", "A text of its own."], "absent"),
    *(
        ("model_options", value, "price|timeout|tiemout|model_options")
        for value in ({"price": 5}, {"timeout": float("inf")}, {"timeout": "x"}, {"tiemout": 1}, 5)
    ),
]


@pytest.mark.parametrize(("name", "value", "says"), WRONG)
def test_a_keyword_of_another_type_is_said(name: str, value: object, says: str) -> None:
    with pytest.raises((ConfigurationError, DataError), match=says):
        reground.ask("Why?", **{"method": "rag", "corpus": ["A text."], "model": ScriptedModel(["x"]), name: value})
    assert ModelOptions(timeout=5).timeout == 5


def test_a_function_that_returns_no_text_is_named() -> None:
    with pytest.raises(ModelError, match="returned int"):
        reground.ask("Why?", method="direct", model=lambda prompt: 5)


def test_a_list_of_texts_passages_and_paths_is_a_corpus(home: Path) -> None:
    (home / "docs").mkdir()
    (home / "docs" / "seine.md").write_text("# Seine\n\nThe Seine flows through Paris.\n")
    corpus = ["The Danube flows through Vienna.", Passage(id="rhine", text="The Rhine flows through Cologne."), "docs"]
    for question, source in (("Vienna Danube", "text-1"), ("Cologne Rhine", "rhine"), ("Paris Seine", "docs/seine.md")):
        model = ScriptedModel(["There [1]."])
        result = reground.ask(question, method="rag", model=model, corpus=corpus, settings={"k": 1})
        assert result.citations[0].passage_id.startswith(source)


def test_an_embedders_connections_are_closed(home: Path, monkeypatch) -> None:
    pytest.importorskip("lancedb")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    (home / "docs").mkdir()
    (home / "docs" / "seine.md").write_text("# Seine\n\nThe Seine flows through Paris.\n")
    with serving(MockOpenAI()) as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build_index(
            home / "docs", home / "x.idx", IndexSettings(kind="dense", embedder="openai/e", embedder_url=server.url)
        )
        reground.ask("Where?", method="rag", model=ScriptedModel(["Paris [1]."]), corpus=home / "x.idx")
        gc.collect()
    assert [str(each.message) for each in caught if "nclosed" in str(each.message)] == []


def test_a_result_is_shown_with_its_evidence_and_without_markup(docs: Path, capsys) -> None:
    assert {"ask", "check"} <= {*dir(reground)}
    with serving(MockOpenAI(lambda body: "The Seine is <b>775 km</b> long [1]. It is green [1].")) as server:
        how = {"model": "openai/mock", "base_url": server.url, "attempts": 2, "model_options": {"timeout": 9}}
        result = reground.ask("How long is the Seine?", corpus=docs, **how)
        assert capsys.readouterr().err == ""
    checked = reground.check("The Seine is 775 km long. It is green.", corpus=docs)
    assert "not found: It is green." in checked._repr_html_() and "“The Seine flows" in checked._repr_markdown_()
    assert "775 km" in repr([result, checked]) and "quotes: 1, calls: 1" in repr(result) and len(repr(result)) < 200
    for shown in (result._repr_html_(), result._repr_markdown_()):
        assert "<b>" not in shown and "not supported" in shown and "seine.md" in shown
        assert shown.index("775 km") < shown.index("“The Seine flows") < shown.index("green")
    with pytest.raises(TypeError, match="base_url"):
        reground.ask("Why?", base_urll="x")
