"""Where a citation opens, and that no document can make it open something else."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

import reground
from reground.app.cli.console import HarmlessConsole
from reground.app.cli.display import address, has_links, show_result
from reground.core.answers import Citation
from reground.core.evidence import Passage
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

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
