"""Evidence in prompts, and answers with what they cite and what they were written from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from reground.core.answers import Answer, AnswerForm, Citation, Thought
from reground.core.errors import IndexRefused, RetrievalError
from reground.core.evidence import Passage, Retriever
from reground.core.markers import cited_markers, without_unknown
from reground.core.run import Run
from reground.core.trajectory import UNGROUNDED
from reground.core.untrusted import fence
from reground.methods._budget import tokens_of
from reground.methods._prompts import CITING

_MARKER = re.compile(r"\[(\d+(?:\s*[,;]\s*\d+)*)\]")
_LABEL = re.compile(r"^\W*+(?:search\s++)?+query(?:\s++\d++)?\s*+[:：]\W*+", re.IGNORECASE)


@dataclass
class Evidence:
    """All passages that one question has seen, each with one number for good, so that [3] means the same everywhere."""

    passages: list[Passage] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _unknown: set[int] = field(default_factory=set)

    def add(self, found: Iterable[Passage]) -> list[int]:
        """Number the passages, old ones by their old number; returns their markers, each once."""
        markers = []
        for passage in found:
            if passage.id not in self._numbers:
                self.passages.append(passage)
                self._numbers[passage.id] = len(self.passages)
            markers.append(self._numbers[passage.id])
        return list(dict.fromkeys(markers))

    def fresh(self, found: Iterable[Passage]) -> list[Passage]:
        """Those of the passages that have no number yet."""
        return [passage for passage in found if passage.id not in self._numbers]

    def show(self, markers: Sequence[int], *, tokens: int) -> str:
        """The fenced passages for a prompt, `tokens` tokens each at most."""
        return fence([self.passages[m - 1] for m in markers], markers=markers, tokens=tokens)

    def fitting(self, markers: Sequence[int], *, tokens: int, most: int | None) -> list[int]:
        """The first markers whose passages, cut to `tokens` each, take `most` tokens together; at least one if there is one."""
        room = most
        kept: list[int] = []
        for marker in markers:
            size = tokens_of(self.show([marker], tokens=tokens))
            if room is not None and kept and size > room:
                break
            room = None if room is None else room - size
            kept.append(marker)
        return kept

    def cut(self, markers: Sequence[int], *, tokens: int, most: int | None, least: int) -> tuple[list[int], int]:
        """The first markers, and the length to cut each of their passages to, that take `most` tokens together.

        Passages are cut to `tokens`, and long ones shorter until all fit, but none below `least`: sooner the last ones are
        left out. One stays, if there is one.
        """
        if most is None:
            return list(markers), tokens
        kept = self.fitting(markers, tokens=least, most=most)
        lengths = range(least, tokens + 1)
        fitting = bisect_right(lengths, most, key=lambda length: tokens_of(self.show(kept, tokens=length)))
        return kept, lengths[max(0, fitting - 1)]

    def note_unused(self, run: Run, shown: Sequence[int]) -> None:
        """Say in the trace when passages were found and the text was written from none of them."""
        if self.passages and not shown:
            run.note(UNGROUNDED, why="no revision with what was found was kept")

    def answer(
        self, text: str, run: Run, form: AnswerForm, *, shown: Iterable[int] = (), steps: Iterable[Thought] = ()
    ) -> Answer:
        """An answer written from the passages `shown`, with what its text cites. Markers that name nothing go."""
        said = self.checked(text, run, form)
        cited = self.cited(said, form)
        checked = (step.model_copy(update={"text": self.checked(step.text, run, form)}) for step in steps)
        return Answer(
            text=said,
            citations=tuple(map(self._cite, cited)),
            shown=tuple(map(self._cite, dict.fromkeys([*cited, *shown]))),
            steps=tuple(checked),
        )

    def cited(self, text: str, form: AnswerForm) -> list[int]:
        """The markers in a text, in order of first use. Programs have none: brackets there are indices."""
        return [] if form.draft_is_query else cited_markers(text, most=len(self.passages))

    def checked(self, text: str, run: Run, form: AnswerForm, *, known: Collection[int] | None = None) -> str:
        """The text without markers that name no passage, or none of the `known` ones; a note tells which.

        Only where markers are asked for. A text stays as it is if its short answer would change: that is a list or an index.
        """
        if form.name not in CITING:
            return text
        names = range(1, len(self.passages) + 1) if known is None else known
        cleaned, unknown = without_unknown(text, names)
        kept = form.extract(cleaned) == form.extract(text) if form.final_pass else any(map(str.isalnum, cleaned))
        if not unknown or not kept:
            return text
        if not self._unknown.issuperset(unknown):
            run.note("unknown markers removed", markers=list(unknown), why="no passage has these numbers")
            self._unknown.update(unknown)
        return cleaned

    def _cite(self, marker: int) -> Citation:
        passage = self.passages[marker - 1]
        return Citation(
            marker=marker,
            passage_id=passage.id,
            title=passage.title,
            url=passage.url,
            quote=" ".join(passage.text.split())[:200],
        )


def interleaved(found: Sequence[Sequence[Passage]]) -> list[Passage]:
    """The first of each list, the second of each, and so on; each passage once, where it stands first."""
    once: dict[str, Passage] = {}
    for rank in zip_longest(*found):
        for passage in rank:
            if passage is not None:
                once.setdefault(passage.id, passage)
    return list(once.values())


async def find(run: Run, retriever: Retriever, query: str, *, k: int) -> list[Passage]:
    """Retrieve, and say so in the trace when nothing comes of it: a failed query costs a round, not the question.

    A refused index is no failed query and passes through.
    """
    try:
        found = await run.retrieve(retriever, query, k=k)
    except IndexRefused:
        raise
    except RetrievalError as error:
        run.note("retrieval failed", query=query, why=str(error))
        return []
    if not found:
        run.note("nothing retrieved", query=query)
    return found


def clean_query(reply: str, *, fallback: str) -> str:
    """The query in a model's reply: its first line that says something, without label, quotes and markers; `fallback` without one."""
    for line in reply.splitlines():
        query = _LABEL.sub("", _MARKER.sub("", line)).strip().strip("\"'`“”*").strip()
        if any(char.isalnum() for char in query):
            return query
    return fallback.strip()
