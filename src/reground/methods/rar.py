"""RaR: reflect on every step, and then on the whole answer, with retrieved evidence, and refine it.

"Optimizing Inference-Time Reasoning in LLMs via Retrieval-Augmented Reflection", section 3.2: equations 3 to 6
and algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Literal

from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel, Reply, Sampling
from reground.core.run import Run, gather
from reground.methods._evidence import clean_query, find
from reground.methods._prompts import cite, layout, render, require, require_choices, style
from reground.methods._rar import grounded
from reground.methods._rar.prompts import Prompts
from reground.methods._rar.reading import Reading
from reground.methods._rar.scaling import affordable_steps, grounded_at, paper_at
from reground.methods._rar.steps import Step
from reground.methods._rar.whole import Idle, Rounds, Whole, goes_on
from reground.methods._revision import accepted, errors_of, kept_whole, readable, sound, with_answer
from reground.methods._steps import align_steps, join_steps, split_answer, split_draft, split_steps


@dataclass(frozen=True, kw_only=True)
class RaR:
    """Retrieval-augmented reflection, iterative.

    Calls are named draft, query, retrieve, reflect and refine; the span of a call says its phase: none for the draft,
    `step` (or `whole`, where causal is False) for phase 1, `round` for phase 2. The note that opens the span holds the
    phase's number.

    model, retriever: who thinks, and what is searched. form: what an answer looks like. prompts: the templates.
    k: passages a retrieval; the paper shows one content at a time, so that prompts stay short.
    queries: "parallel", every phase-1 query from the raw thoughts, all at once (Eq. 4); "sequential", query i
        from what is refined already and the raw step i (algorithm 1, line 4).
    reflections: "sequential", the reflection on step i sees the refined steps before it (algorithm 1, line 6);
        "parallel", it sees them as drafted, so that all reflections run at once; needs parallel queries.
    causal: False puts one reflection and one refinement of the whole draft, with the passages of all raw steps, in the
        place of phase 1 (table 3, non-causal); the paper says nothing of phase 2 there, so `max_rounds` still holds.
    ground: passages found with the question itself before anything is written, for the draft to be written from; 0, as
        in the paper, drafts from memory, which misleads the queries of a model that knows little.
    query_from: "model", a call writes each query (Eq. 4); "thought", the thought or the answer is the query as it
        stands; "names", in phase 2, a call that reads the passages held lists what to read next.
    revise: what a revision in one call is shown: "keep", the answer before, to be kept unless the passages contradict
        it; "afresh", the passages alone, because a small model clings to the answer before.
    accept: which refined answer of phase 2 goes on: "always"; "surer", where its tokens are no less probable, in the
        mean of their logarithms, than those of the answer before. Without log-probabilities every one does.
    reflect: whether errors are put into words before a refinement; without, one call reads and revises (phase 2).
    reasoned: whether a grounded draft, and a revision in one call, says what the passages say before its answer;
        without, a short answer is stated alone.
    evidence: what a refinement reads in phase 2: "new", the passages of its round; "all", everything found so far.
    max_steps: the most steps of phase 1; in a longer draft neighbours are put together. 0 leaves phase 1 out.
    max_rounds: the most rounds of phase 2; 0 leaves it out.
    m: so many identical generations in a row end phase 2, the answer of phase 1 counted as the first.
    max_contents: the most passages retrieved in all, 5 as in the comparison with RAG-5 (appendix, discussion of
        efficiency): phase 1 works on one step fewer than would use them up, phase 2 ends with them. None: no limit.
        `at_budget` sets it to what its steps and rounds retrieve (section 3.3: more iterations, more documents).
    fresh_evidence: phase 2 looks for passages that were not seen before ("additional related documents", algorithm 1,
        line 12), and takes seen ones only when there are no others.
    skip_if_sound: leave out a refinement whose reflection is a bare OK; the paper always refines.
    context_tokens: the most tokens of all passages in one prompt of a grounded draft or of phase 2, the newest first
        and at least one; None is no limit. Where `ground` is set, long ones are cut before any is left out.
    passage_tokens: where a passage is cut; pages had at most 2000 tokens (appendix A.3).
    temperature: 0 is greedy. max_tokens: the most tokens of a draft or of a refined step or answer.
    reflection_tokens, query_tokens: the most tokens of a reflection and of a query.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = field(default_factory=Prompts)
    k: int = 1
    queries: Literal["parallel", "sequential"] = "parallel"
    reflections: Literal["sequential", "parallel"] = "sequential"
    causal: bool = True
    ground: int = 0
    query_from: Literal["model", "thought", "names"] = "model"
    reflect: bool = True
    reasoned: bool = True
    revise: Literal["keep", "afresh"] = "keep"
    accept: Literal["always", "surer"] = "always"
    evidence: Literal["new", "all"] = "new"
    max_steps: int = 5
    max_rounds: int = 3
    m: int = 3
    max_contents: int | None = 5
    fresh_evidence: bool = True
    skip_if_sound: bool = False
    context_tokens: int | None = None
    passage_tokens: int = 2000
    temperature: float = 0.0
    max_tokens: int = 1024
    reflection_tokens: int = 256
    query_tokens: int = 64

    def __post_init__(self) -> None:
        require(self.k >= 1, "k must be at least 1")
        require(
            min(self.ground, self.max_steps, self.max_rounds) >= 0, "ground, max_steps and max_rounds must be 0 or more"
        )
        require_choices(self)
        alike = self.queries == "parallel" or (self.causal and self.reflections == "sequential")
        require(alike, "queries must be parallel where reflections are, or where causal is False")
        require(self.m >= 2, "m must be at least 2")
        require(self.max_contents is None or self.max_contents >= self.k, "max_contents must be at least k")
        limits = (self.passage_tokens, self.max_tokens, self.reflection_tokens, self.query_tokens)
        require(min(limits) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question: the draft, phase 1 on its steps, phase 2 on the whole."""
        return await _Solving(self, question, run).solve()

    def at_budget(self, tokens: int) -> RaR:
        """As many steps as fit, each a cycle of three calls that read the question, the steps before and the passages.

        Phase 2 has the rest: its rounds are set so that the run's budget or convergence ends them.
        """
        if self.ground:
            return replace(self, **grounded_at(tokens, self.max_rounds, self.max_tokens))
        limits = {"most_steps": self.max_steps, "longest": self.passage_tokens, "max_tokens": self.max_tokens}
        return replace(self, **paper_at(tokens, self.prompts, k=self.k, **limits))


class _Solving:
    """One question's state: the evidence, the steps and the answer as it stands."""

    def __init__(self, config: RaR, question: str, run: Run) -> None:
        self.config = config
        self.question = question
        self.run = run
        self.reading = Reading(config, question)
        self.evidence = self.reading.evidence
        self.support: list[int] = []
        self.steps: list[Step] = []
        self.contents = 0

    async def solve(self) -> Answer:
        with ExitStack() as spans:
            draft, raw = await self._draft(spans)
            if self.config.max_steps == 0:
                answer = draft
            elif self.config.causal:
                answer = Whole(await self._phase_one(raw))
            else:
                answer = await self._at_once(draft)
        return await self._phase_two(answer)

    async def _draft(self, spans: ExitStack) -> tuple[Whole, str]:
        """(y^thought, y^raw) ~ p(. | x*), Eq. 3: the draft as a whole, and y^raw, empty where the thoughts answer."""
        config = self.config
        prompt = await self._grounded_prompt() if config.ground else self._draft_prompt()
        reply = await self._write(prompt, self.run, name="draft")
        draft = readable(reply, config.form)
        thoughts, raw = split_draft(draft, config.form, most=max(1, self._most_steps()))
        for i, thought in enumerate(thoughts):
            self.steps.append(Step(thought, spans.enter_context(self.run.span("step", step=i + 1, phase=1))))
        self._propose(draft)
        return Whole(join_steps([*thoughts, raw]), reply.mean_logprob), raw

    def _draft_prompt(self) -> str:
        form = self.config.form
        written = style(form) if form.final_pass else ""
        parts = {"layout": layout(form), "style": written, "form": form.instruction}
        return render(self.config.prompts.draft, question=self.question, **parts)

    async def _grounded_prompt(self) -> str:
        config = self.config
        found = await find(self.run, config.retriever, self.question, k=config.ground)
        self.contents += len(found)
        passages = self.reading.shown(self.evidence.add(found), self.run, call="draft", number=0)
        self._support(self.reading.held)
        return grounded.draft(config, self.question, passages)

    def _most_steps(self) -> int:
        config = self.config
        if config.max_contents is None:
            return config.max_steps
        return min(config.max_steps, max(1, (config.max_contents - self.contents) // config.k - 1))

    async def _phase_one(self, raw: str) -> str:
        """Reflection on intermediate steps: equations 4 and 5."""
        steps = self.steps
        if self.config.queries == "parallel":
            await self._search_at_once()
        if self.config.reflections == "parallel":
            await self._reflect_at_once()
        for i, step in enumerate(steps):
            verified = join_steps([done.text for done in steps[:i]])
            if self.config.queries == "sequential":
                found = await self._search(step, join_steps([verified, step.draft]))
                self._hold(step, found)
            step.text = await self._refine_step(step, verified, raw if i == len(steps) - 1 else None)
            self._propose(join_steps([*(s.text or s.draft for s in steps), raw if i < len(steps) - 1 else ""]))
        return join_steps([step.text for step in steps]) or raw

    async def _search_at_once(self) -> None:
        """q_i ~ p(. | x*, y_1..i^thought): no query needs another step's refinement, so all run together."""
        drafts = [step.draft for step in self.steps]
        calls = 2 if self.config.form.draft_is_query else 3
        steps = self.steps[: affordable_steps(self.run, self.question, drafts, calls=calls)]
        if len(steps) < len(self.steps):
            self.run.note("steps left as drafted", why="the budget does not cover more", checked=len(steps))
        found = await gather(*(self._search(step, join_steps(drafts[: i + 1])) for i, step in enumerate(steps)))
        for step, passages in zip(steps, found, strict=True):
            self._hold(step, passages)

    async def _search(self, step: Step, text: str) -> list[Passage]:
        step.query = await self._to_query(text, step.run)
        return await find(step.run, self.config.retriever, step.query, k=self.config.k)

    def _hold(self, step: Step, found: Sequence[Passage]) -> None:
        step.markers = self.evidence.add(found)
        self.contents += len(found)

    async def _reflect_at_once(self) -> None:
        """Every y_i^reflection from y_1..i^thought, none of which is refined yet, so all run together."""

        async def reflect(i: int, step: Step) -> None:
            shown = self._shown(step) | {"before": join_steps([one.draft for one in self.steps[:i]])}
            step.reflection = await self._reflect(render(self.config.prompts.reflect_draft, **shown), step.run)

        await gather(*(reflect(i, step) for i, step in enumerate(self.steps) if step.markers))

    def _shown(self, step: Step) -> dict[str, str]:
        """What a step's reflection and its refinement both see."""
        passages = self.evidence.show(step.markers, tokens=self.config.passage_tokens)
        return {"question": self.question, "passages": passages, "step": step.draft}

    async def _refine_step(self, step: Step, verified: str, raw: str | None) -> str:
        """y_i^reflection, then y_i^RaR (Eq. 5). `raw` is y^raw at the last step and None before it."""
        config, prompts = self.config, self.config.prompts
        unrefined = join_steps([step.draft, raw or ""])
        if not step.markers:
            return unrefined
        common = self._shown(step) | {"verified": verified}
        if step.reflection is None:
            step.reflection = await self._reflect(render(prompts.reflect, **common), step.run)
        if config.skip_if_sound and sound(step.reflection):
            return unrefined
        common |= {"reflection": errors_of(step.reflection), "cite": cite(config.form)}
        if raw or (raw is not None and config.form.final_pass):
            common |= {"step": unrefined, "form": config.form.instruction}
            refined = await self._refine(prompts.refine_last, common, step.run, before=unrefined)
        else:
            refined = await self._refine(prompts.refine, common, step.run, before=unrefined)
        if refined is None:
            return unrefined
        self._support(step.markers)
        step.grounded = True
        text = refined.text if raw is None else with_answer(refined.text, unrefined, config.form, step.run)
        return kept_whole(unrefined, text, config.form, step.run)

    async def _at_once(self, draft: Whole) -> Whole:
        """Table 3, non-causal: passages for all raw steps, and one refinement of the whole draft with them."""
        await self._search_at_once()
        markers = list(dict.fromkeys(marker for step in self.steps for marker in step.markers))
        if not markers:
            return draft
        passages = self.evidence.show(markers, tokens=self.config.passage_tokens)
        with self.run.span("whole", phase=1) as run:
            refined = await self._refine_whole(draft, passages, run)
        if isinstance(refined, Idle):
            return draft
        self._support(markers)
        revised = split_steps(split_answer(refined.text, self.config.form)[0])
        for step, partner in zip(self.steps, align_steps([s.draft for s in self.steps], revised), strict=True):
            step.text, step.grounded = ("", False) if partner is None else (revised[partner], True)
        self._propose(refined.text)
        return refined

    async def _phase_two(self, answer: Whole) -> Answer:
        """Refinement of the overall response (Eq. 6) until m identical generations in a row."""
        config, rounds = self.config, Rounds(self.config.m)
        for number in range(1, config.max_rounds + 1):
            if rounds.over or self._contents_used():
                break
            with self.run.span("round", round=number, phase=2) as run:
                refined = await self._refine_answer(answer, number, run)
                rounds.count(refined, answer)
                if isinstance(refined, Whole) and goes_on(
                    refined, answer, accept=config.accept, question=self.question, run=run
                ):
                    self._support(refined.markers)
                    answer = refined
            self._propose(answer.text)
        if config.max_rounds:
            rounds.note_end(self.run, most=config.max_rounds)
        self.evidence.note_unused(self.run, self.support)
        return self._propose(answer.text)

    async def _refine_answer(self, answer: Whole, number: int, run: Run) -> Whole | Idle:
        query = await self._to_query(answer.text, run, number)
        markers = self.evidence.add(await self._additional(query, run))
        if not markers:
            return Idle("nothing was retrieved")
        passages = self.reading.shown(markers, run, call="refine", number=number)
        revise = self._refine_whole if self.config.reflect else self._revise_whole
        refined = await revise(answer, passages, run)
        if isinstance(refined, Idle):
            return refined
        return replace(refined, markers=tuple(marker for marker in markers if marker in self.reading.held))

    async def _refine_whole(self, answer: Whole, passages: str, run: Run) -> Whole | Idle:
        """A reflection on the whole answer, then its refinement (Eq. 6)."""
        config, prompts = self.config, self.config.prompts
        common = {"question": self.question, "answer": answer.text, "passages": passages}
        reflection = await self._reflect(render(prompts.reflect_answer, **common), run)
        if config.skip_if_sound and sound(reflection):
            return Idle("the reflection found no error")
        common |= {"reflection": errors_of(reflection), "cite": cite(config.form), "form": config.form.instruction}
        refined = await self._refine(prompts.refine_answer, common, run, before=answer.text)
        if refined is None:
            return Idle("the refinement was empty or cut")
        text = with_answer(refined.text, answer.text, config.form, run)
        return replace(refined, text=kept_whole(answer.text, text, config.form, run))

    async def _revise_whole(self, answer: Whole, passages: str, run: Run) -> Whole | Idle:
        """The answer from the passages in one call, without a reflection; its steps may well be others."""
        template, values = grounded.revision(self.config, self.question, passages, answer.text)
        revised = await self._refine(template, values, run, before=values.get("answer", ""))
        if revised is None:
            return Idle("the revision was empty or cut")
        if grounded.alone(self.config):
            return revised
        return replace(revised, text=with_answer(revised.text, answer.text, self.config.form, run))

    async def _additional(self, query: str, run: Run) -> list[Passage]:
        """Passages for the whole answer, unseen ones where that is asked for and there are any."""
        k = self.config.k
        more = len(self.evidence.passages) if self.config.fresh_evidence else 0
        found = await find(run, self.config.retriever, query, k=k + more)
        fresh = self.evidence.fresh(found) if self.config.fresh_evidence else []
        taken = (fresh or found)[:k]
        self.contents += len(taken)
        return taken

    def _contents_used(self) -> bool:
        most = self.config.max_contents
        return most is not None and self.contents + self.config.k > most

    async def _to_query(self, text: str, run: Run, number: int = 0) -> str:
        """A call of the model; for code the draft itself is the query (appendix B). `number` is 0 in phase 1."""
        config = self.config
        if config.form.draft_is_query:
            return text
        if config.query_from == "thought":
            return clean_query(" ".join(split_answer(text, config.form)[0].split()), fallback=self.question)
        if config.query_from == "names" and self.reading.held:
            passages = self.reading.shown([], run, call="query", number=number)
            prompt = render(config.prompts.names, passages=passages, question=self.question)
        elif number:
            prompt = render(config.prompts.query_answer, question=self.question, answer=text)
        else:
            prompt = render(config.prompts.query, question=self.question, text=text)
        reply = await run.ask(config.model, prompt, name="query", sampling=self._sampling(config.query_tokens))
        return clean_query(reply, fallback=text)

    async def _reflect(self, prompt: str, run: Run) -> str:
        sampling = self._sampling(self.config.reflection_tokens)
        replies = await run.generate(self.config.model, prompt, name="reflect", sampling=sampling)
        return readable(replies[0], self.config.form)

    async def _refine(self, template: str, values: Mapping[str, str], run: Run, *, before: str) -> Whole | None:
        reply = await self._write(render(template, **values), run, name="refine")
        text = accepted(reply, run, self.config.form, template=template, before=before)
        return None if text is None else Whole(text, reply.mean_logprob)

    async def _write(self, prompt: str, run: Run, *, name: str) -> Reply:
        """A draft or a refinement, with log-probabilities where answers are compared by them."""
        sampling = self._sampling(self.config.max_tokens, logprobs=self.config.accept == "surer")
        replies = await run.generate(self.config.model, prompt, name=name, sampling=sampling, logprobs="welcome")
        return replies[0]

    def _support(self, markers: Sequence[int]) -> None:
        self.support += [marker for marker in markers if marker not in self.support]

    def _propose(self, text: str) -> Answer:
        steps = [step.thought() for step in self.steps]
        return self.run.propose(self.evidence.answer(text, self.run, self.config.form, shown=self.support, steps=steps))

    def _sampling(self, max_tokens: int, *, logprobs: bool = False) -> Sampling:
        return Sampling(temperature=self.config.temperature, max_tokens=max_tokens, logprobs=logprobs)


METHOD = RaR

PRESETS = {"grounded": grounded.PRESET}
