"""RaR: reflect on every step, and then on the whole answer, with retrieved evidence, and refine it.

"Optimizing Inference-Time Reasoning in LLMs via Retrieval-Augmented Reflection", section 3.2, Eq. 3-6, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from reground.core.ahead import Guess, Guessing, Longest
from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.branches import gather
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel, tokens_of
from reground.core.run import Run
from reground.methods.rar.calls import Calls
from reground.methods.rar.guessing import refine_ahead
from reground.methods.rar.prompts import Prompts
from reground.methods.rar.rounds import Idle, Rounds
from reground.methods.rar.steps import Step
from reground.methods.shared.evidence import SHORT_PASSAGE, Evidence, find
from reground.methods.shared.prompts import cite, concluded, layout, render, require, require_choices, style
from reground.methods.shared.revision import errors_of, kept_whole, readable, sound, with_answer
from reground.methods.shared.steps import align_steps, join_steps, split_answer, split_draft, split_steps


@dataclass(frozen=True, kw_only=True)
class RaR:
    """Retrieval-augmented reflection, iterative.

    Calls are named draft, query, retrieve, reflect and refine. The span of a call names its phase: none for the draft,
    `step` (or `whole`, where causal is False) for phase 1, `round` for phase 2. The note that opens the span holds the
    phase's number.

    model, retriever: the model that reasons, and the index to search. form: the form of the answer.
    prompts: the templates.
    k: passages per retrieval; the paper shows one at a time, which keeps prompts short.
    queries: "parallel" writes every phase-1 query from the raw thoughts, all at once (Eq. 4); "sequential" writes
        query i from the refined steps before it and the raw step i (algorithm 1, line 4).
    reflections: "sequential" shows the reflection on step i the refined steps before it (algorithm 1, line 6);
        "parallel" shows it the drafted steps, so that all reflections run at once; it needs parallel queries.
    causal: False replaces phase 1 by one reflection and one refinement of the whole draft, with the passages of all
        raw steps (table 3, non-causal). The paper does not mention phase 2 there, so `max_rounds` still applies.
    max_steps: maximum number of steps in phase 1; a longer draft has neighbouring steps joined. 0 skips phase 1.
    max_rounds: maximum number of rounds in phase 2; 0 skips it.
    m: number of identical generations in a row that end phase 2; the answer of phase 1 counts as the first.
    max_contents: maximum number of passages retrieved in all; 5 as in the comparison with RAG-5 (appendix, discussion
        of efficiency). Phase 1 handles one step fewer than would use them up; phase 2 ends when they are used up.
        None is no limit. More iterations need more documents (section 3.3).
    fresh_evidence: phase 2 prefers passages not seen before ("additional related documents", algorithm 1, line 12);
        it uses seen ones only if there are no others.
    final_pass: for a long text (the form `article`), thoughts are its parts, and one more call after phase 1 writes the
        text from them, as RAT does (section 2.2 there); phase 2 then refines the text. Without it, as in this paper,
        the draft is the text and its paragraphs are the thoughts.
    skip_if_sound: skips a refinement if its reflection is a bare OK; the paper always refines.
    passage_tokens: maximum length of a passage in tokens; pages had at most 2000 tokens (appendix A.3).
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of a draft, a refined step or an answer.
    reflection_tokens, query_tokens: maximum tokens of a reflection and of a query.
    speculate: begins the later steps of phase 1 at once, as if no refinement changed a step, and begins them again
        where one did. The answer is the same, sooner on a server that answers many calls at once, for more tokens.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = field(default_factory=Prompts)
    k: int = 1
    queries: Literal["parallel", "sequential"] = "parallel"
    reflections: Literal["sequential", "parallel"] = "sequential"
    causal: bool = True
    max_steps: int = 5
    max_rounds: int = 3
    m: int = 3
    max_contents: int | None = 5
    fresh_evidence: bool = True
    final_pass: bool = False
    skip_if_sound: bool = False
    passage_tokens: int = 2000
    temperature: float = 0.0
    max_tokens: int = 1024
    reflection_tokens: int = 256
    query_tokens: int = 64
    speculate: bool = False

    def __post_init__(self) -> None:
        require(self.k >= 1, "k must be at least 1")
        require(min(self.max_steps, self.max_rounds) >= 0, "max_steps and max_rounds must be 0 or more")
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

    def sizes(self) -> Sequence[RaR]:
        """More steps, then more rounds, and as many passages as both retrieve (section 3.3: n iterations)."""
        ladder = [(1, 0), (2, 0), *((steps, 1) for steps in range(1, 6)), (5, 2), (5, 3)]
        return [
            replace(self, max_steps=steps, max_rounds=rounds, max_contents=self.k * (steps + rounds))
            for steps, rounds in ladder
        ]


class _Solving:
    """One question's state: the evidence, the steps and the answer as it stands."""

    def __init__(self, config: RaR, question: str, run: Run) -> None:
        self.config = config
        self.question = question
        self.run = run
        self.calls = Calls(
            model=config.model, form=config.form, question=question, temperature=config.temperature,
            max_tokens=config.max_tokens, reflection_tokens=config.reflection_tokens, query_tokens=config.query_tokens,
        )  # fmt: skip
        self.evidence = Evidence()
        self.support: list[int] = []
        self.steps: list[Step] = []
        self.contents = 0

    async def solve(self) -> Answer:
        with ExitStack() as spans:
            draft, raw = await self._draft(spans)
            refined = draft if self.config.max_steps == 0 else None
            with self.run.keeping(self._whole_prompt if self._writes_whole else None, reply=self.config.form.usual):
                if refined is None:
                    refined = await (self._phase_one(raw) if self.config.causal else self._at_once(draft))
        answer = self._parts() if refined is None else refined
        if self._writes_whole:
            answer = await self._written(answer)
        return await self._phase_two(answer)

    async def _draft(self, spans: ExitStack) -> tuple[str, str]:
        """(y^thought, y^raw) ~ p(. | x*), Eq. 3: the draft as a whole, and y^raw, empty where the thoughts answer."""
        config, form = self.config, self.config.form
        written = style(form) if form.final_pass or self._writes_whole else ""
        stated = "" if self._writes_whole else form.instruction
        prompt = render(config.prompts.draft, question=self.question, layout=layout(form), style=written, form=stated)
        draft = self.evidence.checked(
            readable(await self.calls.write(prompt, self.run, name="draft"), form), self.run, form
        )
        thoughts, raw = split_draft(draft, form, most=max(1, self._most_steps()))
        for i, thought in enumerate(thoughts):
            self.steps.append(Step(thought, spans.enter_context(self.run.span("step", step=i + 1, phase=1))))
        self._propose(draft)
        return join_steps([*thoughts, raw]), raw

    def _most_steps(self) -> int:
        most, contents = self.config.max_steps, self.config.max_contents
        return most if contents is None else min(most, max(1, contents // self.config.k - 1))

    async def _phase_one(self, raw: str) -> str:
        """Reflection on intermediate steps: equations 4 and 5."""
        steps = self.steps
        if self.config.queries == "parallel":
            await self._search_at_once()
        if self.config.reflections == "parallel":
            await self._reflect_at_once()
        async with Guessing(self.run, on=self.config.speculate) as guessing:
            for i, step in enumerate(steps):
                verified = join_steps([done.text for done in steps[:i]])
                changed = i == 0 or steps[i - 1].text != steps[i - 1].draft
                if changed and (guess := guessing.restart(self._rest(len(steps) - i))):
                    guess.begin(self._fork(guess)._refine_ahead(guess, i, raw))
                if self.config.queries == "sequential":
                    self._hold(step, await self._search(step, join_steps([verified, step.draft])))
                step.text = await self._refine_step(step, verified, raw if i == len(steps) - 1 else None)
                self._propose(join_steps([*(s.text or s.draft for s in steps), raw if i < len(steps) - 1 else ""]))
        return join_steps([step.text for step in steps]) or raw

    def _fork(self, guess: Guess) -> _Solving:
        """A copy for a guess, which leaves this state as it is. Steps that are not refined yet are their drafts."""
        fork = copy(self)
        fork.run, fork.evidence, fork.support = guess.of(self.run), self.evidence.copy(), [*self.support]
        fork.steps = [replace(step, run=guess.of(step.run), text=step.text or step.draft) for step in self.steps]
        return fork

    def _refine_ahead(self, guess: Guess, i: int, raw: str) -> Coroutine[Any, Any, None]:
        def refine(j: int, before: str) -> Coroutine[Any, Any, str]:
            own = copy(self)  # what one refinement holds is not another's
            own.evidence, own.support = self.evidence.copy(), []
            return own._refine_step(self.steps[j], before, raw if j == len(self.steps) - 1 else None)

        search = self._search if self.config.queries == "sequential" else None
        return refine_ahead(guess, self.steps, i, search=search, hold=self._hold, refine=refine)

    def _rest(self, steps: int) -> Longest:
        """The calls of this many steps, of the text and of phase 2, each as long as it can get."""
        config = self.config
        text = tokens_of(f"{config.prompts.refine}{self.question}{self._parts()}") + config.max_tokens
        read = text + config.k * config.passage_tokens + config.reflection_tokens
        step = [(text, config.query_tokens), (read, config.reflection_tokens), (read, config.max_tokens)]
        return [*step * steps, (text, config.max_tokens), *step * config.max_rounds]

    async def _search_at_once(self) -> None:
        """q_i ~ p(. | x*, y_1..i^thought): no query needs another step's refinement, so all run together."""
        drafts = [step.draft for step in self.steps]

        async def search(i: int, step: Step) -> list[Passage]:
            with step.run.optional():
                return await self._search(step, join_steps(drafts[: i + 1]))
            return []

        first, reply = self._first_refinement if self.steps else None, self.config.form.usual
        with self.run.keeping(first, reply=reply), self.run.keeping(first, reply=reply):  # two calls
            found = await gather(*(search(i, step) for i, step in enumerate(self.steps)))
        for step, passages in zip(self.steps, found, strict=True):
            self._hold(step, passages)

    async def _search(self, step: Step, text: str) -> list[Passage]:
        step.query = await self.calls.query(self.config.prompts.query, text, step.run, text=text)
        return await find(step.run, self.config.retriever, step.query, k=self.config.k)

    def _first_refinement(self) -> str:
        """Roughly the prompt of the first reflection and refinement. Without these two calls a query is useless."""
        return f"{self.config.prompts.reflect}{self.question}{self.steps[0].draft}{SHORT_PASSAGE}"

    def _hold(self, step: Step, found: Sequence[Passage]) -> None:
        step.markers = self.evidence.add(found)
        self.contents += len(found)

    async def _reflect_at_once(self) -> None:
        """Every y_i^reflection from y_1..i^thought, none of which is refined yet, so all run together."""
        template, drafts = self.config.prompts.reflect_draft, [step.draft for step in self.steps]

        async def reflect(i: int, step: Step) -> None:
            prompt = self._about(template, step, before=join_steps(drafts[:i]), step=step.draft)
            step.reflection = await self.calls.reflect(prompt, step.run)

        await gather(*(reflect(i, step) for i, step in enumerate(self.steps) if step.markers))

    def _about(self, template: str, at: Step, **values: str) -> str:
        """A prompt about a step with its passages. The step's other call and all later steps need as much room each."""
        uses = 2 * (len(self.steps) - self.steps.index(at))
        parts = values | {"question": self.question}
        return self.evidence.fill(template, parts, at.markers, at.run, tokens=self.config.passage_tokens, uses=uses)

    async def _refine_step(self, step: Step, verified: str, raw: str | None) -> str:
        """y_i^reflection, then y_i^RaR (Eq. 5). `raw` is y^raw at the last step and None before it."""
        config, prompts = self.config, self.config.prompts
        unrefined = join_steps([step.draft, raw or ""])
        if not step.markers:
            return unrefined
        if step.reflection is None:
            prompt = self._about(prompts.reflect, step, verified=verified, step=step.draft)
            with step.run.keeping(lambda: f"{prompt}\n{unrefined}", reply=tokens_of(unrefined)):
                step.reflection = await self.calls.reflect(prompt, step.run)
        if step.reflection is None or (config.skip_if_sound and sound(step.reflection)):
            return unrefined
        common = {"verified": verified, "reflection": errors_of(step.reflection), "cite": cite(config.form)}
        if raw or (raw is not None and config.form.final_pass):
            template, common = prompts.refine_last, common | {"step": unrefined, "form": config.form.instruction}
        else:
            template, common = prompts.refine, common | {"step": step.draft}
        refined = await self.calls.refine(template, self._about(template, step, **common), step.run, unrefined)
        if refined is None:
            return unrefined
        refined = self._checked(refined, join_steps([verified, unrefined]), step.run)
        self._support(self.evidence.held)
        step.grounded = True
        text = refined if raw is None else with_answer(refined, unrefined, config.form, step.run)
        return kept_whole(unrefined, text, config.form, step.run)

    async def _at_once(self, draft: str) -> str:
        """Table 3, non-causal: passages for all raw steps, and one refinement of the whole draft with them."""
        await self._search_at_once()
        markers = list(dict.fromkeys(marker for step in self.steps for marker in step.markers))
        if not markers:
            return draft
        with self.run.span("whole", phase=1) as run:
            refined = await self._refine_whole(draft, markers, run)
        if isinstance(refined, Idle):
            return draft
        self._support(self.evidence.held)
        revised = split_steps(split_answer(refined, self.config.form)[0])
        for step, partner in zip(self.steps, align_steps([s.draft for s in self.steps], revised), strict=True):
            step.text, step.grounded = ("", False) if partner is None else (revised[partner], True)
        self._propose(refined)
        return refined

    @property
    def _writes_whole(self) -> bool:
        return self.config.final_pass and self.config.form.outlined

    def _parts(self) -> str:
        """The parts, refined as far as phase 1 came."""
        return join_steps([step.text or step.draft for step in self.steps])

    def _whole_prompt(self, parts: str | None = None) -> str:
        text = self._parts() if parts is None else parts
        return render(self.config.prompts.answer, question=self.question, text=text, form=concluded(self.config.form))

    async def _written(self, parts: str) -> str:
        """The text as a whole, written from its refined parts; the parts where the reply is empty."""
        reply = await self.calls.write(self._whole_prompt(parts), self.run, name="answer", least=tokens_of(parts))
        text = readable(reply, self.config.form)
        if not text:
            self.run.note("answer empty", kept="the parts")
            return parts
        self._propose(text)
        return text

    async def _phase_two(self, answer: str) -> Answer:
        """Refinement of the overall response (Eq. 6) until m identical generations in a row."""
        config, rounds = self.config, Rounds(self.config.m)
        for number in range(1, config.max_rounds + 1):
            if rounds.over or self._contents_used():
                break
            with self.run.span("round", round=number, phase=2) as run:
                refined = await self._refine_answer(answer, run)
                rounds.count(refined, answer)
                if not isinstance(refined, Idle):
                    answer = refined
            self._propose(answer)
        if config.max_rounds:
            rounds.note_end(self.run, most=config.max_rounds)
        self.evidence.note_unused(self.run, self.support)
        return self._propose(answer)

    async def _refine_answer(self, answer: str, run: Run) -> str | Idle:
        query = await self.calls.query(self.config.prompts.query_answer, answer, run, answer=answer)
        markers = self.evidence.add(await self._additional(query, run))
        if not markers:
            return Idle("nothing was retrieved")
        refined = await self._refine_whole(answer, markers, run)
        if not isinstance(refined, Idle):
            self._support(self.evidence.held)
        return refined

    async def _refine_whole(self, answer: str, markers: Sequence[int], run: Run) -> str | Idle:
        """A reflection on the whole answer, then its refinement (Eq. 6)."""
        config, prompts = self.config, self.config.prompts
        common = {"question": self.question, "answer": answer}
        tokens, size = config.passage_tokens, tokens_of(answer)
        prompt = self.evidence.fill(prompts.reflect_answer, common, markers, run, tokens=tokens, uses=2)
        reflection = None
        with run.keeping(lambda: prompt, reply=size):
            reflection = await self.calls.reflect(prompt, run)
        if reflection is None:
            return Idle("there is no room for a refinement")
        if config.skip_if_sound and sound(reflection):
            return Idle("the reflection found no error")
        common |= {"reflection": errors_of(reflection), "cite": cite(config.form), "form": config.form.instruction}
        prompt = self.evidence.fill(prompts.refine_answer, common, markers, run, tokens=tokens, reply=size)
        refined = await self.calls.refine(prompts.refine_answer, prompt, run, answer)
        if refined is None:
            return Idle("the refinement was empty or cut")
        refined = self._checked(refined, answer, run)
        text = with_answer(refined, answer, config.form, run)
        return kept_whole(answer, text, config.form, run)

    def _checked(self, refined: str, before: str, run: Run) -> str:
        """The text without markers of passages that neither its prompt showed nor the text before it cites."""
        known = [*self.evidence.held, *self.evidence.cited(before, self.config.form)]
        return self.evidence.checked(refined, run, self.config.form, known=known)

    async def _additional(self, query: str, run: Run) -> list[Passage]:
        """Passages for the whole answer; with `fresh_evidence`, unseen ones if there are any."""
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

    def _support(self, markers: Sequence[int]) -> None:
        self.support += [marker for marker in markers if marker not in self.support]

    def _propose(self, text: str) -> Answer:
        steps = [step.thought() for step in self.steps]
        return self.run.propose(self.evidence.answer(text, self.run, self.config.form, shown=self.support, steps=steps))


METHOD = RaR
PRESETS = {"final": {"final_pass": True}, "non_causal": {"causal": False}}
