"""`reground methods`: the methods and their settings."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import setting_text
from reground.app.cli.flags import flattened
from reground.app.options import Json


@flattened
def methods(
    output: Json, name: Annotated[str | None, typer.Argument(help="One method, with its settings.")] = None
) -> None:
    """List the methods, or the settings of one method with their defaults and meanings.

    Example:  reground methods rar
    """
    from reground.app import catalogue

    console, _ = common.consoles()
    if name is not None:
        _show_method(console, name, as_json=output.as_json)
        return
    if output.as_json:
        common.print_json({entry.name: entry.summary for entry in catalogue.methods().values()})
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for entry in catalogue.methods().values():
        table.add_row(Text(entry.name), Text(entry.summary))
    console.print(table)


def _show_method(console: Any, name: str, *, as_json: bool) -> None:
    from rich.padding import Padding

    from reground.app import catalogue
    from reground.app.cli.display import plain

    name = catalogue.named(name)
    settings, presets = catalogue.setting_defaults(name), catalogue.presets(name)
    words = catalogue.setting_meanings(name)
    if as_json:
        common.print_json({"name": name, "settings": settings, "meanings": words, "presets": presets}, default=str)
        return
    entry = catalogue.methods().get(name.partition("+")[0])
    console.print(f"{name}  {'' if entry is None else entry.summary}", markup=False)
    for key, default in settings.items():
        console.print(f"  --set {key}={setting_text(default)}", markup=False, soft_wrap=True)
        if key in words:
            console.print(Padding(plain(words[key], "dim"), (0, 0, 0, 6)))
    for preset, changed in presets.items():
        if changed and "+" not in name:
            said = ", ".join(f"{key}={setting_text(value)}" for key, value in changed.items())
            console.print(f"  {name}+{preset}: the same with {said}", markup=False, soft_wrap=True)
