"""RAT: draft a chain of thought, then revise it step by step with what is retrieved for each step.

Wang et al. 2024, "RAT: Retrieval Augmented Thoughts Elicit Context-Aware Reasoning in Long-Horizon
Generation", algorithm 1 and section 2.2; prompts after appendix B, part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reground.core.answers import TEXT, Answer, AnswerForm, Thought
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel, Sampling
from reground.core.run import Run, gather
from reground.methods import _prompts
from reground.methods._budget import FENCE, INSTRUCTIONS, LEAST_PASSAGE, PASSAGE, affords, tokens_of
from reground.methods._evidence import Evidence, clean_query, find
from reground.methods._prompts import QUOTED, cite, layout, render, require, style
from reground.methods._revision import accepted, readable, with_lost_steps
from reground.methods._steps import align_steps, join_steps, split_steps


@dataclass(frozen=True, kw_only=True)
class Prompts(_prompts.Prompts):
    """The parts of appendix B and the final pass of section 2.2.

    draft (B.1): places {question}, {layout}, how steps are set apart, and {style}, how a step is written.
    query (B.2): {question} and {text}, the thoughts that the query is made from.
    revise (B.3): {question}, {passages}, {text} and {cite}; as there, the text stands last before the task.
    answer: {question}, {text} and {form}, what an answer looks like.
    """

    draft: str = (
        "{question}\n\nThink step by step. {layout} {style} Write the steps only, with no introduction and no remarks."
    )
    query: str = (
        "Question:\n{question}\n\nText:\n{text}\n\nTask: The last sentences of the text may be wrong. Write a search query "
        "of a few words, with the names that matter, to look up their facts. Write only the query."
    )
    revise: str = (
        "Question:\n{question}\n\n{passages}\n\nText:\n{text}\n\n"
        "Task: Check the text against the passages and write it again. Correct what is wrong and add what is needed and "
        "missing. " + QUOTED + " Keep every step, in order, with a blank line between the steps. {cite} "
        "If nothing is wrong or missing, repeat the text unchanged. Write the revised text only."
    )
    answer: str = (
        "Question:\n{question}\n\nThoughts, checked step by step:\n{text}\n\n"
        "Task: Follow the thoughts and give the final answer. {form}"
    )


_REPLY = 100
"""Tokens expected of a short final answer, and at most of a query."""

_PROGRAM = 256
"""Tokens expected of a final program, unless the thoughts are longer."""


@dataclass(frozen=True, kw_only=True)
class RAT:
    """Retrieval-augmented thoughts.

    model, retriever: who thinks, and what is searched. form: what an answer looks like. prompts: the templates.
    k: passages a query. max_contents: the most passages in all, 5 as in the comparison with RAG-5 (RaR, discussion
        of efficiency); a draft with more steps than max_contents / k has neighbouring steps put together. None: no limit.
    passes: "together", one revision with all passages of a query, as the paper writes it; "each", one revision
        for each passage in turn, as the published program does.
    causal: False retrieves for all raw steps at once and revises the whole draft once (table 4, non-causal).
    query_from: what a query is made from: "causal", the question, the revised steps before and the step at hand;
        "question", the question itself (RAG's query, table 3); "whole", the question and the whole first draft;
        "step", the question and the step at hand alone.
    passage_tokens: where a passage is cut; pages had at most 2000 tokens (appendix A.3).
    temperature: 0 is greedy. max_tokens: the most tokens of a draft, a revision or an answer.
    query_tokens: the most tokens of a query.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    k: int = 1
    max_contents: int | None = 5
    passes: Literal["together", "each"] = "together"
    causal: bool = True
    query_from: Literal["causal", "question", "whole", "step"] = "causal"
    passage_tokens: int = 2000
    temperature: float = 0.0
    max_tokens: int = 1024
    query_tokens: int = 64

    def __post_init__(self) -> None:
        require(self.k >= 1, "k must be at least 1")
        require(self.max_contents is None or self.max_contents >= self.k, "max_contents must be at least k")
        require(self.passes in {"together", "each"}, 'passes must be "together" or "each"')
        require(
            self.query_from in {"causal", "question", "whole", "step"},
            'query_from must be "causal", "question", "whole" or "step"',
        )
        require(min(self.passage_tokens, self.max_tokens, self.query_tokens) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question: algorithm 1, then the final pass where the form asks for one."""
        return await _Solving(self, question, run).solve()

    def at_budget(self, tokens: int) -> RAT:
        """As many rounds as fit: each is reckoned as a query and a revision that read the draft, and a passage."""
        draft = self.max_tokens // 4
        fixed = INSTRUCTIONS + draft + (INSTRUCTIONS + 2 * draft if self.form.final_pass else 0)
        rounds = max(1, (tokens - fixed) // (2 * INSTRUCTIONS + 3 * draft + self.k * PASSAGE))
        passages = (tokens - fixed) // rounds - 2 * INSTRUCTIONS - 3 * draft
        longest = min(self.passage_tokens, max(PASSAGE, passages // self.k))
        return replace(self, max_contents=self.k * rounds, passage_tokens=longest)


class _Solving:
    """One question's state: the evidence, what the text was revised with, and the names of algorithm 1."""

    def __init__(self, config: RAT, question: str, run: Run) -> None:
        self.config = config
        self.question = question
        self.run = run
        self.evidence = Evidence()
        self.shown: list[int] = []
        self.queries: list[str | None] = []
        self.thoughts: list[str] = []

    async def solve(self) -> Answer:
        config = self.config
        prompt = render(
            config.prompts.draft, question=self.question, layout=layout(config.form), style=style(config.form)
        )
        replies = await self.run.generate(config.model, prompt, name="draft", sampling=self._sampling())
        draft = self.evidence.checked(readable(replies[0], config.form), self.run, config.form)
        if replies[0].finish_reason == "length":
            self.run.note("draft cut", kept=draft)
        most = None if config.max_contents is None else config.max_contents // config.k
        self.thoughts = split_steps(draft, most=most)
        self.run.propose(self._answer(draft))
        text = await (self._causal() if config.causal else self._non_causal())
        self.evidence.note_unused(self.run, self.shown)
        return await self._final(text)

    async def _causal(self) -> str:
        text = ""
        for i, thought in enumerate(self.thoughts):
            text = join_steps([text, thought])
            if not self._affords_round(text):
                self.run.note("rounds ended", why="the budget left is kept for the final answer", done=i)
                return join_steps([text, *self.thoughts[i + 1 :]])
            with self.run.span("step", step=i + 1) as run:
                query = await self._to_query(self._source(i, text), run)
                self.queries.append(query)
                found = await find(run, self.config.retriever, query, k=self.config.k)
                text = await self._revise_with(text, found, run)
            self.run.propose(self._answer(join_steps([text, *self.thoughts[i + 1 :]])))
        return text

    async def _non_causal(self) -> str:
        async def search(i: int, run: Run) -> tuple[str, list[Passage]]:
            query = await self._to_query(self._source(i, join_steps(self.thoughts[: i + 1])), run)
            return query, await find(run, self.config.retriever, query, k=self.config.k)

        draft = join_steps(self.thoughts)
        most = self._affordable_searches(draft)
        if most < len(self.thoughts):
            self.run.note("rounds ended", why="the budget left is kept for the revision and the answer", done=most)
        branches = []
        for i in range(most):
            with self.run.span("step", step=i + 1) as run:
                branches.append(search(i, run))
        searched = await gather(*branches)
        self.queries = [query for query, _ in searched]
        found = [passage for _, passages in searched for passage in passages]
        text = await self._revise_with(draft, found, self.run)
        self.run.propose(self._answer(text))
        return text

    def _source(self, i: int, text: str) -> str:
        """What query i is made from; `text` is the question's thoughts up to and with step i."""
        return {"whole": join_steps(self.thoughts), "step": self.thoughts[i]}.get(self.config.query_from, text)

    async def _to_query(self, source: str, run: Run) -> str:
        """ToQuery(I, T): a call of the model; for code the draft itself is the query (appendix B)."""
        config = self.config
        if config.query_from == "question":
            return self.question
        if config.form.draft_is_query:
            return source
        prompt = render(config.prompts.query, question=self.question, text=source)
        sampling = Sampling(temperature=config.temperature, max_tokens=config.query_tokens)
        return clean_query(await run.ask(config.model, prompt, name="query", sampling=sampling), fallback=source)

    async def _revise_with(self, text: str, found: Sequence[Passage], run: Run) -> str:
        markers = self.evidence.add(found)
        groups = [[marker] for marker in markers] if self.config.passes == "each" else [markers]
        for i, group in enumerate(filter(None, groups)):
            fitting, longest = self._fitting(text, markers[i:])
            text = await self._revise(text, [marker for marker in group if marker in fitting], longest, run)
        return text

    async def _revise(self, text: str, markers: list[int], longest: int, run: Run) -> str:
        """T* <- p(. | I, T*, R): the whole text so far is written anew, so what it loses on the way is put back."""
        config = self.config
        prompt = render(
            config.prompts.revise,
            question=self.question,
            text=text,
            passages=self.evidence.show(markers, tokens=longest),
            cite=cite(config.form),
        )
        replies = await run.generate(config.model, prompt, name="revise", sampling=self._sampling())
        revised = accepted(replies[0], run, config.form, template=config.prompts.revise, before=text)
        if revised is None:
            return text
        known = [*markers, *self.evidence.cited(text, config.form)]
        revised = self.evidence.checked(revised, run, config.form, known=known)
        self.shown += [marker for marker in markers if marker not in self.shown]
        return with_lost_steps(split_steps(text), split_steps(revised), run) or revised

    async def _final(self, text: str) -> Answer:
        """The thoughts are the answer, or the answer is written from them (section 2.2)."""
        config = self.config
        answer = self.run.propose(self._answer(text))
        if not config.form.final_pass:
            return answer
        prompt = render(config.prompts.answer, question=self.question, text=text, form=config.form.short)
        response = await self.run.ask(config.model, prompt, name="answer", sampling=self._sampling())
        if not response.strip():
            self.run.note("answer empty", kept="the thoughts")
            return answer
        return self.run.propose(self._written(response, answer.steps))

    def _answer(self, text: str) -> Answer:
        steps = split_steps(text)
        partners = align_steps(self.thoughts, steps)
        drafts = {j: i for i, j in enumerate(partners) if j is not None}
        thoughts = tuple(
            Thought(
                text=step,
                draft=self.thoughts[drafts[j]] if j in drafts else None,
                query=self.queries[drafts[j]] if drafts.get(j, len(self.queries)) < len(self.queries) else None,
                citations=tuple(self.evidence.cited(step, self.config.form)),
            )
            for j, step in enumerate(steps)
        )
        return self._written(text, thoughts)

    def _written(self, text: str, steps: Sequence[Thought]) -> Answer:
        return self.evidence.answer(text, self.run, self.config.form, shown=self.shown, steps=steps)

    def _affords_round(self, text: str) -> bool:
        """Whether a round would leave room for the final pass, which alone makes an answer of the thoughts."""
        return not self.config.form.final_pass or self._affords(text, searches=1)

    def _affordable_searches(self, text: str) -> int:
        """How many of the steps can be looked up before the one revision, with room for it and for the final pass."""
        counts = range(len(self.thoughts), 0, -1)
        return next((count for count in counts if self._affords(text, searches=count)), 0)

    def _affords(self, text: str, *, searches: int) -> bool:
        """Whether the budget covers these searches, the revision with what they find, and the final pass."""
        config = self.config
        asks = not (config.form.draft_is_query or config.query_from == "question")
        passages = searches * config.k
        calls, tokens = self._expected(text, queries=searches * asks, revised_with=passages)
        least = FENCE + min(config.passage_tokens, LEAST_PASSAGE)
        return affords(self.run, calls=calls, tokens=tokens + passages * least)

    def _fitting(self, text: str, markers: Sequence[int]) -> tuple[Sequence[int], int]:
        """The passages for the revisions at hand, and where they are cut so that the budget covers the final pass."""
        left, longest = self.run.meter.room(), self.config.passage_tokens
        if left is None or (self.config.causal and not self.config.form.final_pass):
            return markers, longest
        _, tokens = self._expected(text, queries=0, revised_with=len(markers))
        return self.evidence.cut(markers, tokens=longest, most=max(0, left - tokens), least=min(LEAST_PASSAGE, longest))

    def _expected(self, text: str, *, queries: int, revised_with: int) -> tuple[int, int]:
        """Calls and tokens of queries, revisions and the final pass after them, without the passages themselves."""
        config, prompts = self.config, self.config.prompts
        size = tokens_of(text)
        revisions = revised_with if config.passes == "each" else 1
        asked = [prompts.query] * queries + [prompts.revise] * revisions
        written = queries * min(config.query_tokens, _REPLY) + revisions * size
        if config.form.final_pass:
            asked.append(prompts.answer + config.form.short)
            program = config.form.draft_is_query
            written += min(config.max_tokens, max(size, _PROGRAM)) if program else _REPLY
        read = sum(tokens_of(prompt) + tokens_of(self.question) + size for prompt in asked)
        return len(asked), read + written

    def _sampling(self) -> Sampling:
        return Sampling(temperature=self.config.temperature, max_tokens=self.config.max_tokens)


METHOD = RAT
