"""The decision process of CR-Planner (section 2.1 and table 6): states, legal sub-goals, and what each critic sees.

A state is the sequence of observations so far, and is named after the last one. Everything here is pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from reground.core.evidence import Passage
from reground.core.untrusted import fence
from reground.critics import Kind
from reground.methods.shared.prompts import CAVEAT

Goal = Literal["REASON", "GENQUERY", "RETRIEVE"]
Outcome = Literal["RATIONALE", "QUERY", "DOC"]
Stage: TypeAlias = Goal | Outcome
Mask = Literal["useful", "paper"]

GOALS: tuple[Goal, ...] = ("REASON", "GENQUERY", "RETRIEVE")
JUDGES: dict[Goal, Kind] = {"REASON": "rationale", "GENQUERY": "query", "RETRIEVE": "doc"}
NOTHING = "Nothing new was found."
"""The observation of a retrieval that found no new document."""


@dataclass(frozen=True)
class Observation:
    """The result of an action. A DOC without a passage means that nothing was found."""

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
        """The sub-goal to execute next; None if one has to be chosen first."""
        return next((goal for goal in GOALS if goal == self.stage), None)

    @property
    def rationales(self) -> tuple[str, ...]:
        """The reasoning so far."""
        return tuple(each.text for each in self.observations if each.stage == "RATIONALE")

    @property
    def queries(self) -> tuple[str, ...]:
        """Every query so far."""
        return tuple(each.text for each in self.observations if each.stage == "QUERY")

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Every document so far; the i-th is cited as [i]."""
        return tuple(each.passage for each in self.observations if each.passage is not None)

    @property
    def searching(self) -> bool:
        """Whether the last observation is a query, or the sub-goal to look it up."""
        return self.stage == "QUERY" or (self.stage == "RETRIEVE" and self.waiting)

    @property
    def waiting(self) -> bool:
        """Whether the last query has not been looked up yet."""
        stages = [each.stage for each in self.observations if each.stage in {"QUERY", "DOC"}]
        return stages[-1:] == ["QUERY"]


def legal(state: State, *, remaining: int, retrieval: bool = True, mask: Mask = "useful") -> tuple[Goal, ...]:
    """The sub-goals that may be chosen, the usual one first: reason, query, retrieve, and reason again.

    remaining: the number of observations left; a sub-goal and its execution take two.
    mask: "paper" allows every sub-goal in every state (table 6). "useful" leaves out those that cannot help: a
    retrieval without an unused query, a query directly after an unused query, and a query that no retrieval can follow.
    """
    if state.goal is not None or remaining < 2:
        return ()
    if not retrieval:
        return ("REASON",)
    usual: Goal = "REASON"
    if state.stage in ("QUERY", "RATIONALE"):
        usual = "RETRIEVE" if state.stage == "QUERY" else "GENQUERY"
    ordered = (usual, *(goal for goal in GOALS if goal != usual))
    if mask == "paper":
        return ordered
    useful = {"REASON": True, "GENQUERY": state.stage != "QUERY" and remaining >= 4, "RETRIEVE": state.waiting}
    return tuple(goal for goal in ordered if useful[goal])


def history(state: State, *, tokens: int, goals: bool = True) -> str:
    """All observations in order, so that a longer history begins with the shorter one.

    tokens: maximum length of a document. Documents are fenced and numbered as they are cited.
    goals: whether sub-goals are shown. The critic needs them: a chosen sub-goal is all that its state adds to the one
    before.
    """
    parts: list[str] = []
    steps = documents = 0
    for observation in state.observations:
        if observation.stage == "RATIONALE":
            steps += 1
            parts.append(f"Step {steps}: {observation.text}")
        elif observation.stage == "QUERY":
            parts.append(f"Search query: {observation.text}")
        elif observation.passage is not None:
            documents += 1
            parts.append(fence([observation.passage], markers=[documents], tokens=tokens))
        elif observation.stage == "DOC":
            parts.append(NOTHING)
        elif goals:
            parts.append(observation.text)
    return "\n\n".join(parts)


def kind_of(state: State) -> Kind:
    """Which critic chooses what follows a state (equation 2)."""
    return "subgoal" if state.goal is None else JUDGES[state.goal]


def context(state: State, kind: Kind, *, tokens: int) -> str:
    """The text that a critic sees besides the candidate, in solving and in training (section 2.3).

    All critics see the question. The sub-goal critic also sees all observations, earlier sub-goals included; the
    rationale critic the earlier rationales; the query critic the last rationale; the document critic the last rationale
    and query.
    """
    parts = [f"Question:\n{state.question}"]
    if kind == "subgoal":
        parts += [CAVEAT] if state.passages else []
        parts.append(f"Work so far:\n{history(state, tokens=tokens) or '(none)'}")
    elif kind == "rationale":
        steps = [f"Step {number}: {text}" for number, text in enumerate(state.rationales, start=1)]
        parts.append("Reasoning so far:\n" + ("\n\n".join(steps) or "(none)"))
    else:
        parts.append("Step of reasoning:\n" + (state.rationales[-1] if state.rationales else "(none)"))
    if kind == "doc":
        parts += [f"Search query: {search_query(state)}", CAVEAT]
    return "\n\n".join(parts)


def search_query(state: State) -> str:
    """The query of a retrieval: the last one written, or the question if there is none."""
    return state.queries[-1] if state.queries else state.question
