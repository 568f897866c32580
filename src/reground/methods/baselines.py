"""The baselines of the papers: one call, a chain of thought, worked examples, a vote, and one retrieval.

They are the rows DIRECT, CoT, few-shot, self-consistency, RAG and CoT+RAG in RAT (tables 1 and 3) and RaR (tables 1
and 2). Each class changes one thing of another: what is asked, what stands before the question, or what is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from reground.core.answers import Answer, Demonstration
from reground.core.evidence import only_markers
from reground.core.language import LEAST_REPLY, Prompt, Reply, tokens_of
from reground.core.run import Run
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import (
    CAVEAT,
    STEP_BY_STEP,
    Templates,
    cite,
    conversation,
    ending,
    general,
    render,
    response,
)
from reground.methods.shared.settings import Positive, Retrieving, Settings, require
from reground.methods.shared.steps import alike, overlap, reasoned

DOCUMENTS = (1, 2, 3, 5, 8, 11, 16, 24)
"""Numbers of passages worth trying. Which is best depends on the model: more may hide the passage that answers."""


@dataclass(frozen=True, kw_only=True)
class DirectPrompts(Templates):
    """`answer`: places {question} and {form}, the sentence that says what an answer looks like."""

    answer: str = "{question}\n\n{form}"


@dataclass(frozen=True, kw_only=True)
class Direct(Settings):
    """Direct: the question, the form of the answer, one call. DIRECT in RAT, table 1, and RaR, table 1.

    prompts: the template.
    """

    prompts: DirectPrompts = DirectPrompts()

    reasons: ClassVar[bool] = False
    """Whether reasoning step by step comes before the answer."""

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        prompt = self._prompt(question, run)
        run.answer_from = ()
        response = await run.ask(self.model, prompt, name="answer", sampling=self.sampling())
        return run.propose(reasoned(response, self.form) if self.reasons else Answer(text=response))

    def _prompt(self, question: str, run: Run) -> Prompt:
        return self._request(question)

    def _request(self, question: str) -> str:
        return render(self.prompts.answer, question=question, form=self.form.short)


@dataclass(frozen=True, kw_only=True)
class ChainOfThought(Direct):
    """CoT: zero-shot chain of thought, step by step and then the answer, in one call.

    Kojima et al. 2022; the CoT baseline of RAT (table 1) and RaR.

    max_tokens: maximum tokens of reasoning and answer together.
    """

    prompts: DirectPrompts = DirectPrompts(answer=STEP_BY_STEP)

    reasons: ClassVar[bool] = True

    def _request(self, question: str) -> str:
        return render(self.prompts.answer, question=question, form=self.form.instruction)


@dataclass(frozen=True, kw_only=True)
class FewShotChainOfThought(ChainOfThought):
    """Few-shot CoT: worked examples before the question, each with its reasoning.

    Wei et al. 2022; a baseline of RaR (table 1). The examples are earlier turns of the conversation.

    prompts: the template, for the examples and the question alike. demonstrations: the worked examples, never taken
    from the evaluated data; None uses general examples that suit the form. shots: number of examples shown, the first
    ones; None shows all.
    """

    demonstrations: tuple[Demonstration, ...] | None = None
    shots: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.demonstrations != (), "few-shot prompting needs at least one demonstration")

    def _prompt(self, question: str, run: Run) -> Prompt:
        """The examples and the question. Under a limit the last examples make room for the answer."""
        examples = self._examples()[: self.shots]
        turns = [(self._request(each.question), response(each, self.form, reasons=self.reasons)) for each in examples]
        messages = conversation(turns, self._request(question))
        room = run.room()
        while room is not None and len(messages) > 1 and tokens_of(messages) + self.form.usual > room:
            del messages[-3:-1]
        return messages

    def sizes(self) -> Sequence[Self]:
        """More examples."""
        return [replace(self, shots=shots) for shots in range(1, len(self._examples()) + 1)]

    def _examples(self) -> tuple[Demonstration, ...]:
        return general(self.form) if self.demonstrations is None else self.demonstrations


@dataclass(frozen=True, kw_only=True)
class FewShot(FewShotChainOfThought):
    """Few-shot: worked examples before the question, answers only, no reasoning. Brown et al. 2020; scaled by examples.

    Neither the examples nor the prompt contain reasoning.
    """

    prompts: DirectPrompts = DirectPrompts()

    reasons: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class SelfConsistency(ChainOfThought):
    """Self-consistency: sample several chains of thought and take the answer that most of them reach.

    Wang et al. 2022; in RaR (table 1) it is scaled by the number of samples.

    form: the form of the answer; its `extract` finds the vote. n: number of samples; one call, or several where a limit
    leaves room for fewer at once. temperature: sampling temperature. max_tokens: maximum tokens of each sample.
    """

    n: Positive = 5
    temperature: float = 0.7

    LADDER = tuple({"n": n} for n in (1, 3, 5, 10, 20, 40))

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        prompt = self._prompt(question, run)
        ample = 4 * self.form.usual  # a sample that is cut before its answer has no vote
        replies: list[Reply] = []
        with run.optional():
            while len(replies) < self.n:
                replies += await self._sample(prompt, run, n=self.n - len(replies), least=ample)
                run.propose(self._vote(replies))
        if not replies:  # a short answer is better than none
            replies = await self._sample(prompt, run, n=1, least=LEAST_REPLY)
        return run.propose(self._vote(replies))

    async def _sample(self, prompt: Prompt, run: Run, *, n: int, least: int) -> list[Reply]:
        return await run.generate(self.model, prompt, name="sample", sampling=self.sampling(n=n), least=least)

    def _vote(self, replies: Sequence[Reply]) -> Answer:
        texts = [reply.text for reply in replies if reply.text.strip()] or [""]
        return reasoned(texts[majority([self.form.extract(text) for text in texts])], self.form)


def majority(answers: Sequence[str]) -> int:
    """The index of the first answer that most others equal, letter case and white space aside.

    Where no two agree (prose, programs) it is the medoid: the answer that shares most words with all others.
    Empty answers have no vote unless all are empty.
    """
    keys = list(map(alike, answers))
    votes = Counter(key for key in keys if key)
    if not votes:
        return 0
    key, count = votes.most_common(1)[0]
    if count > 1 or len(votes) == 1:
        return keys.index(key)
    words = [Counter(key.split()) for key in keys]
    closeness = [sum(overlap(own, other) for other in words) if own else -1.0 for own in words]
    return closeness.index(max(closeness))


@dataclass(frozen=True, kw_only=True)
class Reading(Retrieving):
    """One retrieval, and one answer from what it found. k: number of passages; 5 as in RAG-5."""

    LADDER = tuple({"k": k} for k in DOCUMENTS)

    async def _read(self, template: str, values: Mapping[str, str], evidence: Evidence, run: Run) -> str:
        prompt = evidence.fill(template, values, evidence.all, run, tokens=self.passage_tokens)
        return await run.ask(self.model, prompt, name="answer", sampling=self.sampling())


@dataclass(frozen=True, kw_only=True)
class RAGPrompts(Templates):
    """`answer`: places {question}, {passages} and {form}, how the answer is stated and cited."""

    answer: str = (
        "{passages}\n\n"
        + CAVEAT
        + "\n\nQuestion:\n{question}\n\nAnswer the question with the help of the passages. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class RAG(Reading):
    """RAG: retrieve k passages with the question as the query, then answer from them in one call.

    Lewis et al. 2020; RAG-1 and RAG-5 ("n-shot") in RAT (table 1) and RaR (table 1).

    prompts: the template.
    quote: whether an answer begins with the sentences that hold it, in forms that cite (Menick et al. 2022).
    """

    prompts: RAGPrompts = RAGPrompts()
    quote: bool = False

    PRESETS: ClassVar = {"one": {"k": 1}}

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence = Evidence()
        evidence.add(await find(run, self.retriever, question, k=self.k))  # z, the top k of p(z|x)
        values = {"question": question, "form": ending(self.form, quote=self.quote)}
        run.answer_from = None if self.quote else evidence.passages
        text = await self._read(self.prompts.answer, values, evidence, run)  # y, by p(y|x,z)
        if only_markers(text, most=len(evidence.passages)):
            # Asked to cite, a small model may answer "which of the two" with the number of a passage.
            with run.optional():
                values["form"], run.answer_from = self.form.short, evidence.passages
                text = await self._read(self.prompts.answer, values, evidence, run)
        return run.propose(evidence.answer(text, run, self.form, sources=evidence.in_prompt, quote=self.quote))


@dataclass(frozen=True, kw_only=True)
class ReasonedRAGPrompts(Templates):
    """`reason`: places {question} and {form}. `answer`: {question}, {reasoning}, {passages}, {form} and {cite}."""

    reason: str = STEP_BY_STEP
    answer: str = (
        "Answer the question with the help of the passages. " + CAVEAT + "\n\n"
        "Question:\n{question}\n\nFirst thoughts, which may hold errors:\n{reasoning}\n\n{passages}\n\n"
        "Check the thoughts against the passages and answer the question. {cite} {form}"
    )


@dataclass(frozen=True, kw_only=True)
class ChainOfThoughtRAG(Reading):
    """CoT+RAG: reason first, retrieve once with the whole reasoning as the query, then answer from the passages.

    The middle row of RAT, table 3, and RaR, table 2: retrieval by reasoning, but not step by step.

    prompts: the templates. max_tokens: maximum tokens of the reasoning, and of the answer.
    """

    prompts: ReasonedRAGPrompts = ReasonedRAGPrompts()

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        prompt = render(self.prompts.reason, question=question, form=self.form.instruction)
        reasoning = await run.ask(self.model, prompt, name="reason", sampling=self.sampling())
        evidence = Evidence()
        reasoning = evidence.checked(reasoning, run, self.form)  # nothing was read yet
        thoughts = run.propose(reasoned(reasoning, self.form)).steps
        evidence.add(await find(run, self.retriever, reasoning.strip() or question, k=self.k))
        values = {"question": question, "reasoning": reasoning, "form": self.form.instruction, "cite": cite(self.form)}
        run.answer_from = evidence.passages
        text = await self._read(self.prompts.answer, values, evidence, run)
        return run.propose(evidence.answer(text, run, self.form, sources=evidence.in_prompt, steps=thoughts))
