"""CR-Planner: critics choose whether to reason, write a query or retrieve, and the best of several ways to do it.

"Can We Further Elicit Reasoning in LLMs? Critic-Guided Planning with Retrieval-Augmentation for Solving Challenging
Tasks", sections 2.1 and 2.2, appendices A.1 and C. Solving is a walk through the decision process of `states.py`. In
every state, that state's critic chooses the action with the highest expected reward (equations 1 and 2). The walk ends
when a rationale holds the complete answer, or after T observations, when the answer is forced. The paper gives no T.
Its critics are trained; here the default critic is a prompted model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reground.core.answers import Answer
from reground.core.critic import Critic, Pair
from reground.core.errors import ContextLengthExceeded
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.cr_planner import endings
from reground.methods.cr_planner.actions import Option, judged, options, told
from reground.methods.cr_planner.prompts import Prompts as Prompts
from reground.methods.cr_planner.settings import Settings
from reground.methods.cr_planner.states import Goal, State, context, kind_of, legal, onward

LADDER = ((1, 6), (2, 6), (3, 6), (3, 8), (3, 10), (3, 12), (3, 16))
"""Sizes: candidates per choice, and observations. Six observations are one of each sub-goal with its execution."""


@dataclass(frozen=True, kw_only=True)
class CRPlanner(Settings):
    """Planning by critics."""

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        return run.propose(await self.finish(await self.walk(State(question), run), run))

    async def walk(self, state: State, run: Run) -> State:
        """Choose sub-goals and execute them until the end. Returns the last state."""
        barren: frozenset[Goal] = frozenset()
        with run.keeping(lambda: self.prompt(self.last_call, state), reply=self._last_reply):
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
                if (so_far := endings.so_far(self, state, run)).text:
                    run.propose(so_far)
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
            return await endings.ranking(self, state, run, temperature=temperature)
        if complete := self.complete(state):
            return endings.answer_of(self, state, complete, run)
        return await endings.forced(self, state, run, temperature=temperature)

    def sizes(self) -> Sequence[CRPlanner]:
        """More candidates for each choice, then more steps."""
        return [replace(self, candidates=candidates, max_steps=steps) for candidates, steps in LADDER]

    @property
    def _last_reply(self) -> int:
        """Tokens of the concluding call's reply: a query, or an answer."""
        return self.query_tokens if self.ranks else self.form.usual


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
