"""Nothing that is printed can move a terminal's cursor or turn its text round."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path

import reground
from reground.app.cli import run
from reground.app.cli.console import HarmlessConsole, harmless, json_text, note, say

ACTING = "a\x1b[2Jb\x9b31mc\u202ed\u2066e\x07f\x7fg\rh"
LEFT = "a[2Jb31mcdefgh"


def test_what_acts_on_a_terminal_is_taken_out_and_the_rest_stays() -> None:
    assert harmless(ACTING) == LEFT
    assert harmless("line\n\ttab é 中 😀") == "line\n\ttab é 中 😀"


def test_nothing_else_is_printed_whatever_is_given(capsys) -> None:
    written = io.StringIO()
    HarmlessConsole(file=written, width=200).print(ACTING, markup=False, highlight=False)
    assert written.getvalue().strip() == LEFT
    note("a\x1b[2Jb\u202e")
    say("c\x07")
    assert capsys.readouterr() == ("c\n", "a[2Jb\n")


def test_json_keeps_every_character_as_an_escape() -> None:
    written = json_text({"a": ACTING, "b": "é"})
    assert harmless(written) == written
    assert json.loads(written) == {"a": ACTING, "b": "é"}
    assert "é" in written


def test_an_error_message_is_harmless(capsys) -> None:
    assert run(["ask", "Why?", "--method", "direct", "--model", f"no{ACTING}/x"]) == 2
    said = capsys.readouterr().err
    assert harmless(said) == said


PRINTERS = r"(print|(typer|click|rich)\.(echo|secho|print)|([\w.]*\.)?Console|sys\.(stdout|stderr)\.write(lines)?)"


def test_nothing_in_the_package_prints_past_the_one_place() -> None:
    folder = Path(reground.__path__[0])
    printed = [
        f"{path.relative_to(folder).as_posix()}: {ast.unparse(call)}"
        for path in sorted(folder.rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and re.fullmatch(PRINTERS, ast.unparse(call.func))
    ]
    # A program in the sandbox has no terminal, and the server for tests prints its own address.
    others = {said for said in printed if not said.startswith(("sandbox/harness/", "testing/"))}
    assert others == {
        "app/cli/console.py: print(harmless(text), flush=True)",
        "app/cli/console.py: print(harmless(text), file=sys.stderr, flush=True)",
    }
