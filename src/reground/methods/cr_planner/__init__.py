"""CR-Planner: critics choose whether to reason, write a query or retrieve, and the best of several ways to do it.

"Can We Further Elicit Reasoning in LLMs? Critic-Guided Planning with Retrieval-Augmentation for Solving Challenging
Tasks", sections 2.1 and 2.2, appendices A.1 and C. Solving is a walk through the decision process of `states.py`. In
every state, that state's critic chooses the action with the highest expected reward (equations 1 and 2). The walk ends
when a rationale holds the complete answer, or after T observations, when the answer is forced. The paper gives no T.
Its critics are trained; here the default critic is a prompted model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from reground.core.answers import Answer, AnswerForm
from reground.core.critic import Critic, Pair
from reground.core.errors import ContextLengthExceeded
from reground.core.evidence import Retriever
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.core.untrusted import fence
from reground.critics import Critics, load
from reground.methods.cr_planner.actions import Option, judged, options, told
from reground.methods.cr_planner.answer import QUERY, answer_of, complete_answer, forced, ranking, so_far
from reground.methods.cr_planner.prompts import Prompts as Prompts
from reground.methods.cr_planner.prompts import last_step, task_kind
from reground.methods.cr_planner.states import Goal, Mask, State, context, history, kind_of, legal, onward
from reground.methods.shared.prompts import ending, render
from reground.methods.shared.settings import Settings, require

LADDER = ((1, 6), (2, 6), (3, 6), (3, 8), (3, 10), (3, 12), (3, 16))
"""Sizes: candidates per choice, and observations. Six observations are one of each sub-goal with its execution."""


@dataclass(frozen=True, kw_only=True)
class CRPlanner(Settings):
    """Planning by critics.

    model, retriever: the generator, and the index to search. form: the form of the answer; it selects the prompts for
    questions, maths or code. prompts: the templates.
    critic: name of the critic that chooses: prompted (prompted:pointwise, or prompted:rank, which is cheaper),
    trained:FOLDER, random, first, fixed, or another file of reground/critics. In the application, prompted:openai/large
    asks a model other than the generator. doc=trained:FOLDER,subgoal=first names critics by kind; the others are
    prompted. critics: the four critics as objects, instead of a name.
    candidates: number of rationales and queries sampled, and of documents offered, for each choice; 3 in the paper.
    With 1, only sub-goals are chosen. temperature: sampling temperature of the candidates; 0.7 in the paper.
    max_steps: T, the maximum number of observations; a sub-goal and its execution are two.
    retrieval: false leaves reasoning as the only sub-goal (section 4.3).
    mask: useful leaves out sub-goals that cannot help; paper always allows all of them (table 6).
    answer: form, or ranking for retrieval tasks: the answer is then the `ranked` documents of a last retrieval.
    documents: number of documents offered for each choice; None is as many as other candidates. A trained critic judges
    more at little cost.
    conclude: plan ends with the rationale that states the complete answer, and takes it as it is, as in the paper.
    documents ends after max_steps and then asks for an answer from the chosen documents alone: a small model states an
    answer in its first rationale, in long sentences, and repeats what is wrong in it. Rankings conclude with a
    retrieval.
    ranked: number of documents in a ranking; 10 for nDCG@10 (section 3.4).
    passage_tokens: maximum length of a document in tokens.
    step_tokens: maximum tokens of a rationale; `max_tokens` applies where the form is a program.
    query_tokens: maximum tokens of a query. max_tokens: maximum tokens of the forced answer.
    """

    retriever: Retriever | None = None
    prompts: Prompts = field(default_factory=Prompts)
    critic: str = "prompted"
    critics: Critics | None = None
    candidates: int = 3
    temperature: float = 0.7
    max_steps: int = 16
    retrieval: bool = True
    mask: Mask = "useful"
    answer: Literal["form", "ranking"] = "form"
    documents: int | None = None
    conclude: Literal["plan", "documents"] = "plan"
    ranked: int = 10
    passage_tokens: int = 500
    step_tokens: int = 256
    query_tokens: int = 48

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.candidates >= 1, "candidates must be at least 1")
        require(self.documents is None or self.documents >= 1, "documents must be at least 1, or None")
        require(self.max_steps >= 2, "max_steps must be at least 2: a sub-goal and its execution")
        require(self.ranked >= 1, "ranked must be at least 1")
        require(self.retrieval or not self.ranks, "answer=ranking needs retrieval")
        has_documents = self.retriever is not None or not self.retrieval
        require(has_documents, "the method cr_planner needs documents: give --corpus DIR, or set retrieval=false")
        _ = self.judges  # refuses an unknown critic before any question is asked

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        return run.propose(await self.finish(await self.walk(State(question), run), run))

    async def walk(self, state: State, run: Run) -> State:
        """Choose sub-goals and execute them until the end. Returns the last state."""
        barren: frozenset[Goal] = frozenset()
        reply = self.query_tokens if self.ranks else self.form.usual
        with run.keeping(lambda: self.prompt(self.last_call, state), reply=reply):
            while not self.terminal(state):
                with run.span("step", number=len(state.observations) + 1) as step:
                    offered = await self.expand(state, step, without=barren)
                    following = await self.choose(state, offered, step)
                if following is None and (state.goal is None or not offered):
                    what = "no sub-goal is left" if state.goal is None else "no candidate can be made"
                    run.note("planning ended", why=f"{what} in a {state.stage} state")
                    break
                if following is None:
                    run.note("sub-goal left", goal=state.goal, why="none of its candidates can go on")
                state, barren = onward(state, following, barren)
                if (best := so_far(self, state, run)).text:
                    run.propose(best)
        return state

    def terminal(self, state: State) -> bool:
        """Whether the last observation holds the complete answer, or no sub-goal fits in the observations left."""
        out = state.goal is None and not legal(state, left=self.max_steps - len(state.observations), mask="paper")
        return out or bool(self.complete(state))

    async def expand(self, state: State, run: Run, *, without: frozenset[Goal] = frozenset()) -> list[Option]:
        """The actions of a state and their next states: sub-goals, or candidates for the execution of one.

        Empty at the end, and where a rationale is due but the observations already fill the model's context.

        without: sub-goals that failed in this state.
        """
        return [] if self.terminal(state) else await options(self, state, run, without=without)

    async def choose(self, state: State, offered: Sequence[Option], run: Run) -> State | None:
        """Equation 1: the state behind the option with the highest expected reward; the first of equals.

        None if every option was discarded.
        """
        if not offered:
            return None
        kind = kind_of(state)
        critic = self.judges.of(kind)
        cut = getattr(critic, "passage_tokens", self.passage_tokens)  # a trained critic's is that of its training
        candidates = [option.candidate for option in offered]
        live = [place for place, option in enumerate(offered) if option.state is not None]
        best, why = (live[0], "only one") if live else (None, "all were discarded")
        if len(live) > 1:
            following = (offered[place].state for place in live)
            pairs = [judged(state, each, tokens=cut)[1] for each in following if each is not None]
            scores = await _scores(critic, pairs, [candidates[place] for place in live], run)
            for place, score in zip(live, scores or [], strict=scores is not None):
                candidates[place] = candidates[place].model_copy(update={"score": score})
            if scores is not None:
                best, why = live[scores.index(max(scores))], "highest score"
            else:
                why = "the first: the context is too long for the critic"
        seen = context(state, kind, tokens=cut)
        run.choose(kind, by=critic.name, context=seen, candidates=candidates, chosen=best, why=why)
        return None if best is None else offered[best].state

    async def finish(self, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
        """The complete answer if the state holds one, otherwise a forced one; for rankings, a last retrieval."""
        if self.ranks:
            return await ranking(self, state, run, temperature=temperature)
        if complete := self.complete(state):
            return answer_of(self, state, complete, run)
        return await forced(self, state, run, temperature=temperature)

    def sizes(self) -> Sequence[CRPlanner]:
        """More candidates for each choice, then more steps."""
        return [replace(self, candidates=candidates, max_steps=steps) for candidates, steps in LADDER]

    def complete(self, state: State) -> str:
        """The complete answer in the last observation, if that is a rationale and ends the plan; otherwise empty."""
        if self.conclude == "documents" and not self.ranks:
            return ""
        return complete_answer(state.observations[-1].text, self.answer_form) if state.stage == "RATIONALE" else ""

    @property
    def ranks(self) -> bool:
        """Whether the answer is a ranking of documents."""
        return self.answer == "ranking"

    @property
    def offered(self) -> int:
        """The number of documents offered for each choice."""
        return self.documents or self.candidates

    @property
    def answer_form(self) -> AnswerForm:
        """The form of a step's complete answer; for rankings it is a query."""
        return QUERY if self.ranks else self.form

    @property
    def longest_step(self) -> int:
        """Maximum tokens of a rationale. If the form is a program, the last rationale holds it."""
        return max(self.step_tokens, self.max_tokens) if self.answer_form.draft_is_query else self.step_tokens

    @cached_property
    def judges(self) -> Critics:
        """The critics in use, the same ones for every question."""
        return self.critics if self.critics is not None else load(self.critic, model=self.model)

    @property
    def last_call(self) -> Literal["answer", "documents", "search"]:
        """The call that concludes, if one is needed."""
        return "search" if self.ranks else "documents" if self.conclude == "documents" else "answer"

    def prompt(self, name: Literal["reason", "query", "answer", "documents", "search"], state: State) -> str:
        """One of the templates, filled for a state."""
        kind = task_kind(self.form, ranking=self.ranks)
        if name == "documents":
            passages = fence(state.passages, tokens=self.passage_tokens)
            return render(self.prompts.documents, passages=passages, question=state.question, form=ending(self.form))
        if name == "query":
            return render(
                self.prompts.query,
                question=state.question,
                step=state.rationales[-1] if state.rationales else "",
                asked="\n".join(state.queries),
                guide=self.prompts.guide(kind),
            )
        seen = {
            "task": self.prompts.task(kind),
            "question": state.question,
            "history": history(state, tokens=self.passage_tokens, goals=name != "reason"),
        }
        if name == "reason":
            return render(self.prompts.reason, **seen, last=last_step(self.form, ranking=self.ranks))
        if name == "search":
            return render(self.prompts.search, **seen)
        return render(self.prompts.answer, **seen, form=ending(self.form))


async def _scores(
    critic: Critic, pairs: Sequence[Pair], candidates: Sequence[Candidate], run: Run
) -> list[float] | None:
    """The critic's scores, weighed where it was trained to do so; None if the context is too long for it."""
    try:
        scores = await run.score(critic, pairs)
    except ContextLengthExceeded as error:
        run.note("context full", step=critic.name, why=str(error))
        return None
    weigh = getattr(critic, "weigh", None)
    return scores if weigh is None else weigh(scores, [told(each) for each in candidates])


METHOD = CRPlanner
PRESETS = {
    "ranking": {"answer": "ranking"},
    "no_retrieval": {"retrieval": False},
}
