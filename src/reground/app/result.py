"""What a question gives: the answer with its evidence, its steps and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.core.answers import Citation, Sentence, Thought, abstains
from reground.core.citations import only_markers
from reground.core.errors import EmptyAnswer
from reground.core.language import Usage
from reground.core.trajectory import UNCHECKED, UNGROUNDED, GenerateStep, NoteStep, Trajectory
from reground.support.check import SUPPORTED

if TYPE_CHECKING:
    from reground.retrieval.settings import Skipped

NEAR = 0.25
"""The score of support below which a sentence is about something else than what was read."""


@dataclass(frozen=True)
class Result:
    """An answer with its evidence, its steps and its cost.

    citations: the passages whose markers appear in the text.
    shown: all passages that the model saw when it wrote the answer, including the cited ones.
    sentences: the text sentence by sentence, each with the sentence of a passage that supports it; empty where nothing
        was checked.
    stopped: the budget limit that ended the work early, if one did.
    skipped: the files of the corpus that could not be read, and why. notes: other remarks on its index.
    corpus: the folder or file that was searched, if it was given as one on this machine.
    """

    text: str
    citations: tuple[Citation, ...]
    shown: tuple[Citation, ...]
    sentences: tuple[Sentence, ...]
    steps: tuple[Thought, ...]
    usage: Usage
    seconds: float
    stopped: str | None
    trajectory: Trajectory
    trajectory_path: Path
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    corpus: Path | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def ungrounded(self) -> str | None:
        """Why the answer rests on no document although there was a corpus to search; None if it may rest on one."""
        noted = self._note(UNGROUNDED)
        if noted is None and (self.sentences or self.unchecked) and abstains(self.text):
            return "the passages do not hold the answer"
        scores = [sentence.score for sentence in self.sentences if sentence.score is not None]
        if noted is None and scores and max(scores) < SUPPORTED:
            return f"nothing that was read {'comes near' if max(scores) < NEAR else 'supports'} it"
        return noted

    @property
    def unchecked(self) -> str | None:
        """Why the sentences were not checked although that was asked for: the budget ended before it; else None."""
        return self._note(UNCHECKED)

    def _note(self, name: str) -> str | None:
        notes = (step for step in self.trajectory.steps if isinstance(step, NoteStep) and step.name == name)
        return next((str(note.data["why"]) for note in notes), None)

    @property
    def answered(self) -> bool:
        """Whether the documents, where there are any, gave the answer."""
        return self.ungrounded is None

    @property
    def quotes(self) -> list[Citation]:
        """The sentences that support the answer, each once; without a check the cited passages."""
        quotes = (quote for each in self.sentences for quote in each.supports)
        return list(dict.fromkeys(quotes)) if self.sentences else [*self.citations]

    @property
    def faithfulness(self) -> float | None:
        """The share of the answer's claiming sentences that a passage supports; None if nothing was checked."""
        return None if self.trajectory.answer is None else self.trajectory.answer.faithfulness

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, with the path of the trajectory instead of the trajectory."""
        return {
            "question": self.trajectory.question,
            "answer": self.text,
            "answered": self.answered,
            "faithfulness": self.faithfulness,
            "unchecked": self.unchecked,
            "sentences": [sentence.model_dump(mode="json") for sentence in self.sentences],
            "method": self.trajectory.method,
            "citations": [citation.model_dump(mode="json") for citation in self.citations],
            "shown": [passage.model_dump(mode="json") for passage in self.shown],
            "ungrounded": self.ungrounded,
            "steps": [step.model_dump(mode="json") for step in self.steps],
            "usage": {**self.usage.model_dump(mode="json"), "seconds": round(self.seconds, 3)},
            "stopped": self.stopped,
            "skipped": [skipped.model_dump(mode="json") for skipped in self.skipped],
            "notes": list(self.notes),
            "trajectory": str(self.trajectory_path),
        }


_WHYS = {
    "tool_calls": "the server gave a call of a tool instead of text",
    "content_filter": "the server's content filter held the text back",
}


def empty_answer(trajectory: Trajectory) -> EmptyAnswer | None:
    """The error for an answer without text, with the reason from the last call; None if there is text.

    The numbers of passages alone, such as "[1]", are no text: small models write them.
    """
    answer = trajectory.answer
    if trajectory.failure is not None or answer is None:
        return None
    if only_markers(answer.text, most=max((each.marker for each in answer.shown), default=0)):
        return EmptyAnswer(
            f"the answer is only the number of a passage, {answer.text.strip()}; a larger model says more"
        )
    if answer.text.strip():
        return None
    calls = [step for step in trajectory.steps if isinstance(step, GenerateStep) and step.replies]
    return EmptyAnswer(
        f"the answer is empty: {_why(calls[-1]) if calls else 'no model was called'}; --fresh asks again"
    )


def _why(call: GenerateStep) -> str:
    last = call.replies[0]
    if last.text.strip():
        return f"nothing of {call.model}'s last reply could be used"
    if last.finish_reason == "length":
        doing = "while it was still thinking" if last.reasoning else "before it wrote a word"
        limit = call.sampling.max_tokens + last.room
        return f"{call.model}'s limit of {limit} tokens ended {doing} (--set max_tokens={4 * limit} allows more)"
    return f"{call.model}: {_WHYS.get(last.finish_reason, 'its reply has no text')}"
