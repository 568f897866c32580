"""Creative writing (RAT and RaR, appendix A.4): surveys, lives and timelines, three of each.

People compared the texts in the papers, two at a time. So the primary measure, quality, is left to people or to a
judge, and what the task counts by itself says nothing about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reground.core.answers import ARTICLE, AnswerForm
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import numbered_records
from reground.evaluation.metrics import writing
from reground.evaluation.task import Example, Score, Task
from reground.evaluation.tasks._retrieved import retrieve_steps, shown_texts

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
class Writing(Task):
    """Requests for an article with subtitles, from the package. There is no reference.

    group: one kind of text, or all where it is empty. The papers print three topics and, as an example, a fourth; these
    have `source` "paper" in their metadata. The others are ours.
    """

    group: str = ""

    @property
    def name(self) -> str:
        """writing, or writing_GROUP."""
        return f"writing_{self.group}" if self.group else "writing"

    @property
    def form(self) -> AnswerForm:
        """An article with a title and subtitles."""
        return ARTICLE

    @property
    def primary(self) -> str:
        """Quality, which no number of the task's own stands for: it is unscored without a judge."""
        return QUALITY

    @property
    def criteria(self) -> str:
        """What people and judges look at."""
        return CRITERIA

    def examples(self) -> Sequence[Example]:
        """The requests, in the file's order; metadata: group, source."""
        return tuple(
            Example(
                id=str(record["id"]),
                question=str(record["question"]),
                metadata={"group": str(record["group"]), "source": str(record["source"])},
            )
            for _, record in numbered_records(_FILE, ("id", "question", "group", "source"))
            if self.group in {"", record["group"]}
        )

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Counts of the text; whether its years and names were read somewhere; and quality, which is unscored."""
        text = trajectory.answer.text if trajectory.answer is not None else ""
        if not text.strip():
            return {QUALITY: Score(value=None, why="there is no answer")}
        found = writing.parts(text)
        lacking = writing.keeps_form(found)
        years, names = writing.years(text), writing.names(found)
        scores = {
            QUALITY: Score(value=None, why=DECIDED),
            "form kept": Score(value=float(not lacking), why=lacking),
            "words": Score(value=writing.words(text)),
            "subtitles": Score(value=len(writing.subtitles(found))),
            "years": Score(value=len(years)),
            "names": Score(value=len(names)),
            "years read": _read(years, "years", trajectory),
            "names read": _read(names, "names", trajectory),
        }
        if example.metadata["group"] == "timeline":
            order = writing.in_order(found)
            why = "" if order is not None else "fewer than two parts name a year"
            scores["years in order"] = Score(value=order, why=why)
        return scores


def _read(items: Sequence[str], what: str, trajectory: Trajectory) -> Score:
    """The share of the items that a passage has, of which a prompt showed that part."""
    if not retrieve_steps(trajectory):
        return Score(value=None, why="nothing was retrieved")
    share = writing.supported(items, shown_texts(trajectory))
    return Score(value=share, why="" if share is not None else f"the answer has no {what}")


TASKS: dict[str, Callable[[], Task]] = {
    f"writing_{group}" if group else "writing": partial(Writing, group) for group in ("", *_GROUPS)
}
