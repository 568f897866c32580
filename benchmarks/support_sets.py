"""Claims about tables and manuals, for `benchmarks/support.py`: right ones, and the same with what another row says.

Tables are CSV files with a column of names, one for each row. Manuals are reStructuredText or Markdown with entries
that have a name and a default. Both are cut into passages as `ask` cuts them.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from reground.core.evidence import Passage
from reground.retrieval.chunking import chunk
from reground.retrieval.reading.result import PLAIN
from reground.retrieval.reading.text import read_delimited
from reground.support.lexical import Claim, claims

Made = tuple[str, Claim, list[Passage]]
"""The kind of a claim, the claim, and the passages that it is checked against."""

Fact = tuple[str, str, str]
"""A name, what is said of it ("the default"), and the value."""

_EACH = 8
"""Facts of one file."""
_SHOWN = 5
"""Passages that a claim is checked against."""
_ENTRIES = (
    re.compile(r"^\.\. confval:: (?P<name>\w+)\n(?:[ \t]+.*\n)*?[ \t]+:default: (?P<value>.+)\n", re.MULTILINE),
    re.compile(r"^\.\. setting:: (?P<name>\w+)\n(?:(?!\.\. setting).*\n){0,12}?Default: (?P<value>.+)\n", re.MULTILINE),
    re.compile(r"^### `(?P<name>\w+)`\n(?:(?!###).*\n){0,6}?\*\*Default:\*\* (?P<value>.+)\n", re.MULTILINE),
)
"""An entry of a manual of Sphinx, Celery and Gunicorn."""
_MARKUP = re.compile(r":[\w-]+:|[`*]")


def rows(folder: Path, draw: random.Random) -> Iterator[Made]:
    """Claims about the rows of the CSV files of a folder."""
    for file in sorted(folder.glob("*.csv")):
        with file.open(encoding="utf-8-sig", newline="") as lines:
            head, *body = list(csv.reader(lines))
        body = [[cell.strip() for cell in row] for row in body if len(row) == len(head)]
        keys = next(
            place
            for place in range(len(head))
            if len({row[place] for row in body}) == len(body) and _worded(body, place)
        )
        facts = [
            (row[keys], f"the {head[place].strip()}", row[place])
            for row in body
            for place in range(len(head))
            if place != keys and row[place] and head[place].strip()
        ]
        text = read_delimited(file.read_bytes(), PLAIN).text
        yield from _about(file.stem, text, facts, draw, "row")


def _worded(body: Sequence[Sequence[str]], place: int) -> bool:
    return sum(len(row[place]) > 3 and any(map(str.isalpha, row[place])) for row in body) > 0.9 * len(body)


def entries(files: Sequence[Path], draw: random.Random) -> Iterator[Made]:
    """Claims about the defaults in manuals."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        found = [each for pattern in _ENTRIES for each in pattern.finditer(text)]
        facts = [
            (each["name"], "the default", " ".join(_MARKUP.sub("", each["value"]).split()).rstrip("."))
            for each in found
        ]
        yield from _about(
            file.stem,
            text,
            [fact for fact in facts if len(fact[2]) < 40 and any(map(str.isalnum, fact[2]))],
            draw,
            "entry",
            each=40,
        )


def _about(
    title: str, text: str, facts: Sequence[Fact], draw: random.Random, kind: str, each: int = _EACH
) -> Iterator[Made]:
    pieces = [
        Passage(id=str(at), title=title, text=text[part.start : part.end])
        for at, part in enumerate(chunk(text, 400, 50))
    ]
    for name, what, value in draw.sample(facts, min(each, len(facts))):
        own = [passage for passage in pieces if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", passage.text)]
        own.sort(key=lambda passage: value not in passage.text)
        others = [fact for fact in facts if fact[1] == what and fact[0] != name and fact[2] != value]
        if not own or not others:
            continue
        said_of_it = {fact[2] for fact in facts if fact[0] == name}
        others = [fact for fact in others if fact[2] not in said_of_it]
        if not others:
            continue
        other = draw.choice(others)
        beside = [passage for passage in pieces if other[0] in passage.text and other[2] in passage.text]
        rest = draw.sample(pieces, min(len(pieces), _SHOWN))
        shown = list({passage.id: passage for passage in (*own[:2], *beside[:2], *rest)}.values())[:_SHOWN]
        question = f"What is {what} of {name}?"
        for prefix, said in (("", value), ("other ", other[2])):
            yield f"{prefix}{kind}", claims(f"{what.capitalize()} of {name} is {said}.", question)[0], shown
            yield f"{prefix}{kind} answer", claims(said, question)[0], shown
        figures = [
            fact[2]
            for fact in facts
            if fact[0] == name and fact[1] != what and fact[2] != value and _is_figure(fact[2])
        ]
        if kind == "row" and figures and _is_figure(value):
            said = draw.choice(figures)
            yield "other column", claims(f"{what.capitalize()} of {name} is {said}.", question)[0], shown


def _is_figure(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
