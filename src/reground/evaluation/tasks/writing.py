"""Creative writing (RAT and RaR, appendix A.4): surveys, lives and timelines, three of each.

People compared the texts in the papers, two at a time. So the primary measure, quality, is left to people or to a
judge, and what the task counts by itself says nothing about it: a text may keep its form and name a hundred years, all
of them wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from reground.core.answers import ARTICLE, AnswerForm
from reground.core.citations import without_unknown
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import Line, read_values
from reground.evaluation.task import Example, Loaded, Score, Task
from reground.evaluation.tasks.retrieval import retrieve_steps, shown_texts
from reground.text.sentences import sentences

QUALITY = "quality"
DECIDED = "people or a judge decide it: reground judge RUNS or eval --judge MODEL"
CRITERIA = (
    "relevance: it does what is asked; accuracy: its facts, names and dates are right; completeness: nothing that "
    "matters is missing; readability: it is well ordered and coherent"
)
"""What annotators were asked to look at (appendix C)."""

_FILE = Path(__file__).with_suffix(".jsonl")
_GROUPS = ("survey", "biography", "timeline")


@dataclass(frozen=True)
class Writing(Loaded):
    """Requests for an article with subtitles. There is no reference, so quality is unscored without a judge.

    criteria: what people and judges look at.
    """

    form: AnswerForm = ARTICLE
    criteria: str = CRITERIA

    def solutions(self) -> Sequence[str]:
        """None: there is no right answer."""
        return ()

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Counts of the text; whether its years and names were read somewhere; and quality, which is unscored."""
        text = trajectory.answer.text if trajectory.answer is not None else ""
        if not text.strip():
            return {QUALITY: Score(value=None, why="there is no answer")}
        sections = parts(text)
        lacking = lacks(sections)
        dates, people = years(text), names(sections)
        scores = {
            QUALITY: Score(value=None, why=DECIDED),
            "form kept": Score(value=float(not lacking), why=lacking),
            "words": Score(value=words(text)),
            "subtitles": Score(value=len(subtitles(sections))),
            "years": Score(value=len(dates)),
            "names": Score(value=len(people)),
            "years read": _read(dates, "years", trajectory),
            "names read": _read(people, "names", trajectory),
        }
        if example.metadata["group"] == "timeline":
            order = in_order(sections)
            why = "" if order is not None else "fewer than two parts name a year"
            scores["years in order"] = Score(value=order, why=why)
        return scores


class _Request(Line):
    id: str
    question: str
    group: str
    source: str


def load_writing(group: str = "") -> Writing:
    """The requests of the package; metadata: group, source. group: one kind of text, or all where it is empty.

    The papers print three topics and, as an example, a fourth; these have `source` "paper". The others are ours.
    """
    loaded = (
        Example(id=item.id, question=item.question, metadata={"group": item.group, "source": item.source})
        for _, item in read_values(_FILE, _Request)
        if group in {"", item.group}
    )
    return Writing(f"writing_{group}" if group else "writing", QUALITY, tuple(loaded))


def _read(items: Sequence[str], what: str, trajectory: Trajectory) -> Score:
    """The share of the items that a passage has, of which a prompt showed that part."""
    if not retrieve_steps(trajectory):
        return Score(value=None, why="nothing was retrieved")
    share = supported(items, shown_texts(trajectory))
    return Score(value=share, why="" if share is not None else f"the answer has no {what}")


LEAST_PARTS = 3
"""Parts that a text must have to keep the form of an article."""

_HEADING = re.compile(r"[ ]{0,3}(#{1,6})[ \t]+(\S.*)|\*\*([^*]+)\*\*:?[ \t]*")
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_YEAR = re.compile(r"\b(?:1\d|20)\d\d(?=s?\b)")
_NAME = re.compile(r"\b[^\W\d_a-z][\w’'-]*+(?:[ ][^\W\d_a-z][\w’'-]*+)*+")


@dataclass(frozen=True)
class Part:
    """A heading and the text below it. level: the number of its #; a line in bold is a 2. A text before the first
    heading has none: level 0."""

    level: int
    heading: str
    text: str


def parts(text: str) -> list[Part]:
    """The parts of a text in Markdown, in order. Together they hold every line but blank ones around a part."""
    found, level, heading, below = [], 0, "", list[str]()
    for line in [*text.splitlines(), None]:
        head = None if line is None else _HEADING.fullmatch(line)
        if line is not None and head is None:
            below.append(line)
            continue
        if heading or any(map(str.strip, below)):
            found.append(Part(level, heading, "\n".join(below).strip()))
        if head is not None:
            level, heading, below = len(head[1] or "##"), (head[2] or head[3]).strip(" #*"), []
    return found


def subtitles(found: Sequence[Part]) -> list[Part]:
    """The parts under a subtitle that have a text. A first heading of level 1 is the title."""
    return [part for i, part in enumerate(found) if part.heading and part.text and not (i == 0 and part.level == 1)]


def lacks(found: Sequence[Part]) -> str:
    """What a text lacks of a title and subtitles with a text below each; empty if it lacks nothing."""
    if not found or found[0].level != 1:
        return "it does not begin with a title"
    empty = [part.heading for part in found[1:] if not part.text]
    if empty:
        return f"nothing stands below {empty[0]!r}"
    count = len(subtitles(found))
    return "" if count >= LEAST_PARTS else f"it has {count} of at least {LEAST_PARTS} subtitles"


def words(text: str) -> int:
    """The number of words, without markers such as [1]."""
    return len(_WORD.findall(without_unknown(text, ())[0]))


def years(text: str) -> list[str]:
    """The years from 1000 to 2099, each once, as they come; "1860s" counts as 1860. So does any such number."""
    return list(dict.fromkeys(_YEAR.findall(text)))


def names(found: Iterable[Part]) -> list[str]:
    """Words in a row that begin with a capital letter, each row once, as they come; headings are left out.

    The first word of a sentence says nothing by its capital and does not count. Meant for English.
    """
    rows = []
    for part in found:
        for line in filter(None, map(str.strip, part.text.splitlines())):
            for sentence in sentences(line):
                first = _WORD.search(sentence)
                rows += _NAME.findall(sentence, first.end()) if first else []
    return list(dict.fromkeys(rows))


def supported(items: Sequence[str], texts: Iterable[str]) -> float | None:
    """The share of the items whose words stand in a row in one of the texts, whatever their case; None without any."""
    read = [_plain(text) for text in texts]
    return sum(any(_plain(item) in text for text in read) for item in items) / len(items) if items else None


def in_order(found: Sequence[Part]) -> float | None:
    """Of the parts that name a year, the share that begins no earlier than the one before; None with fewer than two.

    A part begins with the first year of its heading, else of its text.
    """
    starts = [int(named[0]) for part in subtitles(found) if (named := years(part.heading) or years(part.text))]
    pairs = list(pairwise(starts))
    return sum(earlier <= later for earlier, later in pairs) / len(pairs) if pairs else None


def _plain(text: str) -> str:
    """The words alone, each between spaces."""
    return " ".join(["", *re.findall(r"[^\W_]+", text.casefold()), ""])


TASKS: dict[str, Callable[[], Task]] = {
    f"writing_{group}" if group else "writing": partial(load_writing, group) for group in ("", *_GROUPS)
}
