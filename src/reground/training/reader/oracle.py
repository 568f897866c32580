"""A model that knows a question's gold answer and passages. Its replies are what a reader should learn to write."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reground.core.answers import ABSTENTION
from reground.core.language import Message, Reply, Sampling, Usage
from reground.methods.grounded import Prompts
from reground.text.echoes import task_of
from reground.training.gold import Gold, Lesson, mentions

_NUMBER = re.compile(r'<passage number="(\d+)"')
_ASKS_NAMES = task_of(Prompts().names)


class Oracle:
    """The model of one question. `lessons` holds what it was asked and said.

    kind of a lesson: `answer`, `abstain` or `names`. What to read next is the title of a gold passage that the prompt
    does not show. Where neither the question nor a passage mentions the title, no model could know it, and nothing is
    to be learnt.
    """

    name = "oracle"
    price = None

    def __init__(self, gold: Gold) -> None:
        self.lessons: list[Lesson] = []
        self._gold = gold

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """The one right reply."""
        prompt = messages[-1].content
        kind, said, learnable = self._named(prompt) if _ASKS_NAMES in prompt else self._answered(prompt)
        if learnable:
            self.lessons.append(Lesson(kind, (*messages, Message(role="assistant", content=said))))
        return [Reply(text=said, usage=Usage(calls=1))]

    def _answered(self, prompt: str) -> tuple[str, str, bool]:
        shown = {each: said for each in self._gold.supports if (said := each.shown(prompt)) is not None}
        if not self._gold.enough(shown):
            return "abstain", ABSTENTION, True
        first = sorted(shown, key=lambda each: not each.decides)
        markers = dict.fromkeys(f"[{_marker(prompt, shown[each])}]" for each in first)
        return "answer", f"{self._gold.answer} {''.join(markers)}", True

    def _named(self, prompt: str) -> tuple[str, str, bool]:
        missing = [each.title for each in self._gold.supports if each.shown(prompt) is None]
        return "names", "; ".join(missing), bool(missing) and all(mentions(prompt, title) for title in missing)

    async def aclose(self) -> None:
        """Nothing is open."""


def _marker(prompt: str, sentence: str) -> str:
    """The number of the passage that a sentence stands in."""
    numbers: list[str] = _NUMBER.findall(prompt[: prompt.index(sentence)])
    return numbers[-1]
