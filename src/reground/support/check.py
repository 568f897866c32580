"""Ties each sentence of an answer to the sentence of a document that supports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import PHRASE, TEXT, Answer, AnswerForm, Citation, Sentence
from reground.core.evidence import Passage
from reground.core.pairs import Pair, Scorer
from reground.core.run import Run
from reground.core.trajectory import RetrieveStep, Step
from reground.support.claims import Claim, claims
from reground.support.lexical import Evidence, Lexical, evidence

SUPPORTED = 0.5
"""The score from which on a claim counts as supported."""

Best = tuple[float, tuple[int, ...]]
"""A score, and the places of the sentences that have it."""

_CANDIDATES = 6
"""Sentences for each claim that a check with a model compares: those with the highest lexical scores."""


def states(form: AnswerForm) -> bool:
    """Whether answers of a form are sentences or phrases, which documents can support."""
    return form.name in {TEXT.name, PHRASE.name}


async def checked(
    answer: Answer,
    question: str,
    steps: Sequence[Step],
    run: Run,
    *,
    check: Scorer | None = None,
    language: str = "en",
) -> Answer:
    """The answer with its `sentences`. An answer that was shown no passage stays as it is.

    steps: of the run that gave the answer; its passages are looked up there. check: scores a claim (the candidate)
    against a title and a sentence (the context) from 0 to 1, recorded and paid as a step `support` of the run; without
    one the words are compared (`compared`). language: of the documents.
    """
    if check is None:
        return compared(answer, question, steps, language=language)
    found = _compared(answer, question, steps, language)
    if found is None:
        return answer
    best = await _rescored(found.claims, found.units, found.scores, check, run)
    return _with_sentences(answer, found, best)


def compared(answer: Answer, question: str, steps: Sequence[Step], *, language: str = "en") -> Answer:
    """The answer with its `sentences`, whose words are compared with those of the passages (`Lexical`)."""
    found = _compared(answer, question, steps, language)
    if found is None:
        return answer
    best = [found.lexical.together(claim, each) for claim, each in zip(found.claims, found.scores, strict=True)]
    return _with_sentences(answer, found, best)


@dataclass(frozen=True)
class _Compared:
    """The claims of an answer, the sentences of its passages, and how well their words agree."""

    claims: Sequence[Claim]
    units: Sequence[Evidence]
    markers: Sequence[int]
    lexical: Lexical
    scores: Sequence[Sequence[float]]


def _compared(answer: Answer, question: str, steps: Sequence[Step], language: str) -> _Compared | None:
    shown = _shown(answer, steps)
    if not shown:
        return None
    markers = [marker for marker, _ in shown]
    found = claims(answer.text, question, passages=max(markers))
    units = evidence([passage for _, passage in shown])
    lexical = Lexical(units, language=language)
    return _Compared(found, units, markers, lexical, [lexical.scores(each) if each.said else [] for each in found])


def _with_sentences(answer: Answer, found: _Compared, best: Sequence[Best]) -> Answer:
    said = (_sentence(claim, found.units, each, found.markers) for claim, each in zip(found.claims, best, strict=True))
    return answer.model_copy(update={"sentences": tuple(said)})


def _shown(answer: Answer, steps: Sequence[Step]) -> list[tuple[int, Passage]]:
    """The passages that the answer was written from, with their markers."""
    passages = {each.id: each for step in steps if isinstance(step, RetrieveStep) for each in step.passages}
    cited = {each.passage_id: each.marker for each in (*answer.citations, *answer.shown)}
    return [(marker, passages[id_]) for id_, marker in cited.items() if id_ in passages]


def _sentence(claim: Claim, units: Sequence[Evidence], best: Best, markers: Sequence[int]) -> Sentence:
    """A claim with the sentences that support it."""
    if not claim.said:
        return Sentence(text=claim.text)
    score, places = best
    quotes = (_quoted(units[place], markers[units[place].place]) for place in places)
    return Sentence(text=claim.text, score=score, supports=tuple(quotes) if score >= SUPPORTED else ())


def _quoted(unit: Evidence, marker: int) -> Citation:
    passage = unit.passage
    quote = " ".join(unit.sentence.split())
    return Citation(marker=marker, passage_id=passage.id, title=passage.title, url=passage.url, quote=quote)


async def _rescored(
    found: Sequence[Claim], units: Sequence[Evidence], scores: Sequence[Sequence[float]], check: Scorer, run: Run
) -> list[Best]:
    """For each claim the best of its likeliest sentences, as a check with a model scores them."""
    places = [
        (number, at)
        for number, each in enumerate(scores)
        for at in sorted(range(len(each)), key=lambda at: -each[at])[:_CANDIDATES]
    ]
    pairs = [
        Pair(context=f"{units[at].passage.title}\n{units[at].sentence}", candidate=_stated(found[number]))
        for number, at in places
    ]
    given = await run.score(check, pairs, name="support") if pairs else []
    best: list[Best] = [(0.0, ())] * len(found)
    for (number, at), score in zip(places, given, strict=True):
        if score > best[number][0]:
            best[number] = score, (at,)
    return best


def _stated(claim: Claim) -> str:
    return f"{claim.asked} {claim.said}" if claim.alone else claim.said
