"""The documents and passages that a trajectory retrieved."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from reground.core.evidence import Passage
from reground.core.trajectory import GenerateStep, RetrieveStep, Trajectory

_PIECE = re.compile(r"#\d+$")
_WORD = re.compile(r"\w+")
_ROW = 4
"""Minimum words in a row that count as shown in a prompt, because fewer could match by chance."""


def retrieve_steps(trajectory: Trajectory) -> list[RetrieveStep]:
    """The retrievals in order of their end."""
    return [step for step in trajectory.steps if isinstance(step, RetrieveStep)]


def retrieved_passages(steps: Iterable[RetrieveStep]) -> list[Passage]:
    """Every passage once, as it was first retrieved."""
    found: dict[str, Passage] = {}
    for step in steps:
        for passage in step.passages:
            found.setdefault(passage.id, passage)
    return list(found.values())


def shown_texts(trajectory: Trajectory) -> list[str]:
    """The parts of the retrieved passages that prompts contained, and the titles of these passages.

    Token limits cut passages or leave them out; only text in a prompt counts. It is found by its words, whatever a
    method puts around them. For a trajectory without a prompt, whole passages count.
    """
    passages = retrieved_passages(retrieve_steps(trajectory))
    calls = [step for step in trajectory.steps if isinstance(step, GenerateStep)]
    if not calls:
        return [f"{passage.title}\n{passage.text}" for passage in passages]
    prompts = [_words(text) for text in {message.content for call in calls for message in call.messages}]
    rows: dict[int, set[tuple[str, ...]]] = {}
    texts = []
    for passage in passages:
        size = min(_ROW, len(_words(passage.text)))
        if size not in rows:
            rows[size] = {row for words in prompts for row in _rows(words, size)}
        stretches = _stretches(passage.text, rows[size], size)
        texts += [passage.title, *stretches] if stretches else []
    return texts


def _stretches(text: str, rows: set[tuple[str, ...]], size: int) -> list[str]:
    """The parts of the text whose words are in one of the rows."""
    words = list(_WORD.finditer(text))
    starts = [i for i, row in enumerate(_rows(_words(text), size)) if row in rows]
    found: list[tuple[int, int]] = []
    for start in starts:
        begin, end = start, start + size
        if found and begin < found[-1][1]:
            begin = found.pop()[0]
        found.append((begin, end))
    return [text[words[begin].start() : words[end - 1].end()] for begin, end in found]


def _rows(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + size]) for i in range(len(words) - size + 1)] if size else []


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def document_id(passage_id: str, known: Container[str] = ()) -> str:
    """The document that a passage is a piece of: an index names the pieces of document d `d#1`, `d#2`, ...

    An id that is itself `known` is left as it is.
    """
    return passage_id if passage_id in known else _PIECE.sub("", passage_id)
