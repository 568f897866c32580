"""Self-consistency decides whether knowledge is needed; then rationales are corrected in sequence.

Li et al. 2023. Their settings: knowledge is adapted only when self-consistency is below 0.5. Later rationales see the
corrected earlier ones. The answer is consolidated from the corrected chain. The paper uses several knowledge sources;
here they are one retriever.
"""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.answers import Answer, Thought
from reground.core.concurrency import gather
from reground.core.evidence import Passage
from reground.core.language import Sampling
from reground.core.run import Run
from reground.methods.baselines import majority
from reground.methods.shared.evidence import find
from reground.methods.shared.prompts import CAVEAT, MAY_STAY, STEP_BY_STEP, Templates, render
from reground.methods.shared.revision import DELETED, Revising, Solving
from reground.methods.shared.settings import Positive, require
from reground.methods.shared.steps import alike, join_steps, reasoned, split_draft
from reground.text.queries import clean_query


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """What the four calls ask.

    sample: places {question} and {form}, what an answer looks like. query: {question} and {thought}.
    correct: {question}, {before} (the corrected rationales before), {thought}, {passages} and {cite}.
    answer: {question}, {thoughts} and {form}.
    """

    sample: str = STEP_BY_STEP
    query: str = (
        "Question:\n{question}\n\nStatement:\n{thought}\n\nWrite a search query of a few words to look up whether the "
        "statement is true. Write only the query."
    )
    correct: str = (
        "Question:\n{question}\n\nSteps, each one checked:\n{before}\n\n{passages}\n\n"
        + CAVEAT
        + " "
        + MAY_STAY
        + "\n\nStep to check:\n{thought}\n\nWrite this step again, corrected where the passages contradict it. {cite} "
        "Write only the step."
    )
    answer: str = (
        "Question:\n{question}\n\nSteps, each one checked:\n{thoughts}\n\n"
        "Follow these steps and give the final answer. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class ChainOfKnowledge(Revising):
    """Chain-of-Knowledge: correct each rationale with retrieved knowledge where sampled answers disagree.

    prompts: the templates. n, sample_temperature: number of samples that vote, and their temperature.
    consistent: share of equal answers at or above which nothing is corrected.
    max_steps: maximum number of rationales to correct. k: passages per rationale.
    temperature: temperature of the other calls; 0 is greedy. max_tokens: maximum tokens of a chain, a rationale or an
    answer.
    """

    prompts: Prompts = Prompts()
    n: Positive = 5
    sample_temperature: float = 0.7
    consistent: float = 0.5
    max_steps: Positive = 4

    LADDER = tuple({"n": n, "max_steps": steps} for n, steps in ((2, 1), (3, 2), (5, 2), (5, 4), (10, 4), (10, 8)))

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.consistent <= 1, "consistent must lie between 0 and 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        prompt = render(self.prompts.sample, question=question, form=self.form.instruction)
        sampling = Sampling(n=self.n, temperature=self.sample_temperature, max_tokens=self.max_tokens)
        chains = [reply.text for reply in await run.generate(self.model, prompt, name="sample", sampling=sampling)]
        answers = [self.form.extract(chain) for chain in chains]
        best = majority(answers)
        answer = run.propose(reasoned(chains[best], self.form))
        same = [alike(each) == alike(answers[best]) != "" for each in answers]
        share = sum(same) / len(same)
        run.note("consistency", share=share, threshold=self.consistent)
        return answer if share >= self.consistent else await _Adapting(self, question, run).adapt(chains[best])


class _Adapting(Solving[ChainOfKnowledge]):
    """The chain, corrected rationale by rationale."""

    async def adapt(self, chain: str) -> Answer:
        config, form = self.config, self.config.form
        drafts, _ = split_draft(self.evidence.checked(chain, self.run, form), form, most=config.max_steps)
        spans = [self.run.span("rationale", step=number) for number in range(1, len(drafts) + 1)]
        lookups = await gather(*map(self._look_up, drafts, spans))
        thoughts = [
            Thought(text=draft, draft=draft, query=query, citations=tuple(self.evidence.add(passages)))
            for draft, (query, passages) in zip(drafts, lookups, strict=True)
        ]

        def concluding() -> str:
            checked = join_steps([thought.text for thought in thoughts])
            return render(config.prompts.answer, question=self.question, thoughts=checked, form=form.instruction)

        with self.run.keeping(concluding, reply=form.usual):
            for i, (thought, span) in enumerate(zip(thoughts, spans, strict=True)):
                if thought.citations:
                    values = {"before": join_steps([each.text for each in thoughts[:i]]), "thought": thought.text}
                    text = await self.revised(
                        config.prompts.correct,
                        thought.text,
                        thought.citations,
                        span,
                        name="correct",
                        uses=2,
                        deletions=(DELETED, ""),
                        **values,
                    )
                    thoughts[i] = thought if text is None else thought.model_copy(update={"text": text})
        self.run.answer_from = self.evidence.passages
        text = (await self.write(concluding(), self.run, name="answer")).text
        self.read = [marker for thought in thoughts for marker in thought.citations]
        return self.answer(text, thoughts)

    async def _look_up(self, draft: str, run: Run) -> tuple[str, list[Passage]]:
        """A rationale's query and the passages it finds; neither depends on the other rationales' corrections."""
        prompt = render(self.config.prompts.query, question=self.question, thought=draft)
        reply = await self.write(prompt, run, name="query", tokens=self.config.query_tokens)
        query = clean_query(reply.text, fallback=draft)
        return query, await find(run, self.config.retriever, query, k=self.config.k)
