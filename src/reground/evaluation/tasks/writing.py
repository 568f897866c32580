"""Creative writing (RAT and RaR, appendix A.4): surveys, lives and timelines, three of each.

People compared the texts in the papers, two at a time. So the primary measure, quality, is left to people or to a
judge, and what the task counts by itself says nothing about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reground.core.answers import ARTICLE, AnswerForm
from reground.core.evidence import without_unknown
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import fields, read_values
from reground.evaluation.task import NO_ANSWER, Example, Loaded, Score, Task, answer_of

QUALITY = "quality"
DECIDED = "people or a judge decide it: reground judge RUNS or eval --judge MODEL"
CRITERIA = (
    "relevance: it does what is asked; accuracy: its facts, names and dates are right; completeness: nothing that "
    "matters is missing; readability: it is well ordered and coherent"
)
"""What annotators were asked to look at (appendix C)."""

LEAST_PARTS = 3
"""Parts that a text must have to keep the form of an article."""

_HEADING = re.compile(r"[ ]{0,3}(#{1,6})[ \t]+(\S.*)|\*\*([^*]+)\*\*:?[ \t]*")
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class Writing(Loaded):
    """Requests for an article with subtitles. There is no reference, so quality is unscored without a judge.

    criteria: what people and judges look at.
    """

    form: AnswerForm = ARTICLE
    criteria: str = CRITERIA

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Whether the text keeps its form, its words without markers such as [1]; and quality, which is unscored."""
        text = answer_of(trajectory)
        if not text.strip():
            return {QUALITY: NO_ANSWER}
        lacking = lacks(text)
        return {
            QUALITY: Score(value=None, why=DECIDED),
            "form kept": Score(value=float(not lacking), why=lacking),
            "words": Score(value=len(_WORD.findall(without_unknown(text, ())[0]))),
        }


_REQUEST = fields(id=str, question=str, group=str, source=str)


def load_writing(group: str = "") -> Writing:
    """The requests of the package; metadata: group, source. group: one kind of text, or all where it is empty.

    The papers print three topics and, as an example, a fourth; these have `source` "paper". The others are ours.
    """
    loaded = (
        Example(id=item.id, question=item.question, metadata={"group": item.group, "source": item.source})
        for _, item in read_values(Path(__file__).with_suffix(".jsonl"), _REQUEST)
        if group in {"", item.group}
    )
    return Writing(f"writing_{group}" if group else "writing", QUALITY, tuple(loaded), secret=())


def lacks(text: str) -> str:
    """What a text in Markdown lacks of a title and subtitles with a text below each; empty if it lacks nothing.

    A line in bold is a subtitle too.
    """
    before: list[str] = []
    parts: list[tuple[int, str, list[str]]] = []  # the number of #, the heading and the lines below it
    for line in text.splitlines():
        head = _HEADING.fullmatch(line)
        if head is not None:
            parts.append((len(head[1] or "##"), (head[2] or head[3]).strip(" #*"), []))
        elif line.strip():
            (parts[-1][2] if parts else before).append(line)
    if before or not parts or parts[0][0] != 1:
        return "it does not begin with a title"
    for _, heading, below in parts[1:]:
        if not below:
            return f"nothing stands below {heading!r}"
    count = len(parts) - 1
    return "" if count >= LEAST_PARTS else f"it has {count} of at least {LEAST_PARTS} subtitles"


TASKS: dict[str, Callable[[], Task]] = {
    f"writing_{group}" if group else "writing": partial(load_writing, group)
    for group in ("", "survey", "biography", "timeline")
}
