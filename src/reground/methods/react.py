"""An agent with one tool.

Yao et al. 2022. Their settings for question answering: at most 7 steps, greedy decoding, each turn stops before the
observation. Their Wikipedia look-up inside a page is left out, because passages are already short.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal

from reground.core.answers import Answer, Thought
from reground.core.errors import ParseError
from reground.core.run import Run
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import CAVEAT, Templates, ending, render
from reground.methods.shared.settings import Positive, Retrieving

_ACTION = re.compile(r"(?im)^[ \t\r*]*+action(?:\s*+\d++)?+[\s*]*+:[\s*]*+(search|finish)\s*+\[(.*)", re.DOTALL)
_LATER = re.compile(r"(?im)^[ \t\r*]*+(?:thought|action|observation)(?:\s*+\d++)?+[\s*]*+:")
_THOUGHT = re.compile(r"(?is)thought(?:\s*+\d++)?+[\s*]*+:(.*?)(?=\baction(?:\s*+\d++)?+[\s*]*+:|\Z)")

_MARKER = re.compile(r"\[\d{1,9}\]\s*+\Z")

_HEAD = (
    "Answer the question in turns of a thought and an action. There are two actions:\n"
    "Search[words] looks the words up and gives passages.\nFinish[answer] gives the answer and ends. {ended}\n"
    + CAVEAT
    + "\n\nA turn looks like this:\nThought: I need to know where the river begins.\nAction: "
    "Search[source of the river]"
    "\n\nQuestion:\n{question}\n\nTurns so far:\n{transcript}\n\n"
)


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """What the two calls ask.

    act: places {question}, {transcript}, all turns so far, and {ended}, how the answer is given in Finish[...]. answer,
    when the steps end without a finish: these and {form}, how the answer is stated and cited.
    """

    act: str = _HEAD + "Write the next turn: one thought and one action."
    answer: str = _HEAD + "Give the final answer now. {form}"


@dataclass(frozen=True)
class Action:
    """A parsed turn."""

    thought: str
    kind: Literal["search", "finish"]
    argument: str


@dataclass(frozen=True, kw_only=True)
class ReAct(Retrieving):
    """ReAct: thought, action, observation in turns; the actions are to search and to finish.

    prompts: the templates. max_steps: maximum number of turns. passage_tokens: maximum length of a passage in tokens.
    turn_tokens: maximum tokens of a turn. max_tokens: maximum tokens of an answer after the last turn.
    """

    prompts: Prompts = Prompts()
    max_steps: Positive = 7
    k: int = 2
    passage_tokens: int = 500
    turn_tokens: int = 160

    usual: ClassVar[Mapping[str, str]] = {"act": "Thought: I need to know more of it.\nAction: Search[{number} river]"}

    LADDER = tuple({"max_steps": turns} for turns in range(1, 8))

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence, turns, thoughts = Evidence(), list[str](), list[Thought]()
        apart = self.form.draft_is_query  # a program does not fit into an action: it is asked for by itself
        ended = "The program is asked for then." if apart else f"In the brackets: {self.form.short}"

        def prompt(template: str) -> str:
            transcript = "\n\n".join(turns)
            return render(template, ended=ended, question=question, transcript=transcript, form=ending(self.form))

        def answer(text: str) -> Answer:
            return run.propose(evidence.answer(text, run, self.form, steps=thoughts))

        with run.keeping(lambda: prompt(self.prompts.answer), reply=self.form.usual):
            for number in range(1, self.max_steps + 1):
                with run.span("turn", turn=number) as turn:
                    action = await self._act(prompt(self.prompts.act), turn)
                    if action is None:
                        break
                    if action.kind == "finish" and not apart:
                        return answer(self._labelled(action))
                    if action.kind == "finish" or action.argument in [thought.query for thought in thoughts]:
                        why = "the agent is done" if action.kind == "finish" else "it searched the same again"
                        turn.note("turns ended", why=why)
                        break
                    run.propose(Answer(text=action.thought, steps=tuple(thoughts)))
                    numbers = evidence.add(await find(turn, self.retriever, action.argument, k=self.k))
                    markers = evidence.fit(numbers, turn, tokens=self.passage_tokens, uses=2)
                    passages = evidence.show(markers, tokens=self.passage_tokens) if markers else "nothing was found"
                    head = f"Thought: {action.thought}\nAction: Search[{action.argument}]"
                    turns.append(f"{head}\nObservation:\n{passages}")
                    thoughts.append(Thought(text=action.thought, query=action.argument, citations=tuple(markers)))
        text = await run.ask(self.model, prompt(self.prompts.answer), name="answer", sampling=self.sampling())
        with suppress(ParseError):
            if not apart and (action := parse_action(text)).kind == "finish":
                return answer(self._labelled(action))
        return answer(text)

    async def _act(self, prompt: str, run: Run) -> Action | None:
        sampling = self.sampling(self.turn_tokens, stop=("\nObservation",))
        try:
            return await run.parse(self.model, prompt, parse_action, name="act", sampling=sampling)
        except ParseError as error:
            run.note("turns ended", why=str(error))
            return None

    def _labelled(self, action: Action) -> str:
        """The answer with the form's label, so that `extract` finds it."""
        return f"{action.thought}\n\nAnswer: {action.argument}" if self.form.final_pass else action.argument


def parse_action(text: str) -> Action:
    """The first action of a reply and the thought before it. Raises ParseError without an action."""
    match = _ACTION.search(text)
    if match is None:
        raise ParseError("There is no line 'Action: Search[...]' or 'Action: Finish[...]'.")
    finish = match.group(1).lower() == "finish"
    rest = match.group(2)
    argument = _closed((_LATER.split(rest, maxsplit=1) if finish else rest.split("\n", maxsplit=1))[0]).strip()
    if not argument:
        raise ParseError("The square brackets of the action are empty.")
    thought = _THOUGHT.search(text)
    words = thought.group(1) if thought is not None else text[: match.start()]
    return Action(" ".join(words.replace("**", " ").split()), "finish" if finish else "search", argument)


def _closed(text: str) -> str:
    """The text up to the bracket that closes the action: the last one without a partner in the text, as in "(0, 1]]".

    A marker in a remark behind the action, such as [1], has its partner. Without such a bracket the text up to the last
    one, unless that is a marker's.
    """
    depth, lowest, end = 1, 1, len(text)
    for at, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if depth < min(lowest, 1):
            lowest, end = depth, at
    last = text.rfind("]")
    if end == len(text) and last >= 0 and not _MARKER.search(text):
        end = last
    return text[:end]
