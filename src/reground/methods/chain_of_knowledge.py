"""Chain-of-Knowledge: correct each rationale with retrieved knowledge where sampled answers disagree.

Li et al. 2023. Their settings: knowledge is adapted only when self-consistency is below 0.5. Later rationales see the
corrected earlier ones. The answer is consolidated from the corrected chain. The paper uses several knowledge sources;
here they are one retriever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reground.core.answers import TEXT, Answer, AnswerForm, Thought
from reground.core.concurrency import gather
from reground.core.evidence import Passage, Retriever
from reground.core.language import REPLY_TOKENS, LanguageModel, Sampling
from reground.core.run import Run
from reground.methods.baselines import majority
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import MAY_STAY, QUOTED, Templates, cite, render, require
from reground.methods.shared.revision import DELETED, accepted
from reground.methods.shared.steps import join_steps, reasoned, split_draft
from reground.text.queries import clean_query


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """What the four calls ask.

    sample: places {question} and {form}, what an answer looks like. query: {question} and {thought}.
    correct: {question}, {before} (the corrected rationales before), {thought}, {passages} and {cite}.
    answer: {question}, {thoughts} and {form}.
    """

    sample: str = "{question}\n\nThink step by step. Leave a blank line between the steps. {form}"
    query: str = (
        "Question:\n{question}\n\nStatement:\n{thought}\n\nWrite a search query of a few words to look up whether the "
        "statement is true. Write only the query."
    )
    correct: str = (
        "Question:\n{question}\n\nSteps, each one checked:\n{before}\n\n{passages}\n\n" + QUOTED + " " + MAY_STAY
        + "\n\nStep to check:\n{thought}\n\nWrite this step again, corrected where the passages contradict it. {cite} "
        "Write only the step."
    )  # fmt: skip
    answer: str = (
        "Question:\n{question}\n\nSteps, each one checked:\n{thoughts}\n\n"
        "Follow these steps and give the final answer. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class ChainOfKnowledge:
    """Self-consistency decides whether knowledge is needed; then rationales are corrected in sequence.

    model, retriever: the model that reasons, and the index to search. form: the form of the answer.
    prompts: the templates. n, sample_temperature: number of samples that vote, and their temperature.
    consistent: share of equal answers at or above which nothing is corrected.
    max_steps: maximum number of rationales to correct. k: passages per rationale.
    passage_tokens: maximum length of a passage in tokens. temperature: temperature of the other calls; 0 is greedy.
    max_tokens: maximum tokens of a chain, a rationale or an answer. query_tokens: maximum tokens of a query.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    n: int = 5
    sample_temperature: float = 0.7
    consistent: float = 0.5
    max_steps: int = 4
    k: int = 1
    passage_tokens: int = 2000
    temperature: float = 0.0
    max_tokens: int = REPLY_TOKENS
    query_tokens: int = 64

    def __post_init__(self) -> None:
        require(min(self.n, self.k, self.max_steps) >= 1, "n, k and max_steps must be at least 1")
        require(0 <= self.consistent <= 1, "consistent must lie between 0 and 1")
        require(min(self.passage_tokens, self.max_tokens, self.query_tokens) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        prompt = render(self.prompts.sample, question=question, form=self.form.instruction)
        sampling = Sampling(n=self.n, temperature=self.sample_temperature, max_tokens=self.max_tokens)
        chains = [reply.text for reply in await run.generate(self.model, prompt, name="sample", sampling=sampling)]
        answers = [self.form.extract(chain) for chain in chains]
        chain = chains[majority(answers)]
        answer = run.propose(reasoned(chain, self.form))
        share = agreement(answers)
        run.note("consistency", share=share, threshold=self.consistent)
        if share >= self.consistent:
            return answer
        return await self._adapt(question, chain, run)

    async def _adapt(self, question: str, chain: str, run: Run) -> Answer:
        evidence = Evidence()
        drafts, _ = split_draft(evidence.checked(chain, run, self.form), self.form, most=self.max_steps)
        steps = [run.span("rationale", step=number) for number in range(1, len(drafts) + 1)]
        looked_up = await gather(
            *(self._look_up(question, draft, step) for draft, step in zip(drafts, steps, strict=True))
        )
        thoughts = [
            Thought(text=draft, draft=draft, query=query, citations=tuple(evidence.add(found)))
            for draft, (query, found) in zip(drafts, looked_up, strict=True)
        ]

        def concluding() -> str:
            checked = join_steps([thought.text for thought in thoughts])
            return render(self.prompts.answer, question=question, thoughts=checked, form=self.form.instruction)

        with run.keeping(concluding, reply=self.form.usual):
            for i, step in enumerate(steps):
                thoughts[i] = await self._correct(question, thoughts[i], thoughts[:i], evidence, step)
        text = await run.ask(self.model, concluding(), name="answer", sampling=self._sampling(self.max_tokens))
        shown = [marker for thought in thoughts for marker in thought.citations]
        return run.propose(evidence.answer(text, run, self.form, shown=shown, steps=thoughts))

    async def _look_up(self, question: str, draft: str, run: Run) -> tuple[str, list[Passage]]:
        """A rationale's query and the passages it finds; neither depends on the other rationales' corrections."""
        prompt = render(self.prompts.query, question=question, thought=draft)
        reply = await run.ask(self.model, prompt, name="query", sampling=self._sampling(self.query_tokens))
        query = clean_query(reply, fallback=draft)
        return query, await find(run, self.retriever, query, k=self.k)

    async def _correct(
        self, question: str, thought: Thought, before: Sequence[Thought], evidence: Evidence, run: Run
    ) -> Thought:
        if not thought.citations:
            return thought
        earlier = join_steps([one.text for one in before])
        parts = {"question": question, "before": earlier, "thought": thought.text, "cite": cite(self.form)}
        prompt = evidence.fill(self.prompts.correct, parts, thought.citations, run, tokens=self.passage_tokens, uses=2)
        (corrected,) = await run.generate(self.model, prompt, name="correct", sampling=self._sampling(self.max_tokens))
        text = accepted(
            corrected, run, self.form, template=self.prompts.correct, before=thought.text, gone=(DELETED, "")
        )
        if text is None:
            return thought
        known = [*evidence.held, *evidence.cited(thought.text, self.form)]
        return thought.model_copy(update={"text": evidence.checked(text, run, self.form, known=known)})

    def sizes(self) -> Sequence[ChainOfKnowledge]:
        """More samples and corrected rationales."""
        return [replace(self, n=n, max_steps=steps) for n, steps in ((2, 1), (3, 2), (5, 2), (5, 4), (10, 4), (10, 8))]

    def _sampling(self, max_tokens: int) -> Sampling:
        return Sampling(temperature=self.temperature, max_tokens=max_tokens)


def agreement(answers: Sequence[str]) -> float:
    """The share of the samples that give the most frequent answer; 0 where none gives any."""
    votes = Counter(key for key in (" ".join(answer.casefold().split()) for answer in answers) if key)
    return votes.most_common(1)[0][1] / len(answers) if votes else 0.0


METHOD = ChainOfKnowledge
