"""How CR-Planner ends: the complete answer as it was written, a forced one, or a ranking of documents."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from reground.core.answers import Answer, Thought
from reground.core.errors import ContextLengthExceeded
from reground.core.language import Sampling
from reground.methods.cr_planner.settings import Settings
from reground.methods.cr_planner.states import search_query
from reground.methods.shared.evidence import Evidence, citation, find
from reground.text.queries import clean_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reground.core.evidence import Passage
    from reground.core.run import Run
    from reground.methods.cr_planner.states import State


async def forced(planner: Settings, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
    """Conclude with one more call (section 2.2, termination).

    The last step is the answer if the reply is empty, or if the prompt is too long even without documents.
    """
    sampling = Sampling(temperature=temperature, max_tokens=planner.max_tokens)
    try:
        text = await _ask(planner, planner.last_call, state, run, sampling)
    except ContextLengthExceeded as error:
        if not state.rationales:
            raise
        run.note("context full", step=planner.last_call, why=str(error), kept="the last step")
        return so_far(planner, state, run)
    if not text.strip():
        run.note("answer empty", kept="the last step")
        return so_far(planner, state, run)
    return answer_of(planner, state, text, run)


async def ranking(planner: Settings, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
    """The last retrieval (section 3.4), with the query that the reasoning ended in, or the one just chosen.

    Without either, the generator writes the query from all observations. If a query finds nothing, the question is
    searched.
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


async def _ask(
    planner: Settings, name: Literal["answer", "documents", "search"], state: State, run: Run, sampling: Sampling
) -> str:
    """A concluding call. While its prompt is too long for the model, documents are halved."""
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
    """The answer if everything ended here: the last step, or the documents read."""
    if planner.ranks:
        return _listed(state.passages, state)
    return answer_of(planner, state, "".join(state.rationales[-1:]), run)


def answer_of(planner: Settings, state: State, text: str, run: Run) -> Answer:
    """A text as the answer, with its citations, and the reasoning as steps."""
    evidence = Evidence()
    evidence.add(state.passages)
    shown = range(1, len(evidence.passages) + 1)
    return evidence.answer(text, run, planner.form, shown=shown, steps=thoughts(state))


def _listed(found: Sequence[Passage], state: State) -> Answer:
    """Documents as an answer that cites them: one per line, in order."""
    lines = [f"{place}. {passage.title or passage.id}" for place, passage in enumerate(found, start=1)]
    citations = tuple(citation(place, passage) for place, passage in enumerate(found, start=1))
    return Answer(text="\n".join(lines), citations=citations, shown=citations, steps=thoughts(state))


def thoughts(state: State) -> tuple[Thought, ...]:
    """The rationales, each with its last query and the documents found before the next rationale.

    Anything before the first rationale belongs to the first.
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
    """A rationale with its query and documents, while they are collected."""

    text: str = ""
    query: str | None = None
    citations: list[int] = field(default_factory=list)
