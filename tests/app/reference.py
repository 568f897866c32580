"""The generated pages of the reference: every option, and every setting of every method."""

from __future__ import annotations

from typing import Any

from reground.app import catalogue
from reground.app.cli.commands import cli
from reground.app.cli.flags import INNER, parameters_of, setting_text
from reground.app.options import Ask, field_names, meanings

_HOW = "Written from the fields' own words by `REGROUND_REWRITE_REFERENCE=1 pytest tests/app/test_options.py`."


def options_page() -> str:
    """Every option of the command line with its commands, and what only Python takes."""
    lines = [
        "# Options",
        "",
        "An option of the command line is a key of the",
        "[configuration file](../how-to/models.md#the-configuration-file)",
        "with `_` for `-`, and those of `ask` are keywords of `reground.ask`. `--budget-tokens` is also `tokens`",
        "in the table `[budget]`, and `Budget(tokens=...)` in Python; options of a model stand in",
        "`[model_options]` too, and in",
        "Python in `model_options={...}`; `--set` is the table `[settings]` and `settings={...}`.",
        "",
        _HOW,
        "",
    ]
    rows: dict[tuple[str, str, str], list[str]] = {}
    keys: dict[tuple[str, str, str], list[str]] = {}
    for path, command in each_command(cli):
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name not in ("help", "help_all"):
                names, group = ", ".join(f"`{each}`" for each in parameter.opts), rows
                if parameter.hidden:
                    names, group = names.replace("--", "").replace("-", "_"), keys
                group.setdefault((names, _default(parameter), parameter.help), []).append(path)
    lines += _table(rows)
    lines += [
        "",
        "## Only in the configuration file and in Python",
        "",
        *lines[-len(rows) - 2 : -len(rows)],
        *_table(keys),
    ]
    flags, words = {option.name.partition(INNER)[0] for option in parameters_of(Ask)}, meanings(Ask)
    lines += ["", "## Only in Python", "", "| keyword of `reground.ask` | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(words[name])} |" for name in field_names(Ask) if name not in flags]
    return "\n".join(lines) + "\n"


def _table(rows: dict[tuple[str, str, str], list[str]]) -> list[str]:
    ordered = sorted(rows.items(), key=lambda row: row[0][0].lower())
    return [
        f"| {name} | {', '.join(paths)} | {default} | {_cell(words)} |" for (name, default, words), paths in ordered
    ]


def methods_page() -> str:
    """Every setting of every method, as `reground methods NAME` lists them."""
    lines = [
        "# Settings of the methods",
        "",
        "Given with `--set KEY=VALUE`, under `[settings]` in the configuration file, or as `settings={...}` in Python.",
        "What the methods do is in [methods](methods.md) and [baselines](baselines.md).",
        "",
        _HOW,
    ]
    for name in catalogue.methods():
        words = catalogue.method(name).meanings
        lines += ["", f"## {name}", "", "| setting | default | meaning |", "|---|---|---|"]
        for key, default in catalogue.method(name).defaults.items():
            lines.append(f"| `{key}` | {_cell(setting_text(default))} | {_cell(words.get(key, ''))} |")
        for preset, changed in catalogue.method(name).presets.items():
            if changed:
                said = ", ".join(f"`{key}={setting_text(value)}`" for key, value in changed.items())
                lines += ["", f"`{name}+{preset}`: {_cell(said)}"]
    return "\n".join(lines) + "\n"


def each_command(group: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every command that does something, by its name."""
    found = []
    for name, command in group.commands.items():
        here = f"{path} {name}".strip()
        inner = each_command(command, here) if hasattr(command, "commands") else []
        found += inner if hasattr(command, "commands") and not command.params else [(here, command), *inner]
    return found


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default in (None, False, "") else f"`{parameter.default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("**", "\\*\\*")
