"""RAT: draft a chain of thought, then revise it step by step with the passages retrieved for each step.

Wang et al. 2024, "RAT: Retrieval Augmented Thoughts Elicit Context-Aware Reasoning in Long-Horizon
Generation", algorithm 1 and section 2.2; prompts after appendix B, part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from reground.core.ahead import Guess, Guessing, Longest
from reground.core.answers import TEXT, Answer, AnswerForm, Thought
from reground.core.branches import gather
from reground.core.evidence import Passage, Retriever
from reground.core.language import LEAST_REPLY, LanguageModel, Sampling, tokens_of
from reground.core.run import Run
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.evidence import SHORT_PASSAGE, Evidence, clean_query, find
from reground.methods.shared.prompts import QUOTED, cite, concluded, layout, render, require, style
from reground.methods.shared.revision import accepted, readable, with_lost_steps
from reground.methods.shared.steps import align_steps, join_steps, split_steps


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
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
        "Question:\n{question}\n\nText:\n{text}\n\nTask: The last sentences of the text may be wrong. "
        "Write a search query "
        "of a few words, with the names that matter, to look up their facts. Write only the query."
    )
    revise: str = (
        "Question:\n{question}\n\n{passages}\n\nText:\n{text}\n\n"
        "Task: Check the text against the passages and write it again. Correct what is wrong and add "
        "what is needed and "
        "missing. " + QUOTED + " Keep every step, in order, with a blank line between the steps. {cite} "
        "If nothing is wrong or missing, repeat the text unchanged. Write the revised text only."
    )
    answer: str = (
        "Question:\n{question}\n\nThoughts, checked step by step:\n{text}\n\n"
        "Task: Follow the thoughts and give the final answer. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class RAT:
    """Retrieval-augmented thoughts.

    model, retriever: the model that reasons, and the index to search. form: the form of the answer.
    prompts: the templates. k: passages per query.
    max_contents: maximum number of passages in all; 5 as in the comparison with RAG-5 (RaR, discussion of efficiency).
        A draft with more than max_contents / k steps has neighbouring steps joined. None is no limit.
    passes: "together" makes one revision with all passages of a query, as the paper writes it; "each" makes one
        revision for each passage in turn, as the published program does.
    causal: False retrieves for all raw steps at once and revises the whole draft once (table 4, non-causal).
    query_from: the source of a query: "causal", the question, the revised steps before and the current step;
        "question", the question itself (RAG's query, table 3); "whole", the question and the whole first draft;
        "step", the question and the current step alone.
    passage_tokens: maximum length of a passage in tokens; pages had at most 2000 tokens (appendix A.3).
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of a draft, a revision or an answer.
    query_tokens: maximum tokens of a query.
    speculate: begins the later rounds at once, as if no revision changed the text, and begins them again where one did.
        The answer is the same, sooner on a server that answers many calls at once, for more tokens.
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
    speculate: bool = False

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

    def sizes(self) -> Sequence[RAT]:
        """More rounds, then more passages in each."""
        rounds = [replace(self, k=1, max_contents=count) for count in range(1, 6)]
        return [*rounds, *(replace(self, k=k, max_contents=5 * k) for k in (2, 3))]


class _Solving:
    """One question's state: the evidence, the passages used in revisions, and the variables of algorithm 1."""

    def __init__(self, config: RAT, question: str, run: Run) -> None:
        self.config = config
        self.question = question
        self.run = run
        self.evidence = Evidence()
        self.shown: list[int] = []
        self.queries: list[str | None] = []
        self.thoughts: list[str] = []
        self.text = ""
        """The thoughts, with the revisions so far."""

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
        self.text = draft
        self.run.propose(self._answer(draft))
        with self.run.keeping(self._final_prompt if self._writes_last else None, reply=config.form.usual):
            await (self._causal() if config.causal else self._non_causal())
        self.evidence.note_unused(self.run, self.shown)
        return await self._final()

    async def _causal(self) -> None:
        text, changed = "", True
        async with Guessing(self.run, on=self.config.speculate) as guessing:
            for i, thought in enumerate(self.thoughts):
                before = text = join_steps([text, thought])
                if changed and (guess := guessing.restart(self._rest(i))):
                    self._guess(guess, i, text)
                with self.run.span("step", step=i + 1) as run:
                    query, found = await self._search(i, text, run)
                    self.queries.append(query)
                    text = await self._revise_with(text, found, run, rounds=len(self.thoughts) - i)
                changed = text != before
                self.text = join_steps([text, *self.thoughts[i + 1 :]])
                self.run.propose(self._answer(self.text))

    async def _search(self, i: int, text: str, run: Run) -> tuple[str, list[Passage]]:
        query = await self._to_query(self._source(i, text), run)
        return query, await find(run, self.config.retriever, query, k=self.config.k)

    def _guess(self, guess: Guess, i: int, text: str) -> None:
        """Begin the rounds after i, as if no revision changed the text; round i itself is under way."""
        texts = list(accumulate([text, *self.thoughts[i + 1 :]], lambda before, thought: join_steps([before, thought])))
        runs = [guess.run.span("step") for _ in texts]
        searches = [guess.begin(self._search(i + n, texts[n], run)) for n, run in enumerate(runs)]
        fork = self._fork(guess.run)

        async def revise() -> None:
            state = fork
            for n, search in enumerate(searches):
                _, found = await search
                state = state._fork(guess.run)
                state.evidence.add(found)
                if n > 0:
                    guess.begin(state._revise_with(texts[n], found, runs[n], rounds=len(self.thoughts) - i - n))

        guess.begin(revise())

    def _fork(self, run: Run) -> _Solving:
        """A copy for a guess, which leaves this state as it is."""
        fork = copy(self)
        fork.run, fork.evidence, fork.shown = run, self.evidence.copy(), [*self.shown]
        return fork

    def _rest(self, i: int) -> Longest:
        """The calls of the rounds from i on and of the answer, each as long as it can get."""
        config = self.config
        text = tokens_of(f"{config.prompts.revise}{self.question}{self.text}") + config.max_tokens
        revisions = config.k if config.passes == "each" else 1
        round_ = [(text, config.query_tokens)]
        round_ += [(text + config.k * config.passage_tokens, config.max_tokens)] * revisions
        return [*round_ * (len(self.thoughts) - i), (text, config.max_tokens)]

    async def _non_causal(self) -> None:
        draft = join_steps(self.thoughts)

        async def search(i: int, run: Run) -> tuple[str | None, list[Passage]]:
            with run.optional():
                return await self._search(i, join_steps(self.thoughts[: i + 1]), run)
            return None, []

        def revising() -> str:
            return render(self.config.prompts.revise, passages=SHORT_PASSAGE, **self._revised_with(draft))

        branches = []
        for i in range(len(self.thoughts)):
            with self.run.span("step", step=i + 1) as run:
                branches.append(search(i, run))
        with self.run.keeping(revising, reply=tokens_of(draft)):
            searched = await gather(*branches)
        self.queries = [query for query, _ in searched]
        found = [passage for _, passages in searched for passage in passages]
        self.text = await self._revise_with(draft, found, self.run)
        self.run.propose(self._answer(self.text))

    def _source(self, i: int, text: str) -> str:
        """The source of query i. text: the thoughts up to and including step i."""
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

    async def _revise_with(self, text: str, found: Sequence[Passage], run: Run, *, rounds: int = 1) -> str:
        markers = self.evidence.add(found)
        groups = [[marker] for marker in markers] if self.config.passes == "each" else [markers]
        for i, group in enumerate(filter(None, groups)):
            text = await self._revise(text, group, run, uses=rounds * len(groups) - i)
        return text

    async def _revise(self, text: str, markers: list[int], run: Run, *, uses: int) -> str:
        """T* <- p(. | I, T*, R): the whole text so far is rewritten, so steps lost in the rewriting are put back."""
        config, template = self.config, self.config.prompts.revise
        size = tokens_of(text)
        parts = self._revised_with(text)
        prompt = self.evidence.fill(template, parts, markers, run, tokens=config.passage_tokens, reply=size, uses=uses)
        replies = await run.generate(config.model, prompt, name="revise", sampling=self._sampling(), least=size)
        revised = accepted(replies[0], run, config.form, template=template, before=text)
        if revised is None:
            return text
        shown = self.evidence.held
        known = [*shown, *self.evidence.cited(text, config.form)]
        revised = self.evidence.checked(revised, run, config.form, known=known)
        self.shown += [marker for marker in shown if marker not in self.shown]
        return with_lost_steps(split_steps(text), split_steps(revised), run) or revised

    def _revised_with(self, text: str) -> dict[str, str]:
        return {"question": self.question, "text": text, "cite": cite(self.config.form)}

    async def _final(self) -> Answer:
        """The thoughts are the answer, or the answer is written from them (section 2.2)."""
        config = self.config
        answer = self.run.propose(self._answer(self.text))
        if not self._writes_last:
            return answer
        whole = tokens_of(self.text) if config.form.draft_is_query or config.form.outlined else LEAST_REPLY
        prompt, sampling = self._final_prompt(), self._sampling()
        response = await self.run.ask(config.model, prompt, name="answer", sampling=sampling, least=whole)
        if not response.strip():
            self.run.note("answer empty", kept="the thoughts")
            return answer
        return self.run.propose(self._written(response, answer.steps))

    @property
    def _writes_last(self) -> bool:
        return self.config.form.final_pass or self.config.form.outlined

    def _final_prompt(self) -> str:
        form = concluded(self.config.form)
        return render(self.config.prompts.answer, question=self.question, text=self.text, form=form)

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

    def _sampling(self) -> Sampling:
        return Sampling(temperature=self.config.temperature, max_tokens=self.config.max_tokens)


METHOD = RAT
PRESETS = {"non_causal": {"causal": False}}
"""The ablation of table 4."""
