"""The actions of CR-Planner in each state (section 2.1, the spaces A_s and the transitions P).

Sub-goals follow a rule. Rationales and queries are sampled from the generator, all in one call. Documents are the
first k of a retrieval. A discarded candidate stays in the list with the reason, because critics learn from it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from reground.core.critic import Pair
from reground.core.errors import ContextLengthExceeded
from reground.core.language import Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.core.untrusted import clip, fence
from reground.critics import Kind
from reground.critics.simple import SENTENCES
from reground.methods.cr_planner.prompts import END, key, read_step
from reground.methods.cr_planner.states import (
    GOALS,
    NOTHING,
    Goal,
    Observation,
    Outcome,
    State,
    context,
    kind_of,
    legal,
    search_query,
)
from reground.methods.shared.evidence import find
from reground.text.queries import clean_query

if TYPE_CHECKING:
    from reground.core.evidence import Passage
    from reground.methods.cr_planner import CRPlanner

_FALLBACK = 64
"""Tokens of the last rationale that are used as the query if the generator wrote none."""


@dataclass(frozen=True)
class Option:
    """A candidate action and the state that it leads to; no state if the candidate is discarded.

    repeats: an earlier candidate with the same text, which is used in its place.
    """

    candidate: Candidate
    state: State | None = None
    repeats: Option | None = None


async def options(planner: CRPlanner, state: State, run: Run, *, without: frozenset[Goal]) -> list[Option]:
    """All options of the state. Sub-goals in `without` are discarded."""
    match state.goal:
        case None:
            return _goals(planner, state, without)
        case "REASON":
            prompt = planner.prompt("reason", state)
            replies = await _sample(planner, prompt, "reason", planner.longest_step, run, stop=(END,))
            steps = [read_step(reply.text, planner.answer_form) for reply in replies]
            return _distinct(replies, steps, state, "RATIONALE", before=state.rationales)
        case "GENQUERY":
            replies = await _sample(planner, planner.prompt("query", state), "query", planner.query_tokens, run)
            queries = [clean_query(reply.text, fallback="") for reply in replies]
            offered = _distinct(replies, queries, state, "QUERY", before=state.queries)
            is_usable = any(option.state is not None for option in offered)
            return offered if is_usable else [*offered, *_fallback(state, run)]
        case "RETRIEVE":
            return await _documents(planner, state, run)


def _goals(planner: CRPlanner, state: State, without: frozenset[Goal]) -> list[Option]:
    """f_rule: the legal sub-goals."""
    left = planner.max_steps - len(state.observations)
    allowed = legal(state, left=left, retrieval=planner.retrieval, mask=planner.mask)
    offered = []
    for goal in (*allowed, *(goal for goal in GOALS if goal not in allowed)):
        why = None if goal in allowed else "it cannot help here"
        why = "it brought nothing new here" if goal in without else why
        candidate = Candidate(text=SENTENCES[goal], discarded=why, data={"goal": goal, "stage": state.stage})
        offered.append(Option(candidate, None if why else state.after(Observation(goal, SENTENCES[goal]))))
    return offered


def _fallback(state: State, run: Run) -> list[Option]:
    """The last rationale as the query, or else the question, unless it was asked before."""
    asked = {key(query) for query in state.queries}
    for text in (*state.rationales[-1:], state.question):
        query = clip(" ".join(text.split()), _FALLBACK)
        if query and key(query) not in asked:
            run.note("query fell back", query=query, why="the generator wrote no usable one")
            candidate = Candidate(text=query, data={"fallback": True})
            return [Option(candidate, state.after(Observation("QUERY", query)))]
    return []


async def _documents(planner: CRPlanner, state: State, run: Run) -> list[Option]:
    """f_retr: the first documents that were not read yet, as many as are offered.

    For rankings, each retrieval is as deep as the last one, so that an early end still gives a whole ranking.
    """
    if planner.retriever is None:
        return []
    read = {passage.id for passage in state.passages}
    k = max(planner.offered + len(read), planner.ranked if planner.ranks else 1)
    offered: list[Option] = []
    fresh = 0
    for passage in await find(run, planner.retriever, search_query(state), k=k):
        why = "it was read before" if passage.id in read else None
        if why is None and fresh == planner.offered:
            break
        fresh += why is None
        text = shown_document(state, passage, tokens=planner.passage_tokens)
        candidate = Candidate(text=text, discarded=why, data={"passage": passage.id, "score": passage.score})
        following = state.after(Observation("DOC", passage.text, passage)) if why is None else None
        offered.append(Option(candidate, following))
    if not fresh:
        nothing = Candidate(text=NOTHING, data={"passage": None})
        offered.append(Option(nothing, state.after(Observation("DOC", NOTHING))))
    return offered


def shown_document(state: State, passage: Passage, *, tokens: int) -> str:
    """A document as a candidate: fenced, cut, and numbered as it would be cited."""
    return fence([passage], markers=[len(state.passages) + 1], tokens=tokens)


def judged(parent: State, child: State, *, tokens: int) -> tuple[Kind, Pair]:
    """Which critic chooses between a parent's children, and what it is shown for this one, in solving and in training.

    tokens: where documents are cut.
    """
    kind = kind_of(parent)
    last = child.observations[-1]
    text = last.text if last.passage is None else shown_document(parent, last.passage, tokens=tokens)
    return kind, Pair(context=context(parent, kind, tokens=tokens), candidate=text)


def told(candidate: Candidate) -> dict[str, JsonValue]:
    """What is known of a candidate besides its text, for critics, in solving and in training."""
    logprob = candidate.logprob
    return {**({} if logprob is None or not math.isfinite(logprob) else {"logprob": logprob}), **candidate.data}


async def _sample(
    planner: CRPlanner, prompt: str, name: str, most: int, run: Run, *, stop: tuple[str, ...] = ()
) -> list[Reply]:
    """Sample all candidates in one call; none if the prompt is too long for the model."""
    sampling = Sampling(
        n=planner.candidates, temperature=planner.temperature, max_tokens=most, stop=stop, logprobs=True
    )
    try:
        return await run.generate(planner.model, prompt, name=name, sampling=sampling, logprobs="welcome")
    except ContextLengthExceeded as error:
        run.note("context full", step=name, why=str(error))
        return []


def _distinct(
    replies: Sequence[Reply], texts: Sequence[str], state: State, stage: Outcome, *, before: Sequence[str]
) -> list[Option]:
    """Replies as options, in order. Empty and repeated ones are discarded.

    texts: what was read in each reply. stage: the observation that it makes. before: what was said before.
    """
    earlier = {key(text) for text in before}
    distinct: dict[str, Option] = {}
    offered = []
    for reply, text in zip(replies, texts, strict=True):
        why = None
        if not text:
            why = "it says nothing"
        elif key(text) in earlier:
            why = "it repeats what was said before"
        elif key(text) in distinct:
            why = "another candidate says the same"
        candidate = Candidate(
            text=text or reply.text,
            logprob=reply.mean_logprob,
            discarded=why,
            data={"finish_reason": reply.finish_reason},
        )
        option = Option(candidate, None if why else state.after(Observation(stage, text)), distinct.get(key(text)))
        if option.state is not None:
            distinct[key(text)] = option
        offered.append(option)
    return offered
