"""RaR: reflect on every step, and then on the whole answer, with retrieved evidence, and refine it.

"Optimizing Inference-Time Reasoning in LLMs via Retrieval-Augmented Reflection", section 3.2: equations 3 to 6
and algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Literal

from reground.core.answers import TEXT, Answer, AnswerForm, Thought
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel, Reply, Sampling
from reground.core.run import Run, gather
from reground.methods._budget import INSTRUCTIONS, affords, tokens_of
from reground.methods._evidence import clean_query, find
from reground.methods._prompts import cite, render, require, style
from reground.methods._rar import grounded
from reground.methods._rar.prompts import Prompts
from reground.methods._rar.reading import Reading
from reground.methods._rar.scaling import grounded_at, paper_at
from reground.methods._rar.whole import Whole, goes_on
from reground.methods._revision import accepted, errors_of, readable, sound
from reground.methods._steps import join_steps, split_answer, split_draft, squeezed


@dataclass(frozen=True, kw_only=True)
class RaR:
    """Retrieval-augmented reflection, iterative.

    model, retriever: who thinks, and what is searched. form: what an answer looks like. prompts: the templates.
    k: passages a retrieval; the paper shows one content at a time, so that prompts stay short.
    queries: "parallel", every phase-1 query from the raw thoughts, all at once (Eq. 4); "sequential", query i
        from what is refined already and the raw step i (algorithm 1, line 4).
    ground: passages found with the question itself before anything is written, for the draft to be written from; 0, as in the
        paper, drafts from memory, which misleads the queries of a model that knows little.
    query_from: "model", a call writes each query (Eq. 4); "thought", the thought or the answer is the query as it stands;
        "names", in phase 2, a call that reads the passages held lists what to read next.
    revise: what a revision in one call is shown: "keep", the answer before, to be kept unless the passages contradict it;
        "afresh", the passages alone, because a small model clings to the answer before.
    accept: which refined answer of phase 2 goes on: "always"; "surer", where its tokens are no less probable, in the mean of
        their logarithms, than those of the answer before. Without log-probabilities every one does.
    reflect: whether errors are put into words before a refinement; without, one call reads the passages and revises (phase 2).
    reasoned: whether a grounded draft, and a revision in one call, says what the passages say before its answer; without, a
        short answer is stated alone.
    evidence: what a refinement reads in phase 2: "new", the passages of its round; "all", everything found so far.
    max_steps: phase 1 works on at most so many steps; in a longer draft neighbouring steps are put together. 0 leaves phase 1 out.
    max_rounds: the most rounds of phase 2; 0 leaves it out.
    m: so many identical generations in a row end phase 2, the answer of phase 1 counted as the first.
    max_contents: the most passages retrieved in all (the paper's comparison with RAG-5 has 5): phase 1 then works on
        one step fewer than would use them up, phase 2 ends with them. None: no limit.
    fresh_evidence: phase 2 looks for passages that were not seen before ("additional related documents", algorithm 1,
        line 12), and takes seen ones only when there are no others.
    skip_if_sound: leave out a refinement whose reflection is a bare OK; the paper always refines.
    context_tokens: the most tokens of all passages in one prompt of a grounded draft or of phase 2, the newest first and at
        least one; None is no limit. Where `ground` is set, long ones are cut before any is left out.
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
    max_contents: int | None = None
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
        known = {"model", "thought", "names"}
        require(self.query_from in known, 'query_from must be "model", "thought" or "names"')
        require(self.evidence in {"new", "all"}, 'evidence must be "new" or "all"')
        require(self.revise in {"keep", "afresh"}, 'revise must be "keep" or "afresh"')
        require(self.accept in {"always", "surer"}, 'accept must be "always" or "surer"')
        require(self.m >= 2, "m must be at least 2")
        require(self.max_contents is None or self.max_contents >= self.k, "max_contents must be at least k")
        require(self.queries in {"parallel", "sequential"}, 'queries must be "parallel" or "sequential"')
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


@dataclass
class _Step:
    """One thought on its way through phase 1: y_i^thought, q_i, V_i, the reflection and y_i^RaR."""

    draft: str
    run: Run
    query: str = ""
    markers: Sequence[int] = ()
    reflection: str | None = None
    text: str = ""
    grounded: bool = False

    def thought(self) -> Thought:
        return Thought(
            text=self.text or self.draft,
            draft=self.draft,
            reflection=self.reflection,
            query=self.query or None,
            citations=tuple(self.markers) if self.grounded else (),
        )


class _Solving:
    """One question's state: the evidence, the steps and the answer as it stands."""

    def __init__(self, config: RaR, question: str, run: Run) -> None:
        self.config = config
        self.question = question
        self.run = run
        self.reading = Reading(config, question)
        self.evidence = self.reading.evidence
        self.support: list[int] = []
        self.steps: list[_Step] = []
        self.contents = 0

    async def solve(self) -> Answer:
        with ExitStack() as spans:
            draft, raw = await self._draft(spans)
            phase_one = self.config.max_steps > 0
            answer = Whole(await self._phase_one(raw)) if phase_one else draft
        return await self._phase_two(answer)

    async def _draft(self, spans: ExitStack) -> tuple[Whole, str]:
        """(y^thought, y^raw) ~ p(. | x*), equation 3: the draft as a whole, and y^raw, which is empty where the thoughts are the answer."""
        config = self.config
        prompt = await self._grounded_prompt() if config.ground else self._draft_prompt()
        reply = await self._write(prompt, self.run, name="draft")
        draft = readable(reply, config.form)
        thoughts, raw = split_draft(draft, config.form, most=max(1, self._most_steps()))
        for i, thought in enumerate(thoughts):
            self.steps.append(_Step(thought, spans.enter_context(self.run.span("step", step=i + 1))))
        self._propose(draft)
        return Whole(join_steps([*thoughts, raw]), reply.mean_logprob), raw

    def _draft_prompt(self) -> str:
        form = self.config.form
        written = style(form) if form.final_pass else ""
        return render(self.config.prompts.draft, question=self.question, style=written, form=form.instruction)

    async def _grounded_prompt(self) -> str:
        config = self.config
        self.reading.hold(self.evidence.add(await find(self.run, config.retriever, self.question, k=config.ground)))
        self._support(self.reading.held)
        return grounded.draft(config, self.question, self.reading.shown([], self.run, call="draft", number=0))

    def _most_steps(self) -> int:
        config = self.config
        if config.max_contents is None:
            return config.max_steps
        return min(config.max_steps, max(1, config.max_contents // config.k - 1))

    async def _phase_one(self, raw: str) -> str:
        """Reflection on intermediate steps: equations 4 and 5."""
        steps = self.steps
        if self.config.queries == "parallel":
            await self._search_at_once()
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
        steps = self.steps[: self._affordable_steps()]
        if len(steps) < len(self.steps):
            self.run.note("steps left as drafted", why="the budget does not cover more", checked=len(steps))
        drafts = [step.draft for step in self.steps]
        found = await gather(*(self._search(step, join_steps(drafts[: i + 1])) for i, step in enumerate(steps)))
        for step, passages in zip(steps, found, strict=True):
            self._hold(step, passages)

    async def _search(self, step: _Step, text: str) -> list[Passage]:
        step.query = await self._to_query(text, step.run)
        return await find(step.run, self.config.retriever, step.query, k=self.config.k)

    def _hold(self, step: _Step, found: Sequence[Passage]) -> None:
        step.markers = self.evidence.add(found)
        self.contents += len(found)

    async def _refine_step(self, step: _Step, verified: str, raw: str | None) -> str:
        """y_i^reflection, then y_i^RaR (Eq. 5). `raw` is y^raw at the last step and None before it."""
        config, prompts = self.config, self.config.prompts
        unrefined = join_steps([step.draft, raw or ""])
        if not step.markers:
            return unrefined
        common = {
            "question": self.question,
            "verified": verified,
            "passages": self.evidence.show(step.markers, tokens=config.passage_tokens),
            "step": step.draft,
        }
        step.reflection = await self._reflect(render(prompts.reflect, **common), step.run)
        if config.skip_if_sound and sound(step.reflection):
            return unrefined
        common |= {"reflection": errors_of(step.reflection), "cite": cite(config.form)}
        if raw or (raw is not None and config.form.final_pass):
            prompt = render(prompts.refine_last, **common | {"step": unrefined}, form=config.form.instruction)
        else:
            prompt = render(prompts.refine, **common)
        refined = await self._refine(prompt, step.run)
        if refined is None:
            return unrefined
        self._support(step.markers)
        step.grounded = True
        return refined.text if raw is None else self._with_answer(refined.text, raw or step.draft, step.run)

    def _with_answer(self, refined: str, draft: str, run: Run) -> str:
        """A refined ending, with the answer of what it refines behind it if it states none."""
        form = self.config.form
        answer = split_answer(draft, form)[1]
        if not answer or split_answer(refined, form)[1]:
            return refined
        run.note("answer missing", repair="the answer before put behind it")
        return join_steps([refined, answer])

    async def _phase_two(self, answer: Whole) -> Answer:
        """Refinement of the overall response (Eq. 6) until m identical generations in a row."""
        config = self.config
        identical = 1
        for round_number in range(1, config.max_rounds + 1):
            if identical >= config.m or self._contents_used():
                break
            with self.run.span("round", round=round_number) as run:
                refined = await self._refine_answer(answer, round_number, run)
                identical = identical + 1 if squeezed(refined.text) == squeezed(answer.text) else 1
                if goes_on(refined, answer, accept=config.accept, question=self.question, run=run):
                    self._support(refined.markers)
                    answer = refined
            self._propose(answer.text)
        if identical >= config.m:
            self.run.note("converged", identical=identical)
        return self._propose(answer.text)

    async def _refine_answer(self, answer: Whole, number: int, run: Run) -> Whole:
        config, prompts = self.config, self.config.prompts
        query = await self._to_query(answer.text, run, number)
        markers = self.evidence.add(await self._additional(query, run))
        if not markers:
            return answer
        passages = self.reading.shown(markers, run, call="refine", number=number)
        self.reading.hold(markers)
        if not config.reflect:
            prompt = grounded.revision(config, self.question, passages, answer.text)
            alone = bool(grounded.alone(config))
        else:
            common = {"question": self.question, "answer": answer.text, "passages": passages}
            reflection = await self._reflect(render(prompts.reflect_answer, **common), run)
            if config.skip_if_sound and sound(reflection):
                return answer
            common |= {"reflection": errors_of(reflection), "cite": cite(config.form), "form": config.form.instruction}
            prompt, alone = render(prompts.refine_answer, **common), False
        refined = await self._refine(prompt, run)
        if refined is None:
            return answer
        text = refined.text if alone else self._with_answer(refined.text, answer.text, run)
        return replace(refined, text=text, markers=tuple(markers))

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
        """A call of the model; for code the draft itself is the query (appendix B)."""
        config = self.config
        if config.form.draft_is_query:
            return text
        if config.query_from == "thought":
            return clean_query(" ".join(split_answer(text, config.form)[0].split()), fallback=self.question)
        if config.query_from == "names" and self.reading.held:
            passages = self.reading.shown([], run, call="query", number=number)
            prompt = render(config.prompts.names, passages=passages, question=self.question)
        else:
            prompt = render(config.prompts.query, question=self.question, text=text)
        reply = await run.ask(config.model, prompt, name="query", sampling=self._sampling(config.query_tokens))
        return clean_query(reply, fallback=text)

    async def _reflect(self, prompt: str, run: Run) -> str:
        sampling = self._sampling(self.config.reflection_tokens)
        replies = await run.generate(self.config.model, prompt, name="reflect", sampling=sampling)
        return readable(replies[0], self.config.form)

    async def _refine(self, prompt: str, run: Run) -> Whole | None:
        reply = await self._write(prompt, run, name="refine")
        text = accepted(reply, run, self.config.form, prompt=prompt)
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

    def _affordable_steps(self) -> int:
        """How many whole cycles of phase 1 the budget covers: queries that no refinement can follow are not worth asking."""
        calls = 2 if self.config.form.draft_is_query else 3
        size = INSTRUCTIONS + tokens_of(self.question)
        for count in range(len(self.steps), 0, -1):
            read = sum(tokens_of(step.draft) for step in self.steps[:count])
            if affords(self.run, calls=calls * count, tokens=count * calls * size + 3 * read):
                return count
        return min(1, len(self.steps))

    def _sampling(self, max_tokens: int, *, logprobs: bool = False) -> Sampling:
        return Sampling(temperature=self.config.temperature, max_tokens=max_tokens, logprobs=logprobs)


METHOD = RaR

PRESETS = {"grounded": grounded.PRESET}
