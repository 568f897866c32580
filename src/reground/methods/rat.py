"""Retrieval-augmented thoughts.

Wang et al. 2024, "RAT: Retrieval Augmented Thoughts Elicit Context-Aware Reasoning in Long-Horizon
Generation", algorithm 1 and section 2.2; prompts after appendix B, part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from reground.core.answers import Answer, Thought
from reground.core.concurrency import gather
from reground.core.evidence import Passage
from reground.core.language import LEAST_REPLY, tokens_of
from reground.core.run import Run
from reground.methods.shared.evidence import USUAL_PASSAGE, find
from reground.methods.shared.prompts import CAVEAT, MAY_STAY, Templates, conclusion, layout, render, style
from reground.methods.shared.revision import DELETED, RevisingDraft, SolvingDraft, with_lost
from reground.methods.shared.settings import require
from reground.methods.shared.steps import join_steps, split_steps
from reground.text.alignment import align_steps


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """The parts of appendix B and the final pass of section 2.2.

    draft (B.1): places {question}, {layout}, how steps are set apart, and {style}, how a step is written.
    query (B.2): {question}, {before}, the thoughts before, and {text}, those that the query is about.
    revise (B.3): {question}, {passages}, {text} and {cite}; as there, the text stands last before the task.
    answer: {question}, {text} and {form}, what an answer looks like.
    """

    draft: str = (
        "{question}\n\nThink step by step. {layout} {style} Write the steps only, with no introduction and no remarks."
    )
    query: str = (
        "Question:\n{question}\n\nThoughts before:\n{before}\n\nText:\n{text}\n\nTask: The text may be wrong. Write a "
        "search query of a few words, with the names that matter, to look up the facts of all its sentences. "
        "Write only the query."
    )
    revise: str = (
        "A text is checked against documents. " + MAY_STAY + " One of which nothing is right is answered with DELETE."
        "\n\nQuestion:\n{question}\n\n{passages}\n\n"
        "Text:\n{text}\n\nTask: Write the text again, corrected by the passages: put right what they tell otherwise, "
        "leave out what they refute, and add what is needed and missing. " + CAVEAT + " Keep every other step, in "
        "order, with a blank line between the steps. {cite} Write the revised text only."
    )
    answer: str = (
        "Question:\n{question}\n\nThoughts, checked step by step:\n{text}\n\n"
        "Task: Follow the thoughts and give the final answer. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class RAT(RevisingDraft):
    """RAT: draft a chain of thought, then revise it step by step with the passages retrieved for each step.

    prompts: the templates.
    max_contents: maximum number of passages in all; 5 as in the comparison with RAG-5 (RaR, discussion of efficiency).
        A draft with more than max_contents / k steps has neighbouring steps joined. None is no limit.
    passes: "together" makes one revision with all passages of a query, as the paper writes it; "each" makes one
        revision for each passage in turn, as the published program does.
    causal: False retrieves for all raw steps at once and revises the whole draft once (table 4, non-causal).
    query_from: the source of a query: "causal", the question, the revised steps before and the current step;
        "question", the question itself (RAG's query, table 3); "whole", the question and the whole first draft;
        "step", the question and the current step alone.
    """

    prompts: Prompts = Prompts()
    max_contents: int | None = 5
    passes: Literal["together", "each"] = "together"
    causal: bool = True
    query_from: Literal["causal", "question", "whole", "step"] = "causal"

    PRESETS: ClassVar = {"non_causal": {"causal": False}}  # table 4
    LADDER = (  # more rounds, then more passages in each
        *({"k": 1, "max_contents": count} for count in (1, 2, 3, 4, 5, 8, 13)),
        *({"k": k, "max_contents": 13 * k} for k in (2, 3)),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.max_contents is None or self.max_contents >= self.k, "max_contents must be at least k")
        require(self.causal or not self.settled, "causal must be True where steps are settled")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question: algorithm 1, then the final pass where the form asks for one."""
        return await _Solving(self, question, run).solve()


class _Solving(SolvingDraft[RAT]):
    """The variables of algorithm 1. thoughts: T_1, ..., T_n. parts: T*, with the revisions so far."""

    thoughts: Sequence[str] = ()
    parts: Sequence[str] = ()
    deletions: Sequence[str] = (DELETED, "")
    """The replies that take away a text."""

    def __init__(self, config: RAT, question: str, run: Run) -> None:
        super().__init__(config, question, run)
        self.queries: dict[int, str | None] = {}

    async def solve(self) -> Answer:
        config, form = self.config, self.config.form
        prompt = render(config.prompts.draft, question=self.question, layout=layout(form), style=style(form))
        draft, steps = await self.draft(prompt)  # line 1: T <- p(. | I)
        most = None if config.max_contents is None else config.max_contents // config.k
        self.thoughts = steps or split_steps(draft, form, most=most)
        self._propose(self.thoughts)
        with self.run.keeping(self._final_prompt if self._writes_last else None, reply=form.usual):
            await (self._causal() if config.causal else self._non_causal())
        self.evidence.note_unused(self.run, self.read)
        return await self._final()

    async def _causal(self) -> None:
        """Lines 2 to 10. Of a draft given in steps T* stands, and line 6 is about T_i alone."""
        revised = list[str]()
        unsettled = [i for i in range(len(self.thoughts)) if i not in self.config.settled]
        for i, thought in enumerate(self.thoughts):
            if i in self.config.settled:
                revised.append(thought)
                continue
            with self.run.span("step", step=i + 1) as run:
                before, rounds = self.before(revised), sum(other >= i for other in unsettled)
                self.queries[i], passages = await self._search(i, before, run)  # lines 4 and 5
                if self.config.in_steps:
                    revised.append(await self._revise(thought, passages, run, rounds=rounds))
                else:
                    text = join_steps([before, thought])  # line 9: T* <- CAT(T*, T_i)
                    earlier = len(split_steps(before, self.config.form))
                    revised = [await self._revise(text, passages, run, earlier=earlier, rounds=rounds)]
            self._propose([*revised, *self.thoughts[i + 1 :]])

    async def _non_causal(self) -> None:
        """Table 4: a query for each raw step, and one revision of the whole draft."""

        async def search(i: int, run: Run) -> tuple[str | None, list[Passage]]:
            with run.optional():
                return await self._search(i, join_steps(self.thoughts[:i]), run)
            return None, []

        spans = [self.run.span("step", step=i + 1) for i in range(len(self.thoughts))]
        draft = join_steps(self.thoughts)
        with self.run.keeping(lambda: self.config.prompts.revise + USUAL_PASSAGE + draft, reply=tokens_of(draft)):
            results = await gather(*(search(i, run) for i, run in enumerate(spans)))
        self.queries = {i: query for i, (query, _) in enumerate(results)}
        passages = [passage for _, result in results for passage in result]
        self._propose([await self._revise(draft, passages, self.run)])

    async def _search(self, i: int, before: str, run: Run) -> tuple[str, list[Passage]]:
        """Q_i <- ToQuery(I, T*) and R_i <- RetrieveFromCorpus(Q_i). before: the thoughts before T_i."""
        text = join_steps(self.thoughts) if self.config.query_from == "whole" else self.thoughts[i]
        before = before if self.config.query_from == "causal" else ""
        query = self.question
        if self.config.query_from != "question":
            whole = join_steps([before, text])
            query = await self.query(self.config.prompts.query, run, whole, before=before, text=text)
        return query, await find(run, self.config.retriever, query, k=self.config.k)

    async def _revise(
        self, text: str, passages: Sequence[Passage], run: Run, *, earlier: int = 0, rounds: int = 1
    ) -> str:
        """Line 6: T* <- p(. | I, T*, R_i).

        The paper takes the revision as it is. Only a step of an earlier round that is gone is put back: this round's
        evidence is about another step, so it was lost in rewriting. earlier: how many there are. rounds: those to come.
        """
        markers, form = self.evidence.add(passages), self.config.form
        groups = [[marker] for marker in markers] if self.config.passes == "each" else [markers]
        for i, group in enumerate(filter(None, groups)):
            revised = await self.revised(
                self.config.prompts.revise,
                text,
                group,
                run,
                name="revise",
                text=text,
                uses=rounds * len(groups) - i,
                deletions=self.deletions if not earlier and rounds > 1 else (),
            )
            if revised == "":
                self.deletions = (DELETED,)  # a server that always replies with nothing deletes no more
            text = text if revised is None else with_lost(revised, text, form, run, first=earlier)
        return text

    async def _final(self) -> Answer:
        """The thoughts are the answer, or the answer is written from them (section 2.2)."""
        form, answer = self.config.form, self._propose(self.parts)
        if not self._writes_last:
            return answer
        least = tokens_of(answer.text) if form.draft_is_query or form.outlined else LEAST_REPLY
        self.run.answer_from = self.evidence.passages
        response = (await self.write(self._final_prompt(), self.run, name="answer", least=least)).text
        if not response.strip():
            self.run.note("answer empty", kept="the thoughts")
            return answer
        return self.answer(response, answer.steps)

    @property
    def _writes_last(self) -> bool:
        return self.config.form.final_pass or self.config.form.outlined

    def _final_prompt(self) -> str:
        form = conclusion(self.config.form)
        return render(self.config.prompts.answer, question=self.question, text=join_steps(self.parts), form=form)

    def _propose(self, parts: Sequence[str]) -> Answer:
        """The thoughts as they stand, each with the draft and the query that it comes from."""
        self.parts, text = parts, join_steps(parts)
        if self.config.in_steps and self.config.causal:
            steps, origins = list(parts), dict(enumerate(range(len(parts))))
        else:
            steps = split_steps(text, self.config.form)
            origins = {j: i for i, j in enumerate(align_steps(self.thoughts, steps)) if j is not None}
        drafts = dict(enumerate(self.thoughts))
        thoughts = []
        for j, step in enumerate(steps):
            draft, query = drafts.get(origins.get(j, -1)), self.queries.get(origins.get(j, -1))
            citations = tuple(self.evidence.markers_in(step, self.config.form))
            thoughts.append(Thought(text=step, draft=draft, query=query, citations=citations))
        return self.answer(text, thoughts)
