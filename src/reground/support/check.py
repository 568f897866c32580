"""Ties each sentence of an answer to the sentence of a document that supports it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import ARTICLE, PHRASE, TEXT, Answer, AnswerForm, Citation, Sentence, opening
from reground.core.critic import Critic, Pair
from reground.core.errors import BudgetExceeded
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.core.trajectory import UNCHECKED, RetrieveStep, Step
from reground.support.lexical import Claim, Evidence, Lexical, claims, evidence

SUPPORTED = 0.5
"""The score from which on a claim counts as supported."""

Best = tuple[float, tuple[int, ...]]
"""A score, and the places of the sentences that have it."""

CANDIDATES = 6
"""Sentences for each claim that a check with a model compares: those with the highest lexical scores."""


def states(form: AnswerForm) -> bool:
    """Whether answers of a form are sentences or phrases, which documents can support."""
    return form.name in {TEXT.name, PHRASE.name, ARTICLE.name}


async def checked(
    answer: Answer,
    question: str,
    steps: Sequence[Step],
    run: Run,
    *,
    check: Critic | None = None,
    candidates: int = CANDIDATES,
    language: str = "en",
) -> Answer:
    """The answer with its `sentences`. An answer that was shown no passage stays as it is.

    steps: of the run that gave the answer; its passages are looked up there. check: scores a claim (the candidate)
    against a title and a sentence (the context) from 0 to 1, recorded and paid as a step `support` of the run; without
    one the words are compared (`compared`). candidates: the sentences that it compares with each claim. language: of
    the documents. If the budget ends during the check, the answer stays as it is too, and the run has a note
    `UNCHECKED` with the limit.
    """
    if check is None:
        return compared(answer, question, steps, language=language)
    comparison = await asyncio.to_thread(_compared, answer, question, steps, language)
    if comparison is None:
        return answer
    try:
        with run.span("support") as branch:
            best = await rescored(comparison.each, check, branch, candidates=candidates)
    except BudgetExceeded as end:
        run.note(UNCHECKED, limit=end.limit, why=str(end))
        return answer
    return _with_sentences(answer, comparison, best)


def compared(answer: Answer, question: str, steps: Sequence[Step], *, language: str = "en") -> Answer:
    """The answer with its `sentences`, whose words are compared with those of the passages (`Lexical`)."""
    comparison = _compared(answer, question, steps, language)
    if comparison is None:
        return answer
    return _with_sentences(answer, comparison, [each.best for each in comparison.each])


@dataclass(frozen=True)
class Compared:
    """A claim, and how well its words agree with each sentence that `lexical` compares it with."""

    claim: Claim
    lexical: Lexical
    scores: Sequence[float]

    @property
    def best(self) -> Best:
        """What words say: the best sentence, or two that support it together."""
        return self.lexical.together(self.claim, self.scores)

    def nearest(self, most: int) -> list[tuple[int, ...]]:
        """The sentences whose words come nearest, best first, and two that come nearer together than any alone."""
        ranked = sorted(range(len(self.scores)), key=lambda at: -self.scores[at])
        _, places = self.best
        return [*((at,) for at in ranked[:most]), *([places] if len(places) > 1 else [])]


@dataclass(frozen=True)
class _Compared:
    """The claims of an answer, the sentences of its passages, and the passages' markers."""

    each: Sequence[Compared]
    units: Sequence[Evidence]
    markers: Sequence[int]


def _compared(answer: Answer, question: str, steps: Sequence[Step], language: str) -> _Compared | None:
    passages = _shown(answer, steps)
    if not passages:
        return None
    markers = [marker for marker, _ in passages]
    parts = claims(answer.text, question)
    units = evidence([passage for _, passage in passages])
    lexical = Lexical(units, language=language)
    scored = [Compared(each, lexical, lexical.scores(each) if each.said else []) for each in parts]
    return _Compared(scored, units, markers)


def _with_sentences(answer: Answer, comparison: _Compared, best: Sequence[Best]) -> Answer:
    sentences = (
        _sentence(each.claim, comparison.units, one, comparison.markers)
        for each, one in zip(comparison.each, best, strict=True)
    )
    return answer.model_copy(update={"sentences": tuple(sentences)})


def _shown(answer: Answer, steps: Sequence[Step]) -> list[tuple[int, Passage]]:
    """The passages that the answer was written from, with their markers."""
    retrieved: dict[str, list[Passage]] = {}
    for step in steps:
        for each in step.passages if isinstance(step, RetrieveStep) else ():
            retrieved.setdefault(each.id, []).append(each)
    cited = {each.passage_id: each for each in (*answer.citations, *answer.shown)}
    return [(each.marker, _as_quoted(retrieved[id_], each.quote)) for id_, each in cited.items() if id_ in retrieved]


def _as_quoted(texts: Sequence[Passage], quote: str) -> Passage:
    """The text that a citation quotes: a page of the web has another excerpt for each query that found it."""
    return next((each for each in texts if opening(each) == quote), texts[-1])


def _sentence(claim: Claim, units: Sequence[Evidence], best: Best, markers: Sequence[int]) -> Sentence:
    """A claim with the sentences that support it."""
    if not claim.said:
        return Sentence(text=claim.text)
    score, places = best
    quotes = (_quoted(units[place], markers[units[place].place]) for place in places)
    return Sentence(text=claim.text, score=score, supports=tuple(quotes) if score >= SUPPORTED else ())


def _quoted(unit: Evidence, marker: int) -> Citation:
    return Citation.of(marker, unit.passage, unit.sentence)


async def rescored(
    comparisons: Sequence[Compared], check: Critic, run: Run, *, candidates: int = CANDIDATES
) -> list[Best]:
    """For each claim the best of the sentences whose words come nearest, as a check with a model scores them.

    One call scores them all, and what the answer repeats is scored once. Raises BudgetExceeded, and what the check
    raises.
    """
    places = [(number, place) for number, each in enumerate(comparisons) for place in each.nearest(candidates)]
    pairs = [
        Pair(context=_read(comparisons[number].lexical.found, place), candidate=_stated(comparisons[number].claim))
        for number, place in places
    ]
    unlike = list(dict.fromkeys(pairs))
    scores = dict(zip(unlike, await run.score(check, unlike, name="support") if unlike else [], strict=True))
    best: list[Best] = [(0.0, ())] * len(comparisons)
    for (number, place), pair in zip(places, pairs, strict=True):
        if (score := scores[pair]) > best[number][0]:
            best[number] = score, place
    return best


def _read(units: Sequence[Evidence], places: Sequence[int]) -> str:
    """Sentences as a check reads them: a title's line before each."""
    return "\n".join(f"{' '.join(units[at].passage.title.split())}\n{units[at].sentence}" for at in places)


def _stated(claim: Claim) -> str:
    return f"{claim.asked} {claim.said}" if claim.alone else claim.said
