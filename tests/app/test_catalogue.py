from __future__ import annotations

from pathlib import Path

import pytest

from reground.app import catalogue
from reground.app.cli import run
from reground.app.cli.config import parse_settings
from reground.core.errors import ConfigurationError
from reground.evaluation.scaling import scaled
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever


@pytest.mark.parametrize(
    "name", [f"{name}+{preset}" for name in sorted(catalogue.methods()) for preset in catalogue.method(name).presets]
)
def test_every_preset_of_every_method_can_be_built_and_scaled(name: str) -> None:
    built = catalogue.build_method(name, model=ScriptedModel([]), retriever=ScriptedRetriever([]), sandbox=NoSandbox())
    assert type(scaled(built, 2000)) is type(built)


class NoSandbox:
    name = "none"

    async def execute(self, program: object, /) -> object:
        raise AssertionError("nothing is executed here")


def test_an_unknown_method_is_refused_with_the_near_names() -> None:
    with pytest.raises(ConfigurationError, match="did you mean rar"):
        catalogue.method("raar")


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


def test_a_method_that_needs_documents_says_so() -> None:
    with pytest.raises(ConfigurationError, match="--corpus"):
        catalogue.build_method("rag", model=ScriptedModel([]))


def test_settings_are_read_as_the_fields_type() -> None:
    method = catalogue.build_method(
        "rag", model=ScriptedModel([]), retriever=ScriptedRetriever([]), settings={"k": "3"}
    )
    assert method.k == 3


def test_an_unknown_setting_and_an_unfit_value_are_refused() -> None:
    parts = {"model": ScriptedModel([]), "retriever": ScriptedRetriever([])}
    with pytest.raises(ConfigurationError, match="no setting 'kk'"):
        catalogue.build_method("rag", **parts, settings={"kk": 3})
    with pytest.raises(ConfigurationError, match="cannot be 'many'"):
        catalogue.build_method("rag", **parts, settings={"k": "many"})


def test_a_method_file_that_is_missing_broken_or_without_a_method_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no method file"):
        catalogue.method(str(tmp_path / "absent.py"))
    broken = tmp_path / "broken_method_file.py"
    broken.write_text("def (")
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        catalogue.method(str(broken))
    empty = tmp_path / "empty_method_file.py"
    empty.write_text("x = 1")
    with pytest.raises(ConfigurationError, match="METHOD"):
        catalogue.method(str(empty))


def test_a_preset_is_a_methods_name_with_a_plus_and_gives_way_to_what_is_set() -> None:
    built = catalogue.build_method(
        "rar+paper", model=ScriptedModel([]), retriever=ScriptedRetriever([]), settings={"max_rounds": 7}
    )
    plain = catalogue.build_method("rar", model=ScriptedModel([]), retriever=ScriptedRetriever([]))
    assert built.max_rounds == 7
    assert type(built) is type(plain)
    assert "ranking" in catalogue.method("cr_planner").presets
    with pytest.raises(ConfigurationError, match="cr_planner has no preset 'rank'; did you mean ranking"):
        catalogue.method("cr_planner+rank")


NAMES = [
    f"{name}{preset}"
    for name in sorted(catalogue.methods())
    for preset in ("", *(f"+{each}" for each in catalogue.method(name).presets if each != "paper"))
]


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_that_is_listed_is_read_back_as_it_is(name: str, capsys) -> None:
    assert run(["methods", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    given = [line.split("--set ", 1)[1] for line in lines if line.startswith("  --set ")]
    assert given
    parts = {"model": ScriptedModel([]), "retriever": ScriptedRetriever([]), "sandbox": NoSandbox()}
    plain = catalogue.build_method(name, **parts)
    for each in given:
        built = catalogue.build_method(name, **parts, settings=parse_settings({}, [each]))
        key = each.partition("=")[0]
        assert getattr(built, key) == getattr(plain, key), each
        assert type(getattr(built, key)) is type(getattr(plain, key)), each
    bare = catalogue.build_method(name.partition("+")[0], **parts, settings=parse_settings({}, given))
    assert {key.partition("=")[0]: getattr(bare, key.partition("=")[0]) for key in given} == {
        key.partition("=")[0]: getattr(plain, key.partition("=")[0]) for key in given
    }


@pytest.mark.parametrize("none", ["none", "None", "null", "NONE", None])
def test_none_is_a_value(none: str | None) -> None:
    parts = {"model": ScriptedModel([]), "retriever": ScriptedRetriever([])}
    built = catalogue.build_method("rar", **parts, settings={"max_contents": none})
    assert built.max_contents is None
    with pytest.raises(ConfigurationError, match="cannot be 'none'"):
        catalogue.build_method("rar", **parts, settings={"k": "none"})


def test_prompts_are_settings_by_name_and_a_misspelt_one_is_refused() -> None:
    parts = {"model": ScriptedModel([])}
    built = catalogue.build_method("direct", **parts, settings={"prompts": {"answer": "{question}! {form}"}})
    assert built.prompts.answer == "{question}! {form}"
    for wrong, why in (({"anser": "x"}, "did you mean answer"), ({"answer": "x"}, "missing {form}"), ("x", "prompts")):
        with pytest.raises(ConfigurationError, match=why):
            catalogue.build_method("direct", **parts, settings={"prompts": wrong})


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
