"""Checks an answer that anybody wrote: searches for each of its claims, and says what the documents say of it.

What the answer cites is a hint only. Each claim is searched for twice: as it stands, and with what it stands under.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from reground.core.answers import Citation
from reground.core.concurrency import gather, in_daemon
from reground.core.errors import ConfigurationError
from reground.core.evidence import Pages, Passage, Retriever
from reground.core.run import Critic, Run
from reground.support.check import CANDIDATES, Best, Compared, rescored
from reground.support.lexical import SUPPORTED, Claim, Lexical
from reground.support.stated import listed, names_page, stated
from reground.support.units import evidence

MOST_CLAIMS, MOST_CHARACTERS = 2_000, 300_000
"""The largest answer that is checked."""
_CLEARLY = 0.1  # how much better a sentence has to agree that says otherwise than the one that supports a claim
_AT_ONCE = 8  # claims that are searched for and compared at the same time


class Verdict(StrEnum):
    """What the documents say of a claim.

    supported: they say it. cited elsewhere: they say it, but not where the answer says so. contradicted: of the same
    subject they say another number, name or date, or the opposite. not found: they say nothing of the kind.
    no claim: the part claims nothing: a heading, a question, the head of a table.
    """

    SUPPORTED = "supported"
    ELSEWHERE = "cited elsewhere"
    CONTRADICTED = "contradicted"
    NOT_FOUND = "not found"
    NO_CLAIM = "no claim"


@dataclass(frozen=True)
class Checked:
    """A part of an answer, and what the documents say of it. The texts of all parts, joined, are the answer.

    text: as it stands, with the white space around it. statement: what it claims, without markup and markers; empty if
    it claims nothing. score: how far the documents support it, from 0 to 1; None if it claims nothing. evidence: the
    quotes that support it, or the one that says otherwise; a quote's marker numbers the passages of the whole check.
    difference: of a contradicted claim, what it says and what the document says, for example ("1887", "1889"). cites:
    what the answer itself cites there, as it is written: markers, links, names of files. found: the passages that were
    compared, best first.
    """

    text: str
    verdict: Verdict
    statement: str = ""
    score: float | None = None
    evidence: tuple[Citation, ...] = ()
    difference: tuple[str, str] | None = None
    cites: tuple[str, ...] = ()
    found: tuple[Passage, ...] = ()


async def verdicts(
    answer: str,
    retriever: Retriever,
    *,
    question: str = "",
    k: int = 5,
    language: str = "en",
    judge: Critic | None = None,
    candidates: int = CANDIDATES,
    run: Run | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Checked]:
    """What the documents say of each part of an answer.

    question: the one that it answers, if it is known. k: passages of each search. language: of the documents, a code or
    an English name. judge: decides in place of words which sentences support a claim, among the `candidates` whose
    words come nearest. run: records the searches and what the judge costs. progress: is told how many of the claims
    have been compared, and their number. Raises ConfigurationError for an answer that is too long, and what the
    retriever and the judge raise.
    """
    is_short = len(answer) <= MOST_CHARACTERS
    parts = await in_daemon(partial(stated, answer, question), name="claims") if is_short else []
    asked = [replace(each, text="", cites=()) for each in parts]  # what an answer repeats is searched for once
    unlike = list(dict.fromkeys(each for each in asked if each.statement))
    if not is_short or len(unlike) > MOST_CLAIMS:
        size = f"{len(answer):,} characters" if not is_short else f"{len(unlike):,} claims"
        most = f"at most {MOST_CHARACTERS:,} characters and {MOST_CLAIMS:,} claims are checked"
        raise ConfigurationError(f"the answer has {size}, and {most}: check it in parts")
    run = run or Run()
    slots, done = asyncio.Semaphore(_AT_ONCE), 0

    async def compared(claim: Claim, branch: Run) -> Compared:
        nonlocal done
        async with slots:
            queries = dict.fromkeys((claim.statement, f"{claim.context} {claim.statement}".strip()))
            results = [await branch.retrieve(retriever, query, k=k) for query in queries]
            found = {passage.id: passage for passages in results for passage in passages}
            comparison = await asyncio.to_thread(_compared, claim, [*found.values()], language)
        done += 1
        if progress is not None:
            progress(done, len(unlike))
        return comparison

    comparisons = await gather(*(compared(each, run.span("claim")) for each in unlike))
    best = [each.best for each in comparisons]
    if judge is not None:
        with run.span("support") as branch:
            best = await rescored(comparisons, judge, branch, candidates=candidates)
    known = dict(zip(unlike, zip(comparisons, best, strict=True), strict=True))
    found = [unit.passage for each in comparisons for unit in each.lexical.sentences]
    verdict = _Verdicts(answer, retriever, found, language, by_words=judge is None)
    pairs = zip(parts, asked, strict=True)
    return [await verdict.of(part, *known.get(each, (None, (0.0, ())))) for part, each in pairs]


def _compared(claim: Claim, found: Sequence[Passage], language: str) -> Compared:
    lexical = Lexical(evidence(found), language=language)
    return Compared(claim, lexical, lexical.scores(claim))


class _Verdicts:
    """Makes the verdicts. It knows the documents that the answer names as its sources, and numbers those it quotes."""

    def __init__(
        self, answer: str, retriever: Retriever, found: Sequence[Passage], language: str, *, by_words: bool
    ) -> None:
        self._sources, self._retriever, self._language, self._by_words = listed(answer), retriever, language, by_words
        self._found = dict.fromkeys(found)
        self._pages: dict[str, list[Passage]] = {}
        self._numbers: dict[str, int] = {}

    async def of(self, claim: Claim, compared: Compared | None, best: Best) -> Checked:
        """The verdict of a claim; None is compared with what claims nothing."""
        score, places = best
        if compared is None:
            return Checked(claim.text, Verdict.NO_CLAIM)
        lexical, verdict, difference = compared.lexical, Verdict.SUPPORTED, None
        units = [lexical.sentences[place] for place in places]
        other = await asyncio.to_thread(lexical.otherwise, compared.claim) if score < 1 else None
        is_against = other is not None and (other[0] > score + _CLEARLY or places == (other[1],))
        if score < SUPPORTED or (is_against and self._by_words):
            verdict, units = Verdict.NOT_FOUND, []
            if other is not None:
                verdict, units, difference = Verdict.CONTRADICTED, [lexical.sentences[other[1]]], other[2]
        elif pages := await self._named(claim.cites):
            ids = {each.page_id for each in pages}
            if ids.isdisjoint(unit.passage.page_id for unit in units):
                there = await asyncio.to_thread(_compared, compared.claim, pages, self._language)
                if there.best[0] >= SUPPORTED:
                    score, units = there.best[0], [there.lexical.sentences[place] for place in there.best[1]]
                else:
                    verdict = Verdict.ELSEWHERE
        for unit in units:
            self._numbers.setdefault(unit.passage.id, len(self._numbers) + 1)
        quotes = (Citation.of(self._numbers[unit.passage.id], unit.passage, unit.sentence) for unit in units)
        found = tuple(dict.fromkeys(unit.passage for unit in lexical.sentences))
        return Checked(claim.text, verdict, claim.statement, score, tuple(quotes), difference, claim.cites, found)

    async def _named(self, cites: Sequence[str]) -> list[Passage]:
        """What was found of the documents that citations name, or all of them where they can be opened."""
        named: dict[Passage, None] = {}
        for name in (name for cite in cites for name in self._sources.get(cite.strip("[]^"), (cite,))):
            if name not in self._pages:
                pages = [each for each in self._found if names_page(name, each)]
                if isinstance(self._retriever, Pages) and "://" not in name and (pages or "." in name):
                    page = await self._retriever.page(pages[0].page_id if pages else name)
                    pages = pages if page is None else [page]
                self._pages[name] = pages
            named.update(dict.fromkeys(self._pages[name]))
        return list(named)
