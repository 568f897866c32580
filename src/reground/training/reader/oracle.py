"""A model that knows a question's gold answer and passages. Its replies are what a reader should learn to write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import ABSTENTION
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.untrusted import neutralise
from reground.evaluation.metrics.text import hit
from reground.evaluation.task import Example
from reground.methods.grounded import Prompts
from reground.methods.shared.revision import task_of
from reground.text.sentences import sentences

_NUMBER = re.compile(r'<passage number="(\d+)"')
_KIND = re.compile(r"\([^()]*\)\Z")
_ASKS_NAMES = task_of(Prompts().names)


@dataclass(frozen=True)
class Support:
    """What a gold passage says for the answer.

    sentences: any of them stands for the passage, the best first. decides: whether they hold the answer's words.
    """

    title: str
    sentences: tuple[str, ...]
    decides: bool

    def shown(self, prompt: str) -> str | None:
        """The first of its sentences that a prompt holds; None for a prompt that does not show the passage."""
        return next((each for each in self.sentences if each in prompt), None)


def support(page: Passage, example: Example) -> Support:
    """The sentences of a gold passage that count: all with the answer, supporting ones first; else a supporting one;
    else the first.

    Some datasets number their supporting sentences by another splitter, so an answer's words count for more. Of a
    comparison only the first counts: its answer is often a page's own name, which most sentences hold.
    """
    parts = [neutralise(part.strip()) for part in sentences(page.text) if part.strip()]
    facts = example.metadata.get("supporting_facts")
    pairs = [fact for fact in facts if isinstance(fact, list)] if isinstance(facts, list) else []
    marked = [parts[at] for title, at in pairs if title == page.title and isinstance(at, int) and at < len(parts)]
    holding = [part for part in parts if hit(example.golden_answers, [part])]
    both = [part for part in marked if part in holding]
    counting = list(dict.fromkeys([*both, *holding])) or marked or parts
    most = len(holding) if holding and not _compares(example) else 1
    return Support(title=page.title, sentences=tuple(counting[:most]), decides=bool(holding))


def _compares(example: Example) -> bool:
    return example.metadata.get("type") in {"comparison", "bridge_comparison"}


@dataclass(frozen=True)
class Lesson:
    """A prompt and the reply to learn. kind: `answer`, `abstain` or `names`."""

    kind: str
    messages: tuple[Message, ...]


class Oracle:
    """The model of one question. `lessons` holds what it was asked and said.

    A question with an answer in one passage is answered from this passage alone; a comparison, or a yes and no, only
    from all gold passages. What to read next is the title of a gold passage that the prompt does not show. Where
    neither the question nor a passage mentions the title, no model could know it, and nothing is to be learnt.
    """

    name = "oracle"
    price = None

    def __init__(self, example: Example, supports: Sequence[Support]) -> None:
        self.lessons: list[Lesson] = []
        self._answer = example.golden_answers[0]
        self._supports = supports
        self._needs_all = _compares(example) or not any(each.decides for each in supports)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """The one right reply."""
        prompt = messages[-1].content
        kind, said, learnable = self._named(prompt) if _ASKS_NAMES in prompt else self._answered(prompt)
        if learnable:
            self.lessons.append(Lesson(kind, (*messages, Message(role="assistant", content=said))))
        return [Reply(text=said, usage=Usage(calls=1))]

    def _answered(self, prompt: str) -> tuple[str, str, bool]:
        shown = [(each.decides, said) for each in self._supports if (said := each.shown(prompt)) is not None]
        enough = len(shown) == len(self._supports) if self._needs_all else any(decides for decides, _ in shown)
        if not enough:
            return "abstain", ABSTENTION, True
        first = sorted(shown, key=lambda each: not each[0])
        markers = dict.fromkeys(f"[{_marker(prompt, said)}]" for _, said in first)
        return "answer", f"{self._answer} {''.join(markers)}", True

    def _named(self, prompt: str) -> tuple[str, str, bool]:
        missing = [each.title for each in self._supports if each.shown(prompt) is None]
        seen = prompt.casefold()
        known = all(_KIND.sub("", title).strip().casefold() in seen for title in missing)
        return "names", "; ".join(missing), bool(missing) and known

    async def aclose(self) -> None:
        """Nothing is open."""


def _marker(prompt: str, sentence: str) -> str:
    """The number of the passage that a sentence stands in."""
    numbers: list[str] = _NUMBER.findall(prompt[: prompt.index(sentence)])
    return numbers[-1]
