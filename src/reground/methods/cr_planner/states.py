"""The decision process of CR-Planner (section 2.1 and table 6): states, legal sub-goals, and what each critic sees.

A state is what was observed so far, and is named after the last observation. Everything here is pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from reground.core.evidence import Passage
from reground.core.untrusted import fence
from reground.critics import Kind
from reground.methods.shared.prompts import QUOTED

Goal = Literal["REASON", "GENQUERY", "RETRIEVE"]
Outcome = Literal["RATIONALE", "QUERY", "DOC"]
Stage: TypeAlias = Goal | Outcome
Mask = Literal["useful", "paper"]

GOALS: tuple[Goal, ...] = ("REASON", "GENQUERY", "RETRIEVE")
YIELDS: dict[Goal, Outcome] = {"REASON": "RATIONALE", "GENQUERY": "QUERY", "RETRIEVE": "DOC"}
JUDGES: dict[Goal, Kind] = {"REASON": "rationale", "GENQUERY": "query", "RETRIEVE": "doc"}
SAYS: dict[Goal, str] = {
    "REASON": "The next step is to reason: write one more step of the reasoning.",
    "GENQUERY": "The next step is to write a search query for what the reasoning needs.",
    "RETRIEVE": "The next step is to look up documents with the search query.",
}
"""A sub-goal's observation is a sentence that is always the same (equation 3, f_rule)."""

NOTHING = "Nothing new was found."
"""The observation of a retrieval that brought nothing."""


@dataclass(frozen=True)
class Observation:
    """What was observed after an action; a document comes with its passage, and without one nothing was found."""

    stage: Stage
    text: str
    passage: Passage | None = None


@dataclass(frozen=True)
class State:
    """The question and every observation so far."""

    question: str
    observations: tuple[Observation, ...] = ()

    def after(self, observation: Observation) -> State:
        """The state that follows."""
        return State(self.question, (*self.observations, observation))

    @property
    def stage(self) -> Stage | Literal["ROOT"]:
        """The last observation's stage, which is the state's name."""
        return self.observations[-1].stage if self.observations else "ROOT"

    @property
    def goal(self) -> Goal | None:
        """The sub-goal that waits to be executed; None where the next one is to be chosen."""
        stage = self.stage
        return stage if stage == "REASON" or stage == "GENQUERY" or stage == "RETRIEVE" else None

    @property
    def rationales(self) -> tuple[str, ...]:
        """The reasoning so far."""
        return tuple(seen.text for seen in self.observations if seen.stage == "RATIONALE")

    @property
    def queries(self) -> tuple[str, ...]:
        """Every query so far."""
        return tuple(seen.text for seen in self.observations if seen.stage == "QUERY")

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Every document so far; the i-th is cited as [i]."""
        return tuple(seen.passage for seen in self.observations if seen.passage is not None)

    @property
    def searching(self) -> bool:
        """Whether the last observation is a query or the sub-goal to look it up: what is looked for is settled."""
        return self.stage == "QUERY" or (self.stage == "RETRIEVE" and self.waiting)

    @property
    def waiting(self) -> bool:
        """Whether the last query has not been used for a retrieval yet."""
        stages = [seen.stage for seen in self.observations if seen.stage in {"QUERY", "DOC"}]
        return stages[-1:] == ["QUERY"]


def legal(state: State, *, left: int, retrieval: bool = True, mask: Mask = "useful") -> tuple[Goal, ...]:
    """The sub-goals that may be chosen, the usual one first: reason, query, retrieve, and round again.

    left: how many observations may still be made; a sub-goal and its execution take two. Table 6 allows every sub-goal
    in every state ("paper"). "useful" takes away those that cannot help: to retrieve without an unused query, to write
    a query while the last one is still unused and nothing was reasoned since, and to write one that no retrieval can
    follow.
    """
    if state.goal is not None or left < 2:
        return ()
    if not retrieval:
        return ("REASON",)
    usual = _usual(state)
    ordered = (usual, *(goal for goal in GOALS if goal != usual))
    if mask == "paper":
        return ordered
    useful = {
        "REASON": True,
        "GENQUERY": state.stage != "QUERY" and left >= 4,
        "RETRIEVE": state.waiting,
    }
    return tuple(goal for goal in ordered if useful[goal])


def onward(state: State, following: State | None, barren: frozenset[Goal]) -> tuple[State, frozenset[Goal]]:
    """The state where planning continues, and the sub-goals that failed there.

    following: the chosen state; None if no execution of the state's sub-goal is possible, because all candidates
    repeat earlier steps. Planning then returns to the choice of the sub-goal and chooses another.
    """
    if following is None and state.goal is not None:
        return State(state.question, state.observations[:-1]), barren | {state.goal}
    return following or state, barren if state.goal is None else frozenset()


def _usual(state: State) -> Goal:
    if state.stage == "QUERY":
        return "RETRIEVE"
    return "GENQUERY" if state.stage == "RATIONALE" else "REASON"


def history(state: State, *, tokens: int, goals: bool = True) -> str:
    """Everything observed, in the order of events so that a longer history begins with the shorter.

    Documents are fenced, numbered as they are cited, and cut to `tokens` tokens each. goals: whether sub-goals are
    shown. They are observations too: a state that waits for its sub-goal to be executed differs from the one before by
    that alone.
    """
    parts: list[str] = []
    steps = documents = 0
    for seen in state.observations:
        if seen.stage == "RATIONALE":
            steps += 1
            parts.append(f"Step {steps}: {seen.text}")
        elif seen.stage == "QUERY":
            parts.append(f"Search query: {seen.text}")
        elif seen.passage is not None:
            documents += 1
            parts.append(fence([seen.passage], markers=[documents], tokens=tokens))
        elif seen.stage == "DOC":
            parts.append(NOTHING)
        elif goals:
            parts.append(seen.text)
    return "\n\n".join(parts)


def kind_of(state: State) -> Kind:
    """Which critic chooses what follows a state (equation 2)."""
    return "subgoal" if state.goal is None else JUDGES[state.goal]


def context(state: State, kind: Kind, *, tokens: int) -> str:
    """What a critic sees besides the candidate, and what it is trained on (section 2.3).

    The sub-goal critic sees all observations, earlier sub-goals among them; the rationale critic the earlier
    rationales; the query critic the last rationale; the document critic the last rationale and query. All see the
    question, which is the root of every state.
    """
    parts = [f"Question:\n{state.question}"]
    if kind == "subgoal":
        parts += [QUOTED] if state.passages else []
        parts.append(f"Work so far:\n{history(state, tokens=tokens) or '(none)'}")
    elif kind == "rationale":
        steps = [f"Step {number}: {text}" for number, text in enumerate(state.rationales, start=1)]
        parts.append("Reasoning so far:\n" + ("\n\n".join(steps) or "(none)"))
    else:
        parts.append("Step of reasoning:\n" + (state.rationales[-1] if state.rationales else "(none)"))
    if kind == "doc":
        parts += [f"Search query: {search_query(state)}", QUOTED]
    return "\n\n".join(parts)


def search_query(state: State) -> str:
    """What a retrieval searches for: the last query, and the question where there is none."""
    return state.queries[-1] if state.queries else state.question
