"""Methods and models by name, and methods in the user's own files: presets, settings, what is said of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reground.app import catalogue
from reground.app.cli import run
from reground.app.cli.flags import parse_settings
from reground.app.runs import resolved
from reground.core.errors import ConfigurationError
from reground.evaluation.scaling import scaled
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import MockOpenAI
from tests.servers import model_of, serving


class NoSandbox:
    name = "none"

    async def execute(self, program: object, /) -> object:
        raise AssertionError("nothing is executed here")


def built(name: str, **settings: object) -> Any:
    return catalogue.build_method(
        name, model=ScriptedModel([]), retriever=ScriptedRetriever([]), sandbox=NoSandbox(), settings=settings
    )


@pytest.mark.parametrize(
    "name", [f"{name}+{preset}" for name in sorted(catalogue.methods()) for preset in catalogue.method(name).presets]
)
def test_every_preset_of_every_method_can_be_built_and_scaled(name: str) -> None:
    assert type(scaled(built(name), 2000)) is type(built(name))


def test_every_method_resolves_to_plain_settings() -> None:
    for name in catalogue.methods():
        settings = resolved(built(name))
        assert json.loads(json.dumps(settings)) == resolved(built(name))
        assert not {"model", "retriever", "sandbox", "form"} & settings.keys()
        assert " at 0x" not in json.dumps(settings)


def test_a_hyphen_may_stand_for_an_underscore_in_the_name_of_a_method_or_preset(tmp_path: Path) -> None:
    assert catalogue.method("search-agent").name == "search_agent"
    assert catalogue.method("cr-planner+no-retrieval").name == "cr_planner+no_retrieval"
    assert catalogue.method("search-agent") == catalogue.method("search_agent")
    assert catalogue.method("search-agent").needs == {"retriever"}
    own = tmp_path / "my-own.py"
    own.write_text("from reground.methods.baselines import ChainOfThought as METHOD\n")
    assert catalogue.method(str(own)).name == str(own)
    with pytest.raises(ConfigurationError, match=r"search-agnt.*search_agent"):
        catalogue.method("search-agnt")


def test_settings_are_read_as_the_fields_type_and_override_the_preset() -> None:
    assert built("rag", k="3").k == 3
    assert built("rar+paper", max_rounds=7).max_rounds == 7
    assert type(built("rar+paper")) is type(built("rar"))
    for wrong, why in (({"kk": 3}, "no setting 'kk'"), ({"k": "many"}, "cannot be 'many'")):
        with pytest.raises(ConfigurationError, match=why):
            built("rag", **wrong)


NAMES = [
    f"{name}{preset}"
    for name in sorted(catalogue.methods())
    for preset in ("", *(f"+{each}" for each in catalogue.method(name).presets if each != "paper"))
]


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_that_is_listed_is_read_back_as_it_is(name: str, capsys) -> None:
    assert run(["methods", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split("--set ", 1)[1] for line in lines if line.startswith("  --set ")]
    assert listed
    plain = built(name)
    bare = built(name.partition("+")[0], **parse_settings({}, listed))
    for each in listed:
        key = each.partition("=")[0]
        value = getattr(built(name, **parse_settings({}, [each])), key)
        assert value == getattr(plain, key) == getattr(bare, key), each
        assert type(value) is type(getattr(plain, key)), each


@pytest.mark.parametrize("none", ["none", "None", "null", "NONE", None])
def test_none_is_a_value_and_every_text_can_be_stored(none: str | None) -> None:
    assert built("rat", draft="a\udcff").draft == "a\ufffd"  # a byte of a command line that is no text
    assert built("rar", max_contents=none).max_contents is None
    with pytest.raises(ConfigurationError, match="cannot be 'none'"):
        built("rar", k="none")


def test_prompts_are_settings_by_name_and_a_misspelt_one_is_refused() -> None:
    assert built("direct", prompts={"answer": "{question}! {form}"}).prompts.answer == "{question}! {form}"
    for wrong, why in (({"anser": "x"}, "did you mean answer"), ({"answer": "x"}, "missing {form}"), ("x", "prompts")):
        with pytest.raises(ConfigurationError, match=why):
            built("direct", prompts=wrong)


@pytest.mark.parametrize(
    ("spec", "right"),
    [
        ("gpt-4o-mini", "openai/gpt-4o-mini"),
        ("o3-mini", "openai/o3-mini"),
        ("smollm2", "gguf/smollm2"),
        ("model.gguf", "gguf/model.gguf"),
        ("llama3.2", "ollama/llama3.2"),
        ("meta-llama/Llama-3.2-1B", "hf/meta-llama/Llama-3.2-1B"),
        ("olama/llama3.2", "ollama"),
    ],
)
def test_a_models_name_without_its_provider_is_answered_with_the_right_one(spec: str, right: str) -> None:
    with pytest.raises(ConfigurationError, match=right):
        catalogue.load_model(spec)


pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    ("text", "why"),
    [("x = 1\ny = absent\n", "own.py:2"), ("x = 1\n\ndef (\n", "own.py:3"), ("1 / 0", "own.py:1"), ("x = 1", "METHOD")],
)
def test_a_method_file_that_cannot_be_loaded_names_the_line(text: str, why: str, capsys, home: Path) -> None:
    assert run(["ask", "Why?", "--method", "./own.py"]) == 2 and "no method file" in capsys.readouterr().err
    (home / "own.py").write_text(text)
    assert run(["ask", "Why?", "--method", "./own.py"]) == 2 and why in capsys.readouterr().err


def test_failed_questions_give_their_reasons_once_each(capsys, home: Path, bamboogle: list[str]) -> None:
    (home / "reground.toml").write_text("attempts = 1\n")
    with serving(MockOpenAI(lambda body: "Answer: W0")) as server:
        server.misbehave("500:boom 1", "500:boom 2", "malformed:{")
        arguments = ["eval", *bamboogle, "--limit", "3", "--method", "direct", *model_of(server), "--out", "RUN", "-q"]
        assert run([*arguments, "-j", "1"]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "2 x TransientModelError: " in out and "500: boom" in out
    assert "1 x TransientModelError: " in out and "malformed" in out


def test_a_run_folder_is_listed_and_one_question_shown_by_its_id(capsys, bamboogle: list[str]) -> None:
    with serving(MockOpenAI(lambda body: "<think>Hm.</think>Answer: W0")) as server:
        assert run(["eval", *bamboogle, "--method", "direct", *model_of(server), "--out", "RUN", "-q"]) == 0
    capsys.readouterr()
    assert run(["show", "RUN"]) == 0
    listed = capsys.readouterr().out
    assert all(f"b{i}~0" in listed for i in range(5))
    for name in ("b1~0", "b1"):
        assert run(["show", "RUN", name]) == 0
        said = capsys.readouterr().out
        assert "Who wrote book 1?" in said and "book 2" not in said
        assert "thought: Hm." in said
    assert run(["show", "RUN", "b9~0"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert run(["show", "."]) == 0
    assert run(["show", "data"]) == 2
    assert "not a run folder" in capsys.readouterr().err
