"""Ties each sentence of an answer to the sentence of a document that supports it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import ARTICLE, PHRASE, TEXT, Answer, AnswerForm, Citation, Sentence, opening
from reground.core.errors import BudgetExceeded
from reground.core.evidence import Passage
from reground.core.run import Critic, Run
from reground.core.trajectory import UNCHECKED, Pair, RetrieveStep, Step
from reground.support.lexical import SUPPORTED, Claim, Lexical, claims
from reground.support.units import evidence
from reground.text.quotations import copied

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
            best = await rescored(comparison[0], check, branch, candidates=candidates)
    except BudgetExceeded as end:
        run.note(UNCHECKED, limit=end.limit, why=str(end))
        return answer
    return _with_sentences(answer, *comparison, best)


def compared(answer: Answer, question: str, steps: Sequence[Step], *, language: str = "en") -> Answer:
    """The answer with its `sentences`, whose words are compared with those of the passages (`Lexical`)."""
    comparison = _compared(answer, question, steps, language)
    if comparison is None:
        return answer
    return _with_sentences(answer, *comparison, [each.best for each in comparison[0]])


@dataclass(frozen=True)
class Compared:
    """A claim, and how well its words agree with each sentence that `lexical` compares it with.

    copies: the places of the sentences that the model copied before it answered.
    """

    claim: Claim
    lexical: Lexical
    scores: Sequence[float]
    copies: tuple[int, ...] = ()

    @property
    def best(self) -> Best:
        """What words say: a copied sentence that supports the claim, else the best one, or two together.

        A bare answer has to be in what was copied: a wrong one stands among the question's words in some other sentence
        much more often (docs/reproduction/support.md).
        """
        copied: list[Best] = [(self.scores[at], (at,)) for at in self.copies if self.scores]
        best = max(copied, default=(0.0, ()))
        is_certain = best[0] >= SUPPORTED or (self.claim.alone and copied)
        return best if is_certain else self.lexical.together(self.claim, self.scores)

    def nearest(self, most: int) -> list[tuple[int, ...]]:
        """The sentences whose words come nearest, best first, and two that come nearer together than any alone."""
        ranked = sorted(range(len(self.scores)), key=lambda at: -self.scores[at])
        _, places = self.best
        return [*((at,) for at in ranked[:most]), *([places] if len(places) > 1 else [])]


def _compared(
    answer: Answer, question: str, steps: Sequence[Step], language: str
) -> tuple[list[Compared], list[int]] | None:
    """The claims of an answer, compared, and the markers of its passages; None where it was shown no passage."""
    retrieved: dict[str, list[Passage]] = {}
    for step in steps:
        for each in step.passages if isinstance(step, RetrieveStep) else ():
            retrieved.setdefault(each.id, []).append(each)
    by_passage = {each.passage_id: each for each in (*answer.citations, *answer.shown)}
    cited = [each for each in by_passage.values() if each.passage_id in retrieved]
    if not cited:
        return None
    # A page of the web has another excerpt for each query that found it: the one that the citation quotes was read.
    texts = [(retrieved[each.passage_id], each.quote) for each in cited]
    read = [next((text for text in found if opening(text) == quote), found[-1]) for found, quote in texts]
    lexical = Lexical(evidence(read), language=language)
    copies = tuple(
        at
        for at, unit in enumerate(lexical.sentences)
        for each in answer.quoted
        if unit.passage.id == each.passage_id
        and (copied(each.quote, unit.sentence) or copied(unit.sentence, each.quote))
    )
    parts = claims(answer.text, question)
    scored = [Compared(each, lexical, lexical.scores(each) if each.statement else [], copies) for each in parts]
    return scored, [each.marker for each in cited]


def _with_sentences(answer: Answer, parts: Sequence[Compared], markers: Sequence[int], best: Sequence[Best]) -> Answer:
    sentences = []
    for each, (score, places) in zip(parts, best, strict=True):
        units = [each.lexical.sentences[place] for place in places if score >= SUPPORTED]
        quotes = tuple(Citation.of(markers[unit.place], unit.passage, unit.sentence) for unit in units)
        sentences.append(Sentence(text=each.claim.text, score=score if each.claim.statement else None, supports=quotes))
    return answer.model_copy(update={"sentences": tuple(sentences)})


async def rescored(
    comparisons: Sequence[Compared], check: Critic, run: Run, *, candidates: int = CANDIDATES
) -> list[Best]:
    """For each claim the best of the sentences whose words come nearest, as a check with a model scores them.

    It reads the sentences with a title's line before each. One call scores them all, and what the answer repeats is
    scored once. Raises BudgetExceeded, and what the check raises.
    """
    places = [(number, place) for number, each in enumerate(comparisons) for place in each.nearest(candidates)]
    pairs = []
    for number, place in places:
        claim, units = comparisons[number].claim, [comparisons[number].lexical.sentences[at] for at in place]
        read = "\n".join(f"{' '.join(unit.passage.title.split())}\n{unit.sentence}" for unit in units)
        text = f"{claim.question} {claim.statement}" if claim.alone else claim.statement
        pairs.append(Pair(context=read, candidate=text))
    unlike = list(dict.fromkeys(pairs))
    scores = dict(zip(unlike, await run.score(check, unlike, name="support") if unlike else [], strict=True))
    best: list[Best] = [(0.0, ())] * len(comparisons)
    for (number, place), pair in zip(places, pairs, strict=True):
        if (score := scores[pair]) > best[number][0]:
            best[number] = score, place
    return best
