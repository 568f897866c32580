"""An option is written once: help, configuration file, Python and the reference follow from its field."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import typer

from reground.app import catalogue
from reground.app.cli import run
from reground.app.cli.flags import Command, ConfigFile, flattened
from reground.app.options import meanings, spread
from reground.core.errors import ConfigurationError
from reground.models.options import Price
from tests.app.reference import methods_page, options_page
from tests.data import ROOT


@dataclass(frozen=True, kw_only=True)
class Oven:
    """A record within the order."""

    degrees: int = 180
    """How hot, in Celsius."""
    fan: bool = False
    """Whether the air moves."""


@dataclass(frozen=True, kw_only=True)
class Kitchen:
    """What every recipe needs."""

    oven: Oven = field(default=Oven(), metadata={"prefix": "oven_", "panel": "Oven"})
    """The oven."""


@dataclass(frozen=True, kw_only=True)
class Toy(Kitchen):
    """An order with a field of every kind.

    sugar: entries of the docstring are read as well, [as they stand].
    """

    cake: str = field(kw_only=False, metadata={"argument": True})
    """Which cake."""
    sugar: float = 0.5
    eggs: int = field(default=2, metadata={"short": "-e", "min": 1})
    """How many eggs."""
    shape: Literal["round", "square"] = "round"
    """Its shape."""
    price: Price | None = None
    """What it costs."""
    book: Path | str | Callable[[], str] | None = None
    """Where the recipe is."""
    settings: Mapping[str, object] | None = field(default=None, metadata={"name": "--set"})
    """More, by name."""
    salt: float = field(default=1.5, metadata={"file": True})
    """Grams of it; nobody sets this by hand."""
    taster: Callable[[str], None] | None = None
    """Only Python can give it."""


@spread(Toy)
def bake(order: Toy) -> Toy:
    """Bake a cake."""
    return order


def command(baked: list[Toy]) -> Any:
    app = typer.Typer()

    @app.command(cls=Command)
    @flattened("cake", "eggs", "shape")
    def cake(order: Toy, config: ConfigFile = None) -> None:
        """Bake
        a cake."""
        baked.append(order)

    @app.command()
    def other() -> None:
        """Keep `cake` a command of its own."""

    return typer.main.get_command(app)


def baked(*arguments: str) -> Toy:
    orders: list[Toy] = []
    file = ["--config", "reground.toml"] if Path("reground.toml").exists() else []
    command(orders)(args=["cake", *arguments, *file], standalone_mode=False)
    return orders[0]


pytestmark = pytest.mark.usefixtures("home")


def test_a_field_is_an_option_a_key_and_a_keyword(home: Path) -> None:
    assert baked("apple") == bake("apple", settings={}) == Toy("apple", settings={})
    given = ["-e", "3", "--sugar", "1", "--shape", "square", "--price", "1,2", "--book", "b", "--set", "k=4"]
    order = baked("apple", *given, "--oven-degrees", "200", "--oven-fan")
    same = bake(
        "apple", eggs=3, sugar=1.0, shape="square", price=Price(1, 1, 2), book=Path("b"), settings={"k": 4},
        oven=Oven(degrees=200, fan=True),
    )  # fmt: skip
    assert order == same
    (home / "reground.toml").write_text(
        'eggs = 3\nsugar = 1\nshape = "square"\nprice = "1,2"\nbook = "b"\noven_fan = true\n'
        "[oven]\ndegrees = 200\n[settings]\nk = 4\n"
    )
    assert baked("apple") == same
    assert baked("apple", "-e", "5", "--set", "j=1") == dataclasses.replace(same, eggs=5, settings={"k": 4, "j": 1})


def test_the_help_is_the_words_of_the_field() -> None:
    shown = {p.name: p for p in command([]).commands["cake"].params}
    words = {**meanings(Toy), **{f"oven__{name}": text for name, text in meanings(Oven).items()}}
    assert words["eggs"] == "How many eggs."
    assert words["sugar"] == "entries of the docstring are read as well, [as they stand]."
    assert shown.keys() == words.keys() - {"oven", "taster"} | {"config", "help_all"}
    for name in shown.keys() - {"config", "help_all"}:
        assert shown[name].help.replace("\\[", "[") == words[name]
    assert shown["oven__degrees"].rich_help_panel == "Oven"
    assert "eggs: How many eggs." in (bake.__doc__ or "")


def test_the_file_and_python_have_options_that_the_command_line_lacks(home: Path) -> None:
    assert bake("apple", salt=2.0).salt == 2.0
    (home / "reground.toml").write_text("salt = 2")
    assert baked("apple").salt == 2.0
    (home / "reground.toml").unlink()
    with pytest.raises(Exception, match="No such option"):
        baked("apple", "--salt", "2")


def test_help_shows_the_everyday_options_and_help_all_every_one(capsys) -> None:
    for option in ("--help", "--help-all"):
        with suppress(typer.Exit):
            command([])(args=["cake", option], standalone_mode=False)
        shown = capsys.readouterr().out
        assert "--eggs" in shown and "--salt" not in shown
        assert ("--oven-degrees" in shown) == (option == "--help-all")


def test_ask_fits_on_one_screen(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["ask", "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 40


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("reground ask Why? --method self_r", "self_refine"),
        ("reground compare --methods direct,ra", "direct,rag"),
        ("reground ask Why? --model gguf/smol", "gguf/smollm2"),
        ("reground eval --task hotpot", "hotpotqa"),
    ],
)
def test_a_shell_completes_names(line: str, offered: str, monkeypatch, capsys: Any) -> None:
    monkeypatch.setenv("_REGROUND_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    with pytest.raises(SystemExit):
        run([])
    assert offered in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("egs = 3", "did you mean eggs"),
        ('eggs = "many"', "eggs in reground.toml cannot be 'many'"),
        ("eggs = 0", "eggs in reground.toml cannot be 0"),
        ("eggs = true", "eggs in reground.toml is one text or number, not true"),
        ("oven_fan = 1", "oven_fan in reground.toml is true or false, not 1"),
        ('shape = ["round"]', "shape in reground.toml is one text or number"),
        ("oven = 5", r"write \[oven\]"),
        ("[oven]\ndegree = 5", "unknown key 'degree'; did you mean degrees"),
        ('[oven]\ndegrees = "hot"', "oven.degrees in reground.toml cannot be 'hot'"),
    ],
)
def test_a_wrong_line_of_the_file_is_named_with_the_nearest_key(text: str, says: str, home: Path) -> None:
    (home / "reground.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=says):
        baked("apple")


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["ask", "Why?", "--methd", "x"], "--method"),
        (["ask", "Why?", "--baseurl", "x"], "--base-url"),
        (["ask", "Why?", "--method", "direct", "--model", "openai/x", "--form", "phrases"], "did you mean phrase"),
        (["eval", "--task", "x", "--jugde", "y"], "--judge"),
        (["asks", "Why?"], "ask"),
    ],
)
def test_a_misspelt_option_is_answered_with_the_nearest(arguments: list[str], near: str, capsys) -> None:
    assert run(arguments) == 2
    assert near in capsys.readouterr().err


def test_every_setting_of_every_method_has_a_meaning_and_is_listed_with_it(capsys) -> None:
    without = {
        (name, key)
        for name in catalogue.methods()
        for key in catalogue.method(name).defaults.keys() - catalogue.method(name).meanings.keys()
    }
    assert without <= {("rewrite_retrieve_read", "page_words")}, "its docstring names it under `content`"
    assert run(["methods", "rat"]) == 0
    assert f"--set k=1 {catalogue.method('rat').meanings['k']}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("page", "made"), [("options.md", options_page), ("settings.md", methods_page)])
def test_the_reference_is_what_the_fields_say(page: str, made: Callable[[], str]) -> None:
    """After a change, `REGROUND_REWRITE_REFERENCE=1 pytest tests/app/test_options.py` writes the pages again."""
    file = ROOT / "docs" / "reference" / page
    if os.environ.get("REGROUND_REWRITE_REFERENCE"):
        file.write_text(made(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == made()
