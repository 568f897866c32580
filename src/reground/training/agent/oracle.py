"""A model that knows the gold answer and passages. Its replies are what the Search Agent should learn to write."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.markers import unbracketed
from reground.methods.search_agent import FINISH
from reground.methods.search_agent.actions import (
    Action,
    GivenAnswer,
    LinkSelection,
    ResultItem,
    Search,
    Terminate,
    literal,
    reply,
)
from reground.methods.search_agent.prompts import Prompts
from reground.methods.search_agent.steps import ANSWER, DECIDE, SUMMARISE
from reground.training.gold import Gold, Lesson, Support, mentions

_STRING = r'"(?:[^"\\]|\\.)*+"'
_ITEM = re.compile(rf"ResultItem\(link_id=(\d+), link_text=({_STRING}),\s*+snippet=({_STRING})\)")


def items(prompt: str) -> list[ResultItem]:
    """The search results that a prompt shows, those of past actions too."""
    return [
        ResultItem(int(number), ast.literal_eval(title), ast.literal_eval(snippet))
        for number, title, snippet in _ITEM.findall(prompt)
    ]


class Oracle:
    """The model of one question. `lessons` holds what it was asked and said.

    kind of a lesson: the step's name, or `finish`. It searches for the question first, and then for the title of a
    gold passage that it has not seen, if the question or a result mentions it: no model could know another one. Of a
    search it selects the results with the sentences that count, and copies these. It answers where the selected
    results hold the answer; else it says nothing, and nothing is to be learnt.
    """

    name = "oracle"
    price = None

    def __init__(self, question: str, gold: Gold) -> None:
        self.lessons: list[Lesson] = []
        self._question, self._gold = question, gold
        prompts = Prompts()
        self._steps = {
            prompts.system(DECIDE.name): (DECIDE.name, self._decide),
            prompts.system(SUMMARISE.name): (SUMMARISE.name, self._summarise),
            prompts.system(ANSWER.name): (ANSWER.name, self._answer),
        }

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """The one right reply; an empty one where the answer has not been found."""
        name, take = self._steps.get(messages[0].content, (FINISH, None))
        said = self._gold.answer if take is None else take(messages[-1].content)
        if said:
            self.lessons.append(Lesson(name, (*messages, Message(role="assistant", content=said))))
        return [Reply(text=said, usage=Usage(calls=1))]

    def _decide(self, prompt: str) -> str:
        if "Search(query=" not in prompt:
            return reply(Search(" ".join(self._question.split()), "Nothing is known yet."))
        return reply(self._next(prompt))

    def _next(self, prompt: str) -> Action:
        seen = self._shown(items(prompt))
        if self._gold.enough(seen):
            return Terminate("The results say what the answer needs.")
        for title in (each.title for each in self._gold.supports if each not in seen):
            if mentions(prompt, title) and f"Search(query={literal(title)}," not in prompt:
                return Search(title, f"It is not known yet what is said of {title}.")
        return Terminate("Nothing further is named that could be searched.")

    def _summarise(self, prompt: str) -> str:
        past, _, results = prompt.partition("CURRENT_SEARCH_RESULTS")
        found = self._shown(items(results))
        facts = " ".join(f"{sentence} [link_id={link}]" for link, sentence in found.values())
        links = tuple(sorted(link for link, _ in found.values()))
        enough = self._gold.enough({**self._shown(items(past)), **found})
        thoughts = "That is enough to answer." if enough else "Something is still missing."
        return reply(LinkSelection(facts or "Nothing here helps.", links, thoughts), [_helping(links)])

    def _answer(self, prompt: str) -> str:
        found = self._shown(items(prompt))
        if not self._gold.enough(found):
            return ""
        ordered = sorted(found, key=lambda each: not each.decides)
        links = "".join(f"[link_id={link}]" for link in dict.fromkeys(found[each][0] for each in ordered))
        return reply(GivenAnswer(f"The answer is {self._gold.answer} {links}.", f"It stands in {links}."))

    def _shown(self, results: Sequence[ResultItem]) -> dict[Support, tuple[int, str]]:
        """Of each gold passage whose sentence is among these results, the link and the sentence."""
        found: dict[Support, tuple[int, str]] = {}
        for each in self._gold.supports:
            for item in results:
                said = next((s for s in map(_as_shown, each.sentences) if s in item.snippet), None)
                if said is not None and each not in found:
                    found[each] = item.link_id, said
        return found

    async def aclose(self) -> None:
        """Nothing is open."""


def _as_shown(sentence: str) -> str:
    return unbracketed(" ".join(sentence.split()))


def _helping(links: Sequence[int]) -> str:
    return f"Helpful: {', '.join(f'[link_id={link}]' for link in links)}." if links else "None of these results helps."
