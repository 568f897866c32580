"""How CR-Planner ends: the complete answer as it was written, a forced one, or a ranking of documents."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from reground.core.answers import Answer, Citation, Thought
from reground.core.errors import ContextLengthExceeded
from reground.core.language import Sampling
from reground.methods.cr_planner.settings import Settings
from reground.methods.cr_planner.states import search_query
from reground.methods.shared.evidence import Evidence, clean_query, find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reground.core.evidence import Passage
    from reground.core.run import Run
    from reground.methods.cr_planner.states import State


async def forced(planner: Settings, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
    """One more call concludes (section 2.2, termination).

    What was reasoned last stands in for an empty reply, and for a call that is too long without any passage.
    """
    sampling = Sampling(temperature=temperature, max_tokens=planner.max_tokens)
    try:
        text = await _ask(planner, "answer", state, run, sampling)
    except ContextLengthExceeded as error:
        if not state.rationales:
            raise
        run.note("context full", step="answer", why=str(error), kept="the last step")
        return so_far(planner, state, run)
    if not text.strip():
        run.note("answer empty", kept="the last step")
        return so_far(planner, state, run)
    return answer_of(planner, state, text, run)


async def ranking(planner: Settings, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
    """The last retrieval (section 3.4), with the query that the reasoning ended in, or the one that was just chosen.

    Elsewhere the generator writes it from all that was observed. A query that brings nothing is replaced by the
    question.
    """
    query = planner.answer_form.extract(planner.complete(state)) or (state.queries[-1] if state.searching else "")
    if not query:
        sampling = Sampling(temperature=temperature, max_tokens=planner.query_tokens)
        try:
            query = clean_query(await _ask(planner, "search", state, run, sampling), fallback=state.question)
        except ContextLengthExceeded as error:
            query = search_query(state)
            run.note("context full", step="search", why=str(error), kept=query)
    found: Sequence[Passage] = ()
    for attempt in dict.fromkeys((query, state.question)):
        if planner.retriever is not None and not found:
            found = await find(run, planner.retriever, attempt, k=planner.ranked)
    return _listed(found, state)


async def _ask(planner: Settings, name: Literal["answer", "search"], state: State, run: Run, sampling: Sampling) -> str:
    """A call about everything observed; documents are cut by half as long as the prompt is too long for the model."""
    while True:
        prompt = planner.prompt(name, state)
        try:
            return await run.ask(planner.model, prompt, name=name, sampling=sampling)
        except ContextLengthExceeded as error:
            while planner.passage_tokens > 1 and planner.prompt(name, state) == prompt:
                planner = replace(planner, passage_tokens=planner.passage_tokens // 2)
            if planner.prompt(name, state) == prompt:
                raise
            run.note("context full", step=name, why=str(error), passage_tokens=planner.passage_tokens)


def so_far(planner: Settings, state: State, run: Run) -> Answer:
    """What could be given if everything ended here: the last step, or the documents read."""
    if planner.ranks:
        return _listed(state.passages, state)
    return answer_of(planner, state, "".join(state.rationales[-1:]), run)


def answer_of(planner: Settings, state: State, text: str, run: Run) -> Answer:
    """A text with its citations, and the reasoning as steps."""
    evidence = Evidence()
    evidence.add(state.passages)
    shown = range(1, len(evidence.passages) + 1)
    return evidence.answer(text, run, planner.form, shown=shown, steps=thoughts(state))


def _listed(found: Sequence[Passage], state: State) -> Answer:
    """Documents as an answer, one a line in their order; it cites what it lists."""
    lines = [f"{place}. {passage.title or passage.id}" for place, passage in enumerate(found, start=1)]
    citations = tuple(
        Citation(
            marker=place,
            passage_id=passage.id,
            title=passage.title,
            url=passage.url,
            quote=" ".join(passage.text.split())[:200],
        )
        for place, passage in enumerate(found, start=1)
    )
    return Answer(text="\n".join(lines), citations=citations, shown=citations, steps=thoughts(state))


def thoughts(state: State) -> tuple[Thought, ...]:
    """The rationales, each with the last query written for it and the documents found before the next one.

    What comes before the first rationale belongs to that.
    """
    groups = [_Group()]
    documents = 0
    for seen in state.observations:
        if seen.stage == "RATIONALE":
            if groups[-1].text:
                groups.append(_Group())
            groups[-1].text = seen.text
        elif seen.stage == "QUERY":
            groups[-1].query = seen.text
        elif seen.passage is not None:
            documents += 1
            groups[-1].citations.append(documents)
    return tuple(
        Thought(text=group.text, query=group.query, citations=tuple(group.citations)) for group in groups if group.text
    )


@dataclass
class _Group:
    """A rationale and what belongs to it, while they are collected."""

    text: str = ""
    query: str | None = None
    citations: list[int] = field(default_factory=list)
