"""Checks an answer that anybody wrote: searches for each of its claims, and says what the documents say of it.

What the answer cites is a hint only. Each claim is searched for twice: as it stands, and with what it stands under.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from reground.core.answers import Citation
from reground.core.concurrency import gather
from reground.core.errors import RegroundError
from reground.core.evidence import Passage, Retriever
from reground.core.run import Critic, Run
from reground.support.check import CANDIDATES, SUPPORTED, Best, Compared, rescored
from reground.support.lexical import Claim, Lexical, claims
from reground.support.units import evidence

MOST_CLAIMS, MOST_CHARACTERS = 2_000, 300_000
"""The largest answer that is checked."""
_AT_ONCE = 8
"""Claims that are searched for and compared at the same time."""
_CITED = re.compile(r"\[\d{1,4}(?:[ \t]?[,;][ \t]?\d{1,4}){0,9}\]")


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
    have been compared, and their number. Raises RegroundError for an answer that is too long, and what the retriever
    and the judge raise.
    """
    if len(answer) > MOST_CHARACTERS:
        raise RegroundError(_too_long(f"{len(answer):,} characters", f"{MOST_CHARACTERS:,}"))
    parts = claims(answer, question)
    unlike = list(dict.fromkeys(_asked(each) for each in parts if each.statement))
    if len(unlike) > MOST_CLAIMS:
        raise RegroundError(_too_long(f"{len(unlike):,} claims", f"{MOST_CLAIMS:,}"))
    run = run or Run()
    slots, done = asyncio.Semaphore(_AT_ONCE), 0

    async def compared(claim: Claim, branch: Run) -> Compared:
        nonlocal done
        async with slots:
            found = await _found(claim, retriever, branch, k)
            comparison = await asyncio.to_thread(partial(_compared, claim, found, language))
        done += 1
        if progress is not None:
            progress(done, len(unlike))
        return comparison

    branches = [compared(claim, run.span("claim")) for claim in unlike]
    comparisons = await gather(*branches)
    best = [each.best for each in comparisons] if judge is None else await _judged(comparisons, judge, run, candidates)
    known = dict(zip(unlike, zip(comparisons, best, strict=True), strict=True))
    numbers: dict[str, int] = {}
    return [
        _checked(part, *known[_asked(part)], numbers) if part.statement else Checked(part.text, Verdict.NO_CLAIM)
        for part in parts
    ]


def _too_long(size: str, most: str) -> str:
    return f"the answer has {size}, and at most {most} are checked: check it in parts"


def _asked(claim: Claim) -> Claim:
    """The claim without its place in the answer, so that what an answer repeats is searched for once."""
    return Claim("", claim.statement, claim.question, claim.alone)


async def _found(claim: Claim, retriever: Retriever, run: Run, k: int) -> list[Passage]:
    """The passages for the claim as it stands, and for it with its question; each once."""
    queries = dict.fromkeys(filter(None, (claim.statement, f"{claim.question} {claim.statement}".strip())))
    found = [await run.retrieve(retriever, query, k=k) for query in queries]
    return list({each.id: each for passages in found for each in passages}.values())


def _compared(claim: Claim, found: Sequence[Passage], language: str) -> Compared:
    lexical = Lexical(evidence(found), language=language)
    return Compared(claim, lexical, lexical.scores(claim))


async def _judged(comparisons: Sequence[Compared], judge: Critic, run: Run, candidates: int) -> list[Best]:
    with run.span("support") as branch:
        return await rescored(comparisons, judge, branch, candidates=candidates)


def _checked(part: Claim, compared: Compared, best: Best, numbers: dict[str, int]) -> Checked:
    score, places = best
    units = [compared.lexical.sentences[place] for place in places if score >= SUPPORTED]
    quotes = tuple(
        Citation.of(numbers.setdefault(unit.passage.id, len(numbers) + 1), unit.passage, unit.sentence)
        for unit in units
    )
    return Checked(
        part.text,
        Verdict.SUPPORTED if quotes else Verdict.NOT_FOUND,
        statement=part.statement,
        score=score,
        evidence=quotes,
        cites=tuple(_CITED.findall(part.text)),
        found=tuple(dict.fromkeys(unit.passage for unit in compared.lexical.sentences)),
    )
