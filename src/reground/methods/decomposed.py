"""Parts of a question are answered by themselves, and the question from those answers.

Khot et al. 2022, with retrieval as in Self-Ask (Press et al. 2022). The division is written at once from worked
examples, so parts that do not hang on each other are looked up together; a question that is simple already costs one
short call more than RAG. docs/reproduction/win.md compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from reground.core.answers import Answer, Thought
from reground.core.code_blocks import without_fences
from reground.core.concurrency import gather
from reground.core.language import Message
from reground.core.run import Run
from reground.methods.baselines import RAG
from reground.methods.shared.evidence import USUAL_REPLY, Evidence, find
from reground.methods.shared.prompts import CAVEAT, Templates, conversation, ending, examples_of, render
from reground.methods.shared.settings import Positive, Retrieving
from reground.methods.shared.steps import squeezed

_REFERENCE = re.compile(r"#(\d+)")
_NUMBER = re.compile(
    r"^[\s*_>]*+(?:[-*•–]\s++)?+[*_]*+"
    r"(?:(?:(?:sub-?)?questions?|part|step|q)?+\s*+(?:\(\d{1,2}\)|\d{1,2}[.):：])[*_]*+\s++)?+",
    re.IGNORECASE,
)
_OWN = re.compile(r"^#(\d+)(?:\s*+[.):：]\s*+|\s++(?=[A-Z]))|(?<=[?？])\s*+\(?#(\d+)\)?$")
"""The number of a part before or behind it, written like a reference, to which the part cannot refer."""
_ANSWERED = re.compile(r"^answer\b[^:：]{0,9}[:：]", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """What the calls ask. divide: no places; divided questions follow it. read: places {passages} and {question}.

    conclude: {form}; for a short answer worked examples follow it. notes: {notes} and {question}.
    """

    divide: str = (
        "Write the simple questions that must be answered first, one a line. #1 stands for the answer to the first. "
        "A question that is simple already is repeated."
    )
    read: str = "{passages}\n\n" + CAVEAT + "\n\n{question}\nAnswer in a few words from the passages, and nothing else."
    conclude: str = "Answer the question from the notes. {form}"
    notes: str = "Notes:\n{notes}\n\nQuestion: {question}"


@dataclass(frozen=True, kw_only=True)
class Decomposed(Retrieving):
    """Decomposed prompting: divide the question, look each part up and answer it briefly, then answer from the notes.

    prompts: the templates. k: passages for a part. whole_k: passages for a question that is not divided, which is read
    as RAG reads it. most: maximum number of parts; further ones are left out.
    part_tokens: maximum tokens of a part's answer.
    """

    prompts: Prompts = Prompts()
    k: int = 2
    whole_k: Positive = 3
    most: Positive = 4
    part_tokens: int = 32

    LADDER = tuple({"k": k, "whole_k": whole} for k, whole in ((1, 2), (2, 3), (3, 5), (5, 8)))

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        parts: list[str] = []
        with run.keeping(lambda: self._concluding(question, {}), reply=self._usual):
            parts = await self._divide(question, run)
        if len(parts) < 2:
            own = {each.name: getattr(self, each.name) for each in fields(Retrieving)}
            return await RAG(**own | {"k": self.whole_k}).solve(question, run)
        evidence, notes = Evidence(), dict[int, Thought]()
        with run.keeping(lambda: self._concluding(question, notes), reply=self._usual):
            await self._look_up(parts, notes, evidence, run)
        prompt = self._concluding(question, notes)
        run.answer_from = evidence.passages
        text = await run.ask(self.model, prompt, name="answer", sampling=self.sampling())
        steps = [notes[n] for n in sorted(notes)]
        return run.propose(evidence.answer(text, run, self.form, steps=steps))

    async def _look_up(self, parts: Sequence[str], notes: dict[int, Thought], evidence: Evidence, run: Run) -> None:
        """Answer the parts, those first that others need, as long as there is room beside the last call."""
        while waiting := [n for n in range(len(parts)) if n not in notes]:
            ready = [n for n in waiting if all(each - 1 in notes for each in references(parts[n]) if each <= n)]
            questions = [filled(parts[n], notes) for n in ready]
            results = await gather(*(find(run, self.retriever, each, k=self.k) for each in questions))
            readings = []
            for part, passages in zip(questions, results, strict=True):
                # All prompts before the first call, whose cost would be another at a replay.
                prompt = evidence.fill(
                    self.prompts.read,
                    {"question": part},
                    evidence.add(passages),
                    run,
                    tokens=self.passage_tokens,
                    reply=self.part_tokens,
                    uses=len(waiting),
                )
                readings.append((part, prompt, evidence.in_prompt))
            answers = await gather(*(self._read(*each, run) for each in readings))
            notes |= {n: note for n, note in zip(ready, answers, strict=True) if note is not None}
            if None in answers:
                break

    @property
    def _usual(self) -> int:
        """The tokens of a usual answer."""
        return USUAL_REPLY if self.form.bare else self.form.usual

    async def _divide(self, question: str, run: Run) -> list[str]:
        """The parts; a single one is the question, in words that may say less."""
        examples = [(each.question, each.answer) for each in examples_of("decomposed")["divided"]]
        turns = conversation(examples, question, system=self.prompts.divide)
        sampling = self.sampling(self.most * self.part_tokens)
        reply = await run.ask(self.model, turns, name="divide", sampling=sampling)
        return read_parts(reply, question)[: self.most]

    async def _read(self, part: str, prompt: str, markers: Sequence[int], run: Run) -> Thought | None:
        """A part's short answer; None where there is no room for it beside the last call."""
        with run.optional():
            sampling = self.sampling(self.part_tokens)
            answer = await run.ask(self.model, prompt, name="read", sampling=sampling)
            return Thought(text=squeezed(answer).rstrip("."), query=part, citations=tuple(markers))
        return None

    def _concluding(self, question: str, notes: dict[int, Thought]) -> Sequence[Message]:
        """The messages of the last call: a note for each part, with what it was read from where the answer cites."""
        lines = []
        for note in (notes[n] for n in sorted(notes)):
            sources = "" if self.form.bare else "".join(f" [{marker}]" for marker in note.citations)
            lines.append(f"{note.query} {note.text}{sources}")
        template = self.prompts.notes
        shots = examples_of("decomposed")["concluded"] if self.form.name == "phrase" else ()
        examples = [(render(template, notes=each.reasoning, question=each.question), each.answer) for each in shots]
        request = render(template, notes="\n".join(lines), question=question)
        return conversation(examples, request, system=render(self.prompts.conclude, form=ending(self.form)))


def read_parts(reply: str, question: str = "") -> list[str]:
    """The parts in a model's reply, up to the first that refers to itself or to a later one.

    A line that introduces others is no part, nor is a fence, an answer, or a line of a question that has several, such
    as an option. A part's own number is left out, also where it is written like a reference: "#1: Who wrote it?"
    """
    lines = (_NUMBER.sub("", line).strip() for line in without_fences(reply).splitlines())
    own = {squeezed(_NUMBER.sub("", line)) for line in question.splitlines()[1:]}
    parts: list[str] = []
    for line in lines:
        if not line or line.endswith((":", "：")) or squeezed(line) in own or _ANSWERED.match(line):
            continue
        line = _without_number(line, str(len(parts) + 1))
        if not line or not all(1 <= each <= len(parts) for each in references(line)):
            break
        parts.append(line)
    return parts


def _without_number(line: str, number: str) -> str:
    return _OWN.sub(lambda match: "" if number in match.groups() else match.group(), line).strip()


def references(part: str) -> list[int]:
    """The parts, counted from 1, whose answers a part needs."""
    return [int(number) for number in _REFERENCE.findall(part)]


def filled(part: str, notes: dict[int, Thought]) -> str:
    """A part with the answers that it refers to in their places."""

    def answer(reference: re.Match[str]) -> str:
        note = notes.get(int(reference[1]) - 1)
        return reference[0] if note is None else note.text

    return _REFERENCE.sub(answer, part)
