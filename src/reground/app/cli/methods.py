"""`reground methods`: the methods and their settings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reground.app import catalogue
from reground.app.cli.console import consoles, print_json, say
from reground.app.cli.display import plain
from reground.app.cli.flags import Json, flattened, setting_text


@flattened()
def methods(
    as_json: Json = False, name: Annotated[str | None, typer.Argument(help="One method, with its settings.")] = None
) -> None:
    """List the methods, or the settings of one method with their defaults and meanings.

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
        table.add_column()
        for entry in entries.values():
            table.add_row(Text(entry.name), Text(entry.summary))
        consoles()[0].print(table)


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
