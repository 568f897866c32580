"""A text mended: a method that revises drafts (RaR, RAT) goes over what documents do not support, and nothing else.

The text is put together from its own parts, so what has support stays letter by letter, and so does all layout.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate, chain, takewhile
from typing import Any

from pydantic import TypeAdapter

from reground.app import catalogue
from reground.app.runs import Result
from reground.app.session import Session
from reground.core.answers import PHRASE, TEXT, AnswerForm, Citation
from reground.core.errors import EmptyAnswer
from reground.core.evidence import without_unknown
from reground.core.language import Usage
from reground.methods.shared.steps import split_answer
from reground.support.lexical import NOTE
from reground.support.verdicts import Checked, Verdict
from reground.text.alignment import ALIKE, content, similarity
from reground.text.excerpts import FUNCTION_WORDS, terms

Again = Callable[[str], Awaitable[Sequence[Checked]]]
"""Checks another text against the same documents."""

_TASK = "What do the documents say about this?"
"""Stands for a question that nobody knows."""
_K = 3
"""Passages for each sentence that fell, unless a setting says otherwise."""
_REFLECTION = 96
"""The most tokens of what is said of its errors; small models say the same again beyond it."""
_VALUE = 60
"""The most characters of a value of the documents that is put in the place of an answer's."""
_FELL = (Verdict.CONTRADICTED, Verdict.NOT_FOUND)
_LEAD = re.compile(r"\A\s*+(?:>\s*+)*+(?P<sign>(?:[-*+•]|\d{1,3}[.)])\s++(?:\[[ xX]\]\s++)?+)?+")
"""What stands before a sentence and is no part of it: white space, the signs of a quotation and of a list's item."""
_HEADING, _FENCE = re.compile(r"\A(#{1,6})\s"), re.compile(r"\A(`{3,}|~{3,})")
_INDENT, _BLANK = re.compile(r"(?:(?<=\n)[ \t]++)?\Z"), re.compile(r"\n[ \t\r]*+\n")
_PARAGRAPH, _HEAD, _RULE, _ROW = 10, 11, 12, 13
"""Ranks: headings are below them, and items of a list above, by their indentation. What has a higher rank is under what
has a lower one."""
_ENDS = (*".!?。！？",)
_WORDS = 2
"""Words that say something and are no numbers, which a sentence has that says itself what it is about."""
_UNSAFE = re.compile(r"[\[\]|*_`\n]++")
"""What would end a mark, or be taken for markup."""
_LONGER, _MORE = 2, 120
"""A revision has at most twice the characters of its sentence, and these more."""


class Outcome(StrEnum):
    """What became of a part of a text.

    corrected: revised, and the documents support it now. cited: its citation alone was wrong and is put right. marked,
    removed: it fell and nothing could take its place. kept: it stands as it was.
    """

    KEPT = "kept"
    CORRECTED = "corrected"
    CITED = "cited"
    MARKED = "marked"
    REMOVED = "removed"


MENDED = (Outcome.CORRECTED, Outcome.CITED)


@dataclass(frozen=True)
class Mended:
    """A part of a text before and after. source: the quotes that it rests on now. why: it was not corrected."""

    before: Checked
    text: str
    outcome: Outcome = Outcome.KEPT
    source: tuple[Citation, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Mending:
    """A mended text. stopped: the budget's limit that ended the work early. trajectory: the file of the run's steps."""

    parts: tuple[Mended, ...]
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    stopped: str | None = None
    trajectory: str | None = None

    @property
    def text(self) -> str:
        """The text after mending."""
        return "".join(part.text for part in self.parts)

    @property
    def share(self) -> float | None:
        """The share of the claims of the text after mending that are supported; None where it claims nothing."""
        remaining = [each for each in self.parts if each.outcome != Outcome.REMOVED]
        claims = [each for each in remaining if each.before.verdict != Verdict.NO_CLAIM]
        holds = sum(each.before.verdict == Verdict.SUPPORTED or each.outcome in MENDED for each in claims)
        return holds / len(claims) if claims else None

    @property
    def changed(self) -> list[Mended]:
        """The parts that fell or did not stay as they were."""
        return [part for part in self.parts if part.outcome != Outcome.KEPT or part.why]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data; of the parts, those that fell or did not stay as they were."""
        parts = _PLAIN.dump_python(self.changed, mode="json", exclude={"__all__": {"before": {"found"}}})
        data = {"text": self.text, "share": self.share, "parts": parts, "usage": self.usage.model_dump(mode="json")}
        return {**data, "seconds": self.seconds, "stopped": self.stopped, "trajectory": self.trajectory}


_PLAIN = TypeAdapter(list[Mended])


async def mended(
    session: Session,
    parts: Sequence[Checked],
    again: Again,
    *,
    question: str | None = None,
    unsupported: str = "mark",
    **options: Any,
) -> Mending:
    """Mend a text whose parts are checked, by the first method that the session offers.

    again: checks a text like the first time. unsupported: what becomes of a sentence that fell and that nothing can
    take the place of. options: further arguments of `Session.ask`. Raises what `Session.ask` and the check raise.
    """
    pieces = list(_pieces(parts))
    fallen = [i for i, piece in enumerate(pieces) if parts[i].verdict in _FELL and not piece.is_code]
    topic = question or next((piece.body.strip("# ") for piece in pieces if piece.rank < _PARAGRAPH), "")
    form = PHRASE if question and len(pieces) == 1 and pieces[0].body[-1:] not in _ENDS else TEXT
    result = await _run(session, pieces, fallen, topic or _TASK, form, **options) if fallen else None
    drafts = {i: result.steps[i].text if result is not None else "" for i in fallen}
    revised = {i: _revised(draft, i, parts, pieces, topic, form) for i, draft in drafts.items()}
    sources = await _supported(pieces, {i: text for i, (text, _) in revised.items() if text}, again)
    if result is not None and form.final_pass and not sources and revised[0][0]:
        # What it was found in says more than the short answer.
        sentence = split_answer(result.steps[0].text, form)[0]
        sources = await _supported(pieces, {0: sentence}, again) if revised[0][0] in sentence else {}
    new = []
    for i, (part, piece) in enumerate(zip(parts, pieces, strict=True)):
        if i in sources:
            text = piece.with_note(revised[i][0], f"source: {_label(sources[i])}")
            new.append(Mended(part, text, Outcome.CORRECTED, sources[i]))
        elif i in revised:
            new.append(_fallen(part, piece, unsupported, revised[i][1] or "the documents do not support its revision"))
        elif part.verdict == Verdict.ELSEWHERE and part.cites:
            new.append(Mended(part, _cited_anew(part, piece), Outcome.CITED, part.evidence))
        else:
            new.append(Mended(part, piece.with_body(piece.body)))
    after = tuple(_without_gaps(new, pieces))
    if result is None:
        return Mending(after)
    early = (step for step in result.trajectory.steps if step.name == "ended early")
    stopped = result.stopped or ("tokens or calls" if any(early) else None)
    return Mending(after, result.usage, result.seconds, stopped, str(result.trajectory_path))


@dataclass(frozen=True)
class _Piece:
    """A part of a text: what stands before its sentence, the sentence, and the white space behind it.

    rank: of its line, `_PARAGRAPH` inside one.
    """

    lead: str
    body: str
    tail: str
    rank: int
    is_code: bool = False

    def with_body(self, body: str) -> str:
        return f"{self.lead}{body}{self.tail}"

    def with_note(self, body: str, note: str) -> str:
        """The piece, with a note in square brackets before the last sign of its body, in a table in its last cell."""
        end = len(body) - (body[-1:] in (*_ENDS, "|"))
        return self.with_body(f"{body[:end].rstrip()} [{note}]{' ' * (body[end:] == '|')}{body[end:]}")


def _pieces(parts: Sequence[Checked]) -> Iterator[_Piece]:
    """The parts of a text, each with the indentation of its own line."""
    indent, fence, rank, above = "", "", 0, _Piece("", "", "\n\n", 0)
    for number, part in enumerate(parts):
        text = indent + part.text
        match = _INDENT.search(text)
        indent = match[0] if match and number + 1 < len(parts) else ""
        text = text[: len(text) - len(indent)]
        lead = _LEAD.match(text)
        start = lead.end() if lead else 0
        body = text[start:].rstrip()
        may_be = above.is_code or (above.rank <= _ROW and _BLANK.search(above.tail))
        mark, is_code = _FENCE.match(body), bool(fence or (may_be and text.startswith(("    ", "\t"))))
        if mark or is_code:
            fence = "" if body == fence else fence or (mark[1] if mark else "")
            rank = _PARAGRAPH
        elif heading := _HEADING.match(body):
            rank = len(heading[1])
        elif body.startswith("|"):
            rank = _ROW if part.verdict != Verdict.NO_CLAIM else _RULE if rank == _HEAD else _HEAD
        else:
            rank = _ROW + 1 + len(lead[0]) - len(lead[0].lstrip()) if lead and lead["sign"] else _PARAGRAPH
        above = _Piece(text[:start], body, text[start + len(body) :], rank, is_code=bool(mark or is_code))
        yield above


def _plain(body: str) -> str:
    """A sentence without what it cites by markers, and without the notes of an earlier mending."""
    return without_unknown(NOTE.sub("", body), ())[0]


async def _run(
    session: Session, pieces: Sequence[_Piece], fallen: Collection[int], question: str, form: AnswerForm, **options: Any
) -> Result | None:
    """The method's run, whose draft's steps are the parts of the text, all but the fallen ones settled.

    None if the model leaves nothing of a text.
    """
    offer = next(iter(session.setup.offers.values()))
    settled = tuple(i for i in range(len(pieces)) if i not in fallen)
    steps = tuple(_plain(piece.body) for piece in pieces)
    settings: dict[str, Any] = {"draft": steps, "settled": settled, "max_rounds": 0}
    if "k" not in session.setup.settings.get(offer.method, {}):
        settings |= {"k": _K, "reflection_tokens": _REFLECTION}
    own = {key: value for key, value in settings.items() if key in catalogue.method(offer.method).fields}
    try:
        return await session.ask(question, offer, form=form.name, settings=own, **options)
    except EmptyAnswer:
        return None


def _revised(
    draft: str, number: int, parts: Sequence[Checked], pieces: Sequence[_Piece], topic: str, form: AnswerForm
) -> tuple[str, str]:
    """The method's revision as it may stand in the text; or else the sentence with the value of a quote that has its
    names and numbers besides; or "", and why."""
    text, why = _usable(draft, number, pieces, topic, form)
    part, body = parts[number], pieces[number].body
    old, new = part.difference or ("", "")
    if not text and old and len(new) <= _VALUE and body.count(old) == 1:
        evidence = content(" ".join(f"{quote.title} {quote.heading} {quote.quote}" for quote in part.evidence))
        others = content(body.replace(old, " ")) - evidence
        if not any(term.isdigit() or _subject(body).get(term) for term in others):
            text, _ = _usable(body.replace(old, new), number, pieces, topic, form)
    return text, "" if text else why


def _usable(draft: str, number: int, pieces: Sequence[_Piece], topic: str, form: AnswerForm) -> tuple[str, str]:
    """A revision of a sentence as it may stand in the text, or "" and why it may not."""
    piece = pieces[number]
    before, after = _plain(piece.body), _plain(draft)
    after = form.extract(after) if form.final_pass else _LEAD.sub("", after).strip()
    after = after if "\n" in before else " ".join(after.split())
    if after and before[-1:] in _ENDS and after[-1:] not in _ENDS:
        after += before[-1]
    if not after or content(after) == content(before):
        return "", "the method found nothing to put in its place"
    cells = before.split("|"), after.split("|")
    if len(cells[0]) != len(cells[1]) or (piece.rank == _ROW and cells[0][1].strip() != cells[1][1].strip()):
        return "", "its revision is not the same row of the table"
    if len(after) > _LONGER * len(before) + _MORE or any(content(after) == content(other.body) for other in pieces):
        return "", "its revision is another text"
    if not form.final_pass and not same_subject(before, after, topic):
        return "", "its revision is about something else"
    return after, ""


def same_subject(before: str, after: str, topic: str) -> bool:
    """Whether a sentence may be a revision of another: it speaks of the same thing.

    They share words, and the later one begins with names or a word of the earlier one, or it holds the name with which
    the earlier one begins. Or else it begins with a word of the topic, or holds all that the earlier one has of the
    topic's words: "Canberra is the capital", for "Sydney is the capital", where the question is about a capital.

    topic: the question, or a heading.
    """
    old, new, subject = _subject(before), _subject(after), set(terms(topic)) - FUNCTION_WORDS
    if len(old) < _WORDS:
        return True
    if not new or similarity(before, after) < ALIKE:
        return False
    first, begins = next(iter(old)), next(iter(new))
    names = set(takewhile(lambda term: new[term], new)) or {begins}
    if names <= old.keys() or (first in new and old[first]):
        return True
    return first not in subject and (begins in subject or new.keys() >= subject & old.keys() != set())


def _subject(text: str) -> dict[str, bool]:
    """The terms of a text that are no numbers or function words, in order, and whether each is written as a name."""
    split = (word.strip(".,;:!?()") for word in text.split())
    words = {term: not (word.isalpha() and word.islower()) for word in split for term in terms(word)}
    content_terms = (term for term in words if term not in FUNCTION_WORDS and not term.isdigit())
    return {term: words[term] for term in content_terms if len(term) > 1 or not term.isascii()}


async def _supported(
    pieces: Sequence[_Piece], revised: Mapping[int, str], again: Again
) -> dict[int, tuple[Citation, ...]]:
    """For each revised sentence that the documents support, where it stands in the text, the quotes that do."""
    if not revised:
        return {}
    texts = [piece.with_body(revised.get(i, piece.body)) for i, piece in enumerate(pieces)]
    checked = await again("".join(texts))
    ends, claims = list(accumulate(map(len, texts))), dict[int, list[Checked]]()
    for part, end in zip(checked, accumulate(len(part.text) for part in checked), strict=True):
        for i in revised:
            if part.statement and end - len(part.text.rstrip()) < ends[i] and end > ends[i] - len(texts[i]):
                claims.setdefault(i, []).append(part)
    return {
        i: tuple(dict.fromkeys(quote for part in several for quote in part.evidence))
        for i, several in claims.items()
        if all(part.verdict in (Verdict.SUPPORTED, Verdict.ELSEWHERE) for part in several)
    }


def _fallen(part: Checked, piece: _Piece, unsupported: str, why: str) -> Mended:
    """A sentence that fell, where nothing can take its place."""
    if unsupported == "remove":
        return Mended(part, "", Outcome.REMOVED, part.evidence, why)
    if unsupported == "keep":
        return Mended(part, piece.with_body(piece.body), Outcome.KEPT, part.evidence, why)
    clause = f" says {_UNSAFE.sub(' ', part.difference[1])}" if part.difference else " says otherwise"
    note = "unsupported: not in the documents"
    if part.verdict == Verdict.CONTRADICTED and part.evidence:
        note = f"contradicted: {_label(part.evidence[:1])}{clause}"
    return Mended(part, piece.with_note(NOTE.sub("", piece.body), note), Outcome.MARKED, part.evidence, why)


def _label(quotes: Sequence[Citation]) -> str:
    """Where quotes stand, as a reader finds them: a file and the place in it, an address, or else a title."""
    labels = []
    for quote in quotes:
        place = f":{quote.line}" if quote.line else f", page {quote.page}" if quote.page else ""
        name = quote.passage_id.rpartition("#")[0] or quote.passage_id if place else quote.title or quote.passage_id
        labels.append(f"{quote.url or name}{place}")
    return _UNSAFE.sub(" ", "; ".join(dict.fromkeys(labels)))


def _cited_anew(part: Checked, piece: _Piece) -> str:
    """A part that names its true source in place of what it cites."""
    body = _plain(piece.body)
    for cite in part.cites:
        link = rf"\[([^\[\]]++)\]\({re.escape(cite)}\)"
        body = re.sub(rf" ?\({link}\)| ?\({re.escape(cite)}\)", "", body)
        body = re.sub(link, r"\1", body)
    return piece.with_note(body, f"source: {_label(part.evidence)}")


def _without_gaps(results: Sequence[Mended], pieces: Sequence[_Piece]) -> Iterator[Mended]:
    """The parts, where those that are removed leave no heading, introduction, head of a table or sign of an item."""
    removed, blocks = {i for i, part in enumerate(results) if part.outcome == Outcome.REMOVED}, _blocks(pieces)
    for number in reversed(range(len(blocks))) if removed else ():
        opener, ranks = blocks[number][-1], [pieces[block[0]].rank for block in blocks[number:]]
        size = next((at for at, rank in enumerate(ranks) if at and rank <= ranks[0]), len(ranks))
        under = [*chain.from_iterable(blocks[number + 1 : number + size])]
        if under and results[opener].before.verdict == Verdict.NO_CLAIM and removed.issuperset(under):
            removed.add(opener)
    texts, last = ["" if i in removed else part.text for i, part in enumerate(results)], -1
    for block in blocks if removed else ():
        remaining, tail = [i for i in block if i not in removed], pieces[block[-1]].tail
        if remaining and remaining[0] != block[0]:
            texts[remaining[0]] = pieces[block[0]].lead + texts[remaining[0]].lstrip()
        last = remaining[-1] if remaining else last
        ends = block is blocks[-1] or (_BLANK.search(tail) and not _BLANK.search(pieces[last].tail))
        if last >= 0 and last != block[-1] and (remaining or ends):
            texts[last] = texts[last].rstrip() + tail
    for i, part in enumerate(results):
        yield replace(part, text=texts[i], outcome=Outcome.REMOVED if i in removed else part.outcome)


def _blocks(pieces: Sequence[_Piece]) -> list[list[int]]:
    """The numbers of the parts of each paragraph, item of a list, heading, row of a table and line of a program."""
    blocks = list[list[int]]()
    for i, piece in enumerate(pieces):
        above = pieces[i - 1]
        goes_on = piece.rank == _PARAGRAPH and (above.rank == _PARAGRAPH or above.rank > _ROW)
        if i == 0 or not goes_on or piece.is_code or above.is_code or _BLANK.search(above.tail):
            blocks.append([])
        blocks[-1].append(i)
    return blocks
