"""How results are printed, where a citation opens, and that no text can style a terminal, act on it or open a link."""

from __future__ import annotations

import ast
import io
import json
import re
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

import reground
from reground.app.cli import run
from reground.app.cli.console import HarmlessConsole, harmless, json_text, note, say
from reground.app.cli.display import (
    address,
    as_written,
    corrected,
    cost_line,
    has_links,
    plain,
    show_line,
    show_result,
    show_trajectory,
)
from reground.app.runs import Result
from reground.core.answers import Citation
from reground.core.evidence import Passage
from reground.core.language import Reply, Usage
from reground.core.programs import Execution, Program, Verdict
from reground.core.trajectory import ExecuteStep, Failure, Trajectory
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever


def shown(show: object, *arguments: object) -> str:
    out = io.StringIO()
    show(Console(file=out, width=100, highlight=False), *arguments)
    return out.getvalue()


def answered(home: Path, reply: Any, found: list[Passage], method: str = "rag", **more: Any) -> Result:
    model = ScriptedModel(lambda messages, sampling: reply)
    return reground.ask("Which?", method=method, model=model, corpus=ScriptedRetriever(found), home=home, **more)


SEINE = Passage(id="Seine.md", title="Seine", text="The Seine.")


def test_a_result_shows_answer_steps_evidence_and_cost(tmp_path: Path) -> None:
    found = [Passage(id="danube.md", title="Danube", text="Vienna lies on it.")]
    result = answered(tmp_path, "Vienna lies on the Danube [1].\n\nSo it is the Danube [1].", found, "rat")
    text = shown(partial(show_result, steps=True), result)
    for part in ("Answer", "Steps", "Supported by", "danube.md", "calls", "trajectory:", "Vienna lies on the Danube"):
        assert part in text
    assert "Steps" not in shown(show_result, result)


def test_cited_sources_stand_under_the_answer_and_what_was_also_read_apart_from_them(tmp_path: Path) -> None:
    def ask(reply: str) -> str:
        found = [Passage(id="Danube.md", title="Danube", text="The Danube."), SEINE]
        return shown(show_result, answered(tmp_path, reply, found, fresh=True))

    text = ask("The Seine [2].")
    parts = ("The Seine [2].", "Supported by", "Seine.md", "“The Seine.”", "Also read", "Danube.md")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    part = ask("The Seine [2]. The Rhine carries nine hundred ships every day.")
    assert part.index("Supported by") < part.index("Not supported by what was read") < part.rindex("nine hundred ships")
    none = ask("The Rhine carries nine hundred ships every day.")
    assert "Your documents do not say" in none and "Supported by" not in none and "Danube.md" in none


def test_the_passages_of_one_file_stand_in_one_line(tmp_path: Path) -> None:
    names = ("a.md#1", "b.md#1", "a.md#2")
    found = [Passage(id=name, title=name[0], url=name[:4], text=f"The {name}.") for name in names]
    read = shown(show_result, answered(tmp_path, "Nine hundred ships.", found)).splitlines()
    assert [line for line in read if line.startswith("[")] == ["[1][3] a  a.md", "[2] b  b.md"]


def test_an_answer_that_was_cut_is_said_to_be(tmp_path: Path) -> None:
    reply = Reply(text="The database that is stored in the", finish_reason="length")
    assert "the limit on a reply's length cut the answer" in shown(show_result, answered(tmp_path, reply, [SEINE]))


def test_a_correction_is_shown_word_by_word() -> None:
    text = corrected("It was built in 1889.", "The tower was built in 1887.")
    assert text.plain == "[-It-]{+The tower+} was built in[- 1889.-]{+ 1887.+}"
    few = corrected("one of all of two", "three of all of four")
    assert few.plain == "[-one-]{+three+} of all of[- two-]{+ four+}"
    fewer = corrected("one of two", "three of four")
    assert fewer.plain == "[-one of two-]{+three of four+}", "a single word between changes is no comfort"
    assert corrected("same words", "same words").plain == "same words"
    assert corrected("word " * 300, "word " * 300 + "end").plain.count("word") == 300, "nothing is cut"


def test_a_trajectory_is_shown_step_by_step(tmp_path: Path) -> None:
    found = [Passage(id="a", text="[bold]not markup[/bold]a\x1b[2Jb\x07")]
    text = shown(show_trajectory, answered(tmp_path, "That.", found).trajectory)
    assert "query: Which?" in text and "[bold]not markup[/bold]a[2Jb" in text and "That." in text


def test_a_failed_trajectory_shows_its_failure_in_one_line() -> None:
    trajectory = Trajectory(id="1", question="Q?", method="rar", failure=Failure(type="ModelError", message="down"))
    assert "down" in shown(show_line, 1, trajectory)
    assert "ModelError: down" in shown(show_trajectory, trajectory)


def test_the_cost_line_names_every_part() -> None:
    line = cost_line(Usage(calls=2, prompt=1500, cached=500, completion=20, usd=0.25), 3.0, 1)
    assert line == (
        "2 calls, 1.5k prompt tokens (500 cached), 20 completion tokens, 0.2500 USD, 3.0 s, 1 call replayed, not "
        "paid again"
    )
    assert "0.000040 USD" in cost_line(Usage(calls=1, prompt=200, usd=0.00004), 1.0)


LINE = "print('" + "word " * 40 + "')"
PROGRAM = f"def solve():\n\tfor each in 'ab':\n\t\t{LINE}"
PROSE = "The Seine flows through Paris. " * 8


def told(text: str, home: Path, *, terminal: bool) -> str:
    """An answer as it is printed, then its trajectory."""
    place = "a/" + "long/" * 30 + "a.md"
    result = answered(home, text, [Passage(id="a", title="A", url=place, text=PROSE)])
    out = io.StringIO()
    console = Console(file=out, width=80, highlight=False, force_terminal=terminal, color_system=None)
    show_result(console, result, steps=True)
    show_trajectory(console, result.trajectory)
    assert place in out.getvalue()
    return out.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("text", [f"So:\n\n```python\n{PROGRAM}\n```", PROGRAM, PROGRAM.replace("\t", "    ")])
def test_a_program_is_printed_as_it_was_written(tmp_path: Path, text: str, *, terminal: bool) -> None:
    assert told(text, tmp_path, terminal=terminal).count(text) == 3  # the answer, the call's reply, the end


def test_prose_is_wrapped_in_a_terminal_alone(tmp_path: Path) -> None:
    assert told(PROSE, tmp_path, terminal=False).count(PROSE.strip()) >= 3
    lines = told(PROSE, tmp_path, terminal=True).splitlines()
    assert not [line for line in lines if len(line) > 80 and "/long/" not in line and "trajectory:" not in line]


def test_what_was_run_is_shown_as_it_was_run() -> None:
    ran = Execution(verdict=Verdict.PASSED, detail="", seconds=0.1)
    step = ExecuteStep(span="", ordinal=0, name="run", sandbox="s", program=Program(source=LINE), execution=ran)
    text = shown(show_trajectory, Trajectory(id="1", question="Q?", method="pal", steps=(step,)))
    assert LINE in text.splitlines()


def test_every_line_keeps_its_colour_where_nothing_is_wrapped() -> None:
    out = io.StringIO()
    as_written(
        Console(file=out, width=10, force_terminal=True, color_system="standard"), plain("a b c\td e f g", "red")
    )
    assert out.getvalue() == "\x1b[31ma b c\td e f g\x1b[0m\n"


LINK = re.compile(r"\x1b\]8;[^;]*;([^\x1b\x07]*)\x1b\\")


def cited(url: str | None, **more: Any) -> Citation:
    return Citation(marker=1, passage_id="a", url=url, **more)


@pytest.fixture(autouse=True)
def terminal(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_file_is_quoted_and_a_page_or_a_heading_named(tmp_path: Path) -> None:
    for name in ("a b;c.md", "größe.pdf", "p.html"):
        (tmp_path / name).write_text("x")
    assert address(cited("a b;c.md", line=3), tmp_path) == f"{tmp_path.as_uri()}/a%20b%3Bc.md"
    assert address(cited("größe.pdf", page=2), tmp_path) == f"{tmp_path.as_uri()}/gr%C3%B6%C3%9Fe.pdf#page=2"
    assert address(cited("p.html", fragment='i"d\x1b'), tmp_path) == f"{tmp_path.as_uri()}/p.html#i%22d%1B"
    assert address(cited("p.html"), tmp_path / "p.html") == f"{tmp_path.as_uri()}/p.html"


@pytest.mark.parametrize(
    "url",
    [
        None, "gone.md", "../outside.md", "/etc/passwd", "javascript:alert(1)", "file:///etc/passwd", "ftp://a/b",
        "https://", "https://[", "x\0y", "data:text/html,hi",
    ],
)  # fmt: skip
def test_nothing_else_is_opened(url: str | None, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "outside.md").write_text("x")
    assert address(cited(url), tmp_path / "docs") is None


def test_a_page_of_the_web_opens() -> None:
    assert address(cited("https://example.org/a?b=c#d"), None) == "https://example.org/a?b=c#d"


@given(st.text(max_size=60))
@example("\x1b\\\x1b]8;;http://evil\x07 é")
def test_an_address_is_printable_ascii_without_spaces(tail: str) -> None:
    found = address(cited(f"https://example.org/{tail}"), None)
    if found is not None:
        assert found.isascii() and found.isprintable() and not set(found) & set(' ;\\"<>')
        assert urlsplit(found).scheme == "https" and urlsplit(found).hostname == "example.org"


def printed(tmp_path: Path, passage: Passage, *, is_terminal: bool, corpus: Any = None, **more: Any) -> str:
    found = corpus if corpus is not None else ScriptedRetriever([passage])
    result = reground.ask(
        "How long is the Danube?", method="rag", model=ScriptedModel(["The Danube is 2850 km long [1]."]),
        corpus=found, home=tmp_path / "home",
    )  # fmt: skip
    out = io.StringIO()
    show_result(HarmlessConsole(file=out, width=200, force_terminal=is_terminal, highlight=False, **more), result)
    return out.getvalue()


EVIL = Passage(
    id="a",
    title="Danube\x1b]8;;http://evil.example\x1b\\[link=http://evil.example]here[/link]",
    text="The Danube is 2850 km long. \x1b]8;;http://evil.example\x07x",
    url="https://example.org/\x1b\\\x1b]8;;http://evil.example\x1b\\",
)


def test_a_malicious_title_makes_no_link_and_no_escape(tmp_path: Path) -> None:
    text = printed(tmp_path, EVIL, is_terminal=True)
    opened = {each for each in LINK.findall(text) if each}
    assert len(opened) == 1 and next(iter(opened)).startswith("https://example.org/%1B")
    rest = re.sub(r"\x1b\[[\d;]*m", "", LINK.sub("", text))
    assert "\x1b" not in rest and "\x07" not in rest
    assert "[link=http://evil.example]here[/link]" in rest, "shown as it stands"


def test_no_escape_is_written_where_none_is_understood(tmp_path: Path, monkeypatch) -> None:
    assert "\x1b" not in printed(tmp_path, EVIL, is_terminal=False)
    assert "\x1b]8" not in printed(tmp_path, EVIL, is_terminal=True, no_color=True)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in printed(tmp_path, EVIL, is_terminal=True)


def test_the_environment_can_ask_for_no_links(monkeypatch) -> None:
    assert has_links(Console(file=io.StringIO(), force_terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_links(Console(file=io.StringIO(), force_terminal=True))


def test_ask_links_the_place_and_names_the_heading(tmp_path: Path) -> None:
    docs = tmp_path / "my docs"
    docs.mkdir()
    (docs / "guide.md").write_text("# Guide\n\nOf rivers.\n\n## Danube\n\nThe Danube is 2850 km long.\n")
    text = printed(tmp_path, EVIL, is_terminal=True, corpus=docs)
    assert unquote(next(each for each in LINK.findall(text) if each)) == f"file://{docs}/guide.md"
    assert "guide.md:7, Danube" in re.sub(r"\x1b\[[\d;]*m", "", LINK.sub("", text))


def test_ask_names_the_row_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rivers.csv").write_text("river,length\nThe Seine,775 km\nThe Danube,2850 km\n")
    assert "rivers.csv, row 3" in printed(tmp_path, EVIL, is_terminal=False, corpus=tmp_path / "docs")


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
