"""Retrieval-augmented reflection, iterative.

"Optimizing Inference-Time Reasoning in LLMs via Retrieval-Augmented Reflection", section 3.2, Eq. 3-6, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Annotated, ClassVar, Literal

from reground.core.answers import Answer, Thought
from reground.core.concurrency import gather
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.methods.shared.evidence import USUAL_PASSAGE, find
from reground.methods.shared.prompts import CAVEAT, Templates, layout, quoting, render, style
from reground.methods.shared.revision import (
    DELETED,
    RevisingDraft,
    SolvingDraft,
    readable,
    sound,
    with_all,
    with_answer,
)
from reground.methods.shared.settings import NotNegative, require
from reground.methods.shared.steps import join_answer, join_steps, split_answer, split_draft, split_steps, squeezed
from reground.text.alignment import align_steps

_INTRO = "Question:\n{question}\n\n"
_HEAD = (
    "An answer is checked step by step against documents. A text without errors is answered with OK where errors are "
    "asked for, and with NO CHANGE where the text is asked for; one of which nothing is right, with DELETE. "
    + CAVEAT
    + "\n\n"
    + _INTRO
)
_CHECKED = _HEAD + "Checked so far:\n{verified}\n\n{passages}\n\n"
_SEARCH = "Write a search query of a few words, with the names that matter, "
_ERRORS = "Write one short line for each error: what is wrong, what is right instead, and the passage that says so."
_CORRECT = "put right the errors found, leave out what is refuted, and keep what is right"


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """One template per call. Reflections and refinements begin alike, so that a server can reuse what it has read. The
    text to correct stands directly before the task, because a small model copies the text that stands there.

    draft (Eq. 3, appendix B.1): places {question}, {layout} (how steps are separated), {style} (how a step is written)
    and {form} (the answer).
    query (Eq. 4, B.2): {question}, {before}, the thoughts before, and {text}, those that the query is about.
    query_answer (section 3.2, phase 2): {question} and {answer}; about the structure of the whole answer.
    reflect: {question}, {verified}, {passages} and {step}.
    refine (Eq. 5, first and second case; B.3): as reflect, with {reflection} and {cite}.
    refine_last (Eq. 5, third case): as refine, with {form}; {step} is the last step followed by the draft's answer.
    refine_short: as refine_last, for a short answer that is given; one that is asked to correct it would copy it.
    reflect_answer: {question}, {answer} and {passages}. refine_answer (Eq. 6): the same with {reflection}, {cite} and
    {form}.
    """

    draft: str = "{question}\n\nThink step by step. {layout} {style} {form}"
    query: str = (
        _INTRO + "Thoughts before:\n{before}\n\nText:\n{text}\n\nTask: The text may be wrong. " + _SEARCH + "to look "
        "up the facts of all its sentences. Write only the query."
    )
    query_answer: str = (
        _INTRO + "Answer:\n{answer}\n\nTask: Look at the answer as a whole. A part may be missing, parts may contradict"
        " each other, or the whole may miss the question. " + _SEARCH + "that sums up question and answer, to find "
        "documents by which the whole can be checked. Write only the query."
    )
    reflect: str = (
        _CHECKED + "Step to check:\n{step}\n\nTask: Find the errors in the step to check. Does it say what the "
        "passages say? Does it follow from the question? " + _ERRORS
    )
    refine: str = (
        _CHECKED + "Errors found in the step below:\n{reflection}\n\nStep to correct:\n{step}\n\n"
        "Task: Write the step again, corrected, with all its parts: " + _CORRECT + ". {cite} "
        "Write this one step and nothing else."
    )
    refine_last: str = (
        _CHECKED + "Errors found in the text below:\n{reflection}\n\nText to correct:\n{step}\n\n"
        "Task: Write the text again, corrected: " + _CORRECT + ", and end with the final answer that follows. "
        "{cite} {form}"
    )
    refine_short: str = (
        _CHECKED + "Somebody answered:\n{step}\n\nErrors found in this answer:\n{reflection}\n\n"
        "Task: The documents do not support this answer. Answer the question from the passages instead, in one full "
        "sentence with the names that matter, and end with the final answer that follows. {cite} {form}"
    )
    reflect_answer: str = (
        _HEAD + "{passages}\n\nAnswer to check:\n{answer}\n\n"
        "Task: Find the errors in the answer to check. Does it say what the passages say? Does it answer "
        "the question, and does each step follow from those before? " + _ERRORS
    )
    refine_answer: str = (
        _HEAD + "{passages}\n\nErrors found in the answer below:\n{reflection}\n\nAnswer to correct:\n{answer}\n\n"
        "Task: Write the whole answer again, corrected, with a blank line between the steps: " + _CORRECT + ". {cite} "
        "{form}"
    )


@dataclass(frozen=True, kw_only=True)
class RaR(RevisingDraft):
    """RaR: reflect on every step, and then on the whole answer, with retrieved evidence, and refine it.

    Calls are named draft, query, retrieve, reflect and refine. The span of a call names its phase: none for the draft,
    `step` (or `whole`, where causal is False) for phase 1, `round` for phase 2. The note that opens the span holds the
    phase's number.

    prompts: the templates.
    queries: "parallel" writes every phase-1 query from the raw thoughts, all at once (Eq. 4); "sequential" writes
        query i from the refined steps before it and the raw step i (algorithm 1, line 4).
    causal: False replaces phase 1 by one reflection and one refinement of the whole draft, with the passages of all
        raw steps (table 3, non-causal). The paper does not mention phase 2 there, so `max_rounds` still applies.
    max_steps: maximum number of steps in phase 1; a longer draft has neighbouring steps joined. 0 skips phase 1.
    max_rounds: maximum number of rounds in phase 2; 0 skips it.
    m: number of identical generations in a row that end phase 2; the answer of phase 1 counts as the first.
    max_contents: maximum number of different passages in all; 5 as in the comparison with RAG-5 (appendix, discussion
        of efficiency). Phase 1 leaves one retrieval to phase 2, whose rounds prefer new passages ("additional related
        documents", algorithm 1, line 12) and read known ones again when the maximum is reached. None is no limit.
    reflection_tokens: maximum tokens of a reflection.
    quote: whether the refined answer as a whole begins with the sentences that hold it, in forms that cite.
    """

    prompts: Prompts = field(default_factory=Prompts)
    queries: Literal["parallel", "sequential"] = "parallel"
    causal: bool = True
    max_steps: NotNegative = 5
    max_rounds: NotNegative = 3
    m: Annotated[int, 2] = 3
    max_contents: int | None = 5
    reflection_tokens: int = 256
    quote: bool = False

    PRESETS: ClassVar = {"non_causal": {"causal": False}}  # table 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.causal or self.queries == "parallel", "queries must be parallel where causal is False")
        require(self.max_contents is None or self.max_contents >= self.k, "max_contents must be at least k")
        stays = self.causal and not self.max_rounds
        require(stays or not self.settled, "causal must be True and max_rounds 0 where steps are settled")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question: the draft, phase 1 on its steps, phase 2 on the whole."""
        return await _Solving(self, question, run).solve()

    def sizes(self) -> Sequence[RaR]:
        """More steps, then more rounds, and as many passages as both retrieve (section 3.3: n iterations)."""
        ladder = ((1, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (5, 2), (5, 3), (8, 3), (8, 5), (13, 8))
        return [replace(self, max_steps=n, max_rounds=m, max_contents=self.k * (n + m)) for n, m in ladder]


@dataclass
class _Step:
    """y_i^thought, y_i^RaR once it is refined, q_i, the markers of V_i, and the reflection. run: the step's span."""

    draft: str
    text: str
    run: Run
    query: str | None = None
    markers: Sequence[int] = ()
    reflection: str | None = None
    refined: bool = False


class _Solving(SolvingDraft[RaR]):
    """The variables of algorithm 1."""

    steps: Sequence[_Step] = ()

    async def solve(self) -> Answer:
        answer, raw = await self._draft()  # line 1
        if self.config.max_steps:
            answer = await (self._phase_one(answer, raw) if self.config.causal else self._at_once(answer))
        return await self._phase_two(answer)  # lines 10 to 15

    async def _draft(self) -> tuple[str, str]:
        """(y^thought, y^raw) ~ p(. | x*), Eq. 3: the draft, and y^raw, empty where the thoughts are the answer."""
        config, form = self.config, self.config.form
        parts = {"layout": layout(form), "style": style(form) if form.final_pass else "", "form": form.instruction}
        prompt = render(config.prompts.draft, question=self.question, **parts)
        draft, steps = await self.draft(prompt)
        limit = (config.max_steps + 1) * config.k if config.max_contents is None else config.max_contents
        most = max(1, min(config.max_steps, limit // config.k - min(1, config.max_rounds)))
        thoughts, raw = (steps, "") if steps else split_draft(draft, form, most=most)
        spans = (self.run if i in config.settled else self.run.span("step", step=i + 1, phase=1) for i in count())
        self.steps = [_Step(thought, thought, run) for thought, run in zip(thoughts, spans, strict=False)]
        self._propose(draft)
        return join_answer([*thoughts, raw], form), raw

    async def _phase_one(self, answer: str, raw: str) -> str:
        """Reflection on intermediate steps: equations 4 and 5."""
        if self.config.queries == "parallel":
            await self._search_all()
        unsettled = self._unsettled
        for place, (i, step) in enumerate(unsettled):
            last = i == len(self.steps) - 1
            verified = self.before([step.text for step in self.steps[:i]])
            if self.config.queries == "sequential":
                step.markers = self.evidence.add(await self._search(step, verified))
            await self._refine_step(step, verified, raw if last else None, rest=len(unsettled) - place)  # line 6
            if step.refined:
                texts = [each.text for each in self.steps]
                answer = join_answer(texts if last else [*texts, raw], self.config.form) or answer
                self._propose(answer)
        return answer

    @property
    def _unsettled(self) -> list[tuple[int, _Step]]:
        return [(i, step) for i, step in enumerate(self.steps) if i not in self.config.settled]

    async def _search_all(self) -> None:
        """q_i ~ p(. | x*, y_1..i^thought): no query needs another step's refinement, so all run together."""

        # A query is useless without a reflection and a refinement after it.
        steps = self._unsettled
        first = "".join([self.config.prompts.reflect, *(step.draft for _, step in steps[:1]), USUAL_PASSAGE])
        usual = self.config.form.usual
        with self.run.keeping(lambda: first, reply=usual), self.run.keeping(lambda: first, reply=usual):
            drafts = [step.draft for step in self.steps]
            results = await gather(*(self._search(step, self.before(drafts[:i])) for i, step in steps))
        for (_, step), passages in zip(steps, results, strict=True):
            step.markers = self.evidence.add(passages)

    async def _search(self, step: _Step, before: str) -> list[Passage]:
        """V_i = R(q_i)."""
        template, source = self.config.prompts.query, join_steps([before, step.draft])
        with step.run.optional():
            step.query = await self.query(template, step.run, source, before=before, text=step.draft)  # line 4
            return await find(step.run, self.config.retriever, step.query, k=self.config.k)  # line 5
        return []

    async def _refine_step(self, step: _Step, verified: str, raw: str | None, *, rest: int) -> None:
        """y_i^reflection, then y_i^RaR (Eq. 5). `raw` is y^raw at the last step and None before it.

        rest: the number of steps that are not refined yet.
        """
        prompts, before = self.config.prompts, join_steps([step.draft, raw or ""])
        template = prompts.refine_last if raw or (raw is not None and self.config.form.final_pass) else prompts.refine
        if self.config.in_steps and self.config.form.final_pass:
            template = prompts.refine_short
        step.reflection, generation, text = await self._correct(
            prompts.reflect,
            template,
            "step",
            step.draft,
            before,
            step.markers,
            step.run,
            concluding=raw is not None,
            uses=2 * (rest + min(1, self.config.max_rounds)),
            may_vanish=not raw,
            verified=verified,
        )
        if generation is not None:
            step.text, step.refined = text, True

    async def _at_once(self, draft: str) -> str:
        """Table 3, non-causal: passages for all raw steps, and one refinement of the whole draft with them."""
        await self._search_all()
        markers = list(dict.fromkeys(marker for step in self.steps for marker in step.markers))
        with self.run.span("whole", phase=1) as run:
            generation, refined = await self._refine_whole(draft, markers, run)
        revised = split_steps(split_answer(refined, self.config.form)[0], self.config.form)
        for step, partner in zip(self.steps, align_steps([s.draft for s in self.steps], revised), strict=True):
            step.refined = generation is not None and partner is not None
            step.text = revised[partner or 0] if step.refined else step.draft
        return refined

    async def _phase_two(self, answer: str) -> Answer:
        """Refinement of the overall response (Eq. 6) until m identical generations in a row."""
        config, identical, idle = self.config, 1, 0
        for number in range(1, config.max_rounds + 1):
            self._propose(answer)
            if identical == config.m or idle == config.m - 1:  # the next round would ask the same again
                break
            with self.run.span("round", round=number, phase=2) as run:
                generation, refined = await self._refine_whole(answer, await self._additional(answer, run), run)
            same = generation is not None and squeezed(generation) == squeezed(answer)
            idle = 0 if generation is not None else idle + 1
            identical = identical + 1 if same else identical if generation is None else 1
            answer = refined
        if identical == config.m:
            self.run.note("converged", identical=identical)
        elif config.max_rounds:
            self.run.note("phase 2 ended", rounds_without_answer=idle)
        self.evidence.note_unused(self.run, self.read)
        return self._propose(answer)

    async def _additional(self, answer: str, run: Run) -> list[int]:
        """V^additional: new passages for the whole answer while there may be more, else known ones."""
        config, size = self.config, len(self.evidence.passages)
        query = await self.query(config.prompts.query_answer, run, answer, answer=answer)  # line 11
        passages = await find(run, config.retriever, query, k=config.k + size)  # line 12
        room = config.k if config.max_contents is None else max(0, config.max_contents - size)
        fresh = self.evidence.fresh(passages)
        repeated = [passage for passage in passages if passage not in fresh] or self.evidence.passages
        return self.evidence.add((fresh[:room] or repeated)[: config.k]) if passages else []

    async def _refine_whole(self, answer: str, markers: Sequence[int], run: Run) -> tuple[str | None, str]:
        """A reflection on the whole answer, then its refinement (Eq. 6): what the model wrote, and the new answer."""
        templates = self.config.prompts.reflect_answer, self.config.prompts.refine_answer
        return (await self._correct(*templates, "answer", answer, answer, markers, run, concluding=True, uses=2))[1:]

    async def _correct(
        self,
        reflect: str,
        refine: str,
        place: str,
        subject: str,
        before: str,
        markers: Sequence[int],
        run: Run,
        *,
        concluding: bool,
        uses: int,
        may_vanish: bool = False,
        **values: str,
    ) -> tuple[str | None, str | None, str]:
        """The reflection, the generation, None where it is of no use, and what becomes of the text before.

        reflect, refine: the templates. place: the place in both of what they are about: the subject of the reflection,
        and the text that is refined. concluding: whether the text states the answer.
        """
        config, form = self.config, self.config.form
        if not markers:
            return None, None, before
        parts, tokens = {**values, "question": self.question, place: subject}, config.passage_tokens
        prompt = self.evidence.fill(reflect, parts, markers, run, tokens=tokens, uses=uses)
        reply = await self.write(prompt, run, name="reflect", tokens=config.reflection_tokens)
        reflection = readable(reply, form)
        intact = sound(reflection)
        values |= {place: before, "form": quoting(form, quote=config.quote and place == "answer")}
        values["reflection"] = "none" if intact else reflection  # small models copied a bare OK into the text
        generation = await self.revised(
            refine,
            before,
            markers,
            run,
            name="refine",
            uses=uses - 1,
            context=values.get("verified", ""),
            deletions=(DELETED, "") if may_vanish and not intact else (),
            **values,
        )
        if generation is None:
            return reflection, None, before
        text = with_answer(generation, before, form, run) if concluding else generation
        # The paper takes the refinement as it is. A step that is gone though no error was found is an accident.
        return reflection, generation, with_all(text, before, form, run) if intact else text

    def _propose(self, text: str) -> Answer:
        thoughts = []
        for step in self.steps:
            citations = tuple(step.markers) if step.refined else ()
            parts = {"draft": step.draft, "reflection": step.reflection, "query": step.query}
            thoughts.append(Thought(text=step.text, citations=citations, **parts))
        return self.answer(text, thoughts, quote=self.config.quote)
