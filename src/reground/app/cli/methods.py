"""`reground methods`: the methods and their settings."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reground.app import catalogue
from reground.app.cli.console import consoles, plural, print_json, say
from reground.app.cli.display import plain
from reground.app.cli.flags import Json, flattened, setting_text
from reground.app.options import DEFAULT_METHOD
from reground.evaluation.scaling import usual
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever


@flattened()
def methods(
    as_json: Json = False, name: Annotated[str | None, typer.Argument(help="One method, with its settings.")] = None
) -> None:
    """List the methods, the default and then the cheapest first; or the settings of one method.

    The calls of a model are those that a question usually takes.

    Example:  reground methods rar
    """
    entries = catalogue.methods()
    if name is not None:
        listed = catalogue.method(name)
        if as_json:
            settings = {"settings": listed.defaults, "meanings": listed.meanings, "presets": listed.presets}
            print_json({"name": listed.name, **settings}, default=str)
        else:
            entry = entries.get(listed.name.partition("+")[0])
            _show(listed, "" if entry is None else entry.summary)
    elif as_json:
        print_json({entry.name: entry.summary for entry in entries.values()})
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column()
        calls = {name: _calls(name) for name in entries}
        for name in sorted(entries, key=lambda name: (name != DEFAULT_METHOD, calls[name] or math.inf)):
            about = " (the default)" if name == DEFAULT_METHOD else ""
            count = plural(calls[name] or 0, "call") if calls[name] else ""
            table.add_row(Text(name), Text(count), Text(f"{entries[name].summary}{about}"))
        consoles()[0].print(table)


def _calls(name: str) -> int | None:
    """How many calls of the model a question usually takes; None where that is not known."""
    parts: Any = {"model": ScriptedModel([]), "retriever": ScriptedRetriever([]), "sandbox": object()}
    try:
        return usual(catalogue.build_method(name, **parts)).calls
    except Exception:  # a method of a plug-in may need more than stand-ins
        return None


def _show(listed: catalogue.Listed, summary: str) -> None:
    say(f"{listed.name}  {summary}")
    meanings = listed.meanings
    for key, default in listed.defaults.items():
        say(f"  --set {key}={setting_text(default)}")
        if key in meanings:
            consoles()[0].print(Padding(plain(meanings[key], "dim"), (0, 0, 0, 6)))
    for preset, changed in listed.presets.items():
        if changed and "+" not in listed.name:
            changes = ", ".join(f"{key}={setting_text(value)}" for key, value in changed.items())
            say(f"  {listed.name}+{preset}: the same with {changes}")
