"""`reground methods`: the methods and their settings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reground.app import catalogue
from reground.app.cli.config import setting_text
from reground.app.cli.console import consoles, print_json, say
from reground.app.cli.display import plain
from reground.app.cli.flags import flattened
from reground.app.options import Json


@flattened
def methods(
    output: Json, name: Annotated[str | None, typer.Argument(help="One method, with its settings.")] = None
) -> None:
    """List the methods, or the settings of one method with their defaults and meanings.

    Example:  reground methods rar
    """
    entries = catalogue.methods()
    if name is not None:
        _show_method(name, as_json=output.as_json)
    elif output.as_json:
        print_json({entry.name: entry.summary for entry in entries.values()})
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for entry in entries.values():
            table.add_row(Text(entry.name), Text(entry.summary))
        consoles()[0].print(table)


def _show_method(name: str, *, as_json: bool) -> None:
    name = catalogue.named(name)
    settings, presets = catalogue.setting_defaults(name), catalogue.presets(name)
    meanings = catalogue.setting_meanings(name)
    if as_json:
        return print_json({"name": name, "settings": settings, "meanings": meanings, "presets": presets}, default=str)
    entry = catalogue.methods().get(name.partition("+")[0])
    say(f"{name}  {'' if entry is None else entry.summary}")
    for key, default in settings.items():
        say(f"  --set {key}={setting_text(default)}")
        if key in meanings:
            consoles()[0].print(Padding(plain(meanings[key], "dim"), (0, 0, 0, 6)))
    for preset, changed in presets.items():
        if changed and "+" not in name:
            changes = ", ".join(f"{key}={setting_text(value)}" for key, value in changed.items())
            say(f"  {name}+{preset}: the same with {changes}")
    return None
