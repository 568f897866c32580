"""What a sentence has in the place of a value of a claim: another number, date, name or unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise

from reground.text.excerpts import FUNCTION_WORDS
from reground.text.languages import CONTENT, HIRAGANA, VERBAL

Tokens = list[tuple[str, set[str]]]
"""The words of a text in order, each with its terms; function words have none."""
Side = tuple[int, int, Sequence[str]]  # a pair of opposites, which of both stands there, and the terms behind it

_TIME = re.compile(r"\A(?:1\d|20)\d\d(?:-\d\d-\d\d)?\Z")
_HEDGES = {"least", "most", "more", "less", "fewer", "over", "under", "about", "around", "nearly", "almost", "up"}
"""What makes a number a bound or a rough one, up to three words before it."""
_SIDES = (
    ("before|bevor|vor", "after|nachdem|nach"),
    ("until|bis", "since|seit"),
    (r"above|over|exceed(?:s|ing)?|at least|(?:more|longer|mehr) (?:than|als)|über(?= \d)|mindestens",
     r"below|under|up to|at most|within|(?:less|fewer|shorter|weniger) (?:than|als)|unter(?= \d)|höchstens|maximal"),
    ("all|(?:any|every)(?:one|body)|every|each|alle[nr]?|jede[mnrs]?", "some|(?<!the )only|few|einige|manche|nur"),
    ("(?:must|ha(?:ve|s) to|muss|müssen)(?! not)",
     r"(?:may|can|darf|dürfen|kann|können)(?! not|[^.;:!?\n]{0,80}\b(?:only|nur)\b)"),  # "may only" is a duty
)  # fmt: skip
_GROUPS = (rf"(?P<s{at}{side}>{words})" for at, pair in enumerate(_SIDES) for side, words in enumerate(pair))
SIDED = re.compile(rf"(?P<turned>\b(?:not|no|never|nicht) )?\b(?:{'|'.join(_GROUPS)})\b", re.IGNORECASE)
"""Words that set an order, a bound, how many or a duty, and what sets the opposite one, as a negation does too."""
BOUNDS = 2  # the place of the bounds among the pairs
BOTH_WAYS = 3  # in so many pairs each side denies the other; in the rest "some" does not deny "all"
_ROUGH = 0.05  # how far a rounded number is from what it stands for, as a share of it


def kind(word: str) -> str:
    """What a word names: a time (a year or a date), a number, a name (without capitals any may), or nothing ("")."""
    if word.lstrip("-")[:1].isdigit():
        return "time" if _TIME.match(word) else "number"
    return "name" if word[:1].isupper() or any(map(str.isdigit, word)) or CONTENT.match(word) else ""


def in_its_place(
    value: Set[str], said: Tokens, there: Tokens, shared: Set[str], *, about: bool, least: int = 0
) -> tuple[str, str] | None:
    """What a claim says, and what a sentence that has not the value says instead; None where it says nothing of the
    kind.

    value: terms of the claim, all of a kind. said: the claim. there: the sentence. shared: all terms of the claim. The
    other value stands beside the same word as the first; a number may also be the only one. A word is a value only
    behind a number, as its unit. Bounds ("at least 3") and rounded numbers differ from nothing. about: whether both are
    known to be about one thing; else a name with which the claim begins is what it is about, and no value. least: 2 for
    the same word before both, 3 for the same one behind them too.
    """
    start = next((at for at, (_, terms) in enumerate(said) if terms & value), None)
    if start is None:
        return None
    wanted = kind(said[start][0])
    end = next((at for at in range(start, len(said)) if not said[at][1] & value), len(said))
    end = end if wanted == "name" else start + 1
    begins = all(kind(word) == "name" for word, _ in said[:start])
    runs = list(_runs(there, wanted, shared))
    near = [2 * _same(said, start - 1, there, first - 1) + _same(said, end, there, last) for first, last in runs]
    least = max(least, int(wanted == "name" or len(runs) > 1) if wanted else 2)
    if not runs or (wanted == "name" and begins and not about) or max(near) < least:
        return None
    first, last = runs[near.index(max(near))]
    phrase, other = (" ".join(word for word, _ in part) for part in (said[start:end], there[first:last]))
    if not wanted and (kind(said[start - 1][0]) != "number" or _abbreviates(phrase, other)):
        return None
    is_rough = _hedges(said, start) != _hedges(there, first) or (wanted == "number" and _rounded(phrase, other))
    return None if is_rough else (phrase, other)


def of_another(said: Tokens, parts: Sequence[Tokens]) -> tuple[str, str] | None:
    """What a claim says of a thing, and what a sentence says of it, which says the claim's value of another thing.

    said: the claim. parts: the sentence between its commas, such as "Bureau Plus wants 21,500 euros" and "Mobilia
    19,800 euros". Each thing begins its part. None where the sentence says nothing of the kind.
    """
    names = _terms([token for token in said if _is_name(token[0])])
    own = [part for part in parts if any(terms & names for _, terms in part)]
    others = [part for part in parts if part not in own and part and _is_name(part[0][0])]
    for word, terms in said:
        held = kind(word)
        if held not in {"number", "time"} or any(terms & each for part in own for _, each in part):
            continue
        instead = next((other for part in own for other, _ in part if kind(other) == held), None)
        if instead is not None and any(terms & each for part in others for _, each in part):
            return word, instead
    return None


def leads_elsewhere(said: Sequence[Tokens], there: Sequence[Tokens]) -> tuple[str, str] | None:
    """A name of a claim, and the other one that a sentence has behind the same words: "flows into the Elbe".

    said, there: the claim and the sentence between their commas. The sentence may have the claim's name before these
    words, as what its part is about. None where it has no other.
    """
    names = list(_names(there))
    behind = {key: place for place, (lead, _) in reversed([*enumerate(names)]) for key in _keys(lead)}  # the first one
    terms = _terms([token for _, name in names for token in name])
    for lead, name in _names(said):
        same = [] if kind(lead[0][0]) else [behind[key] for key in _keys(lead) if key in behind]
        if same and terms.isdisjoint(_terms(name)):
            return " ".join(word for word, _ in name), " ".join(word for word, _ in names[min(same)][1])
    return None


def replaced(said: Tokens, there: Tokens, passage: Set[str]) -> tuple[str, str] | None:
    """A word of a claim that the passage lacks, and the other one that a sentence has between the same two words.

    For writing without capitals, which would tell names from the rest. A word with which a verb begins is none.
    """
    shared = {term for term in _terms(said) if len(term) > 1}
    for (word, terms), (behind, _) in pairwise(said):
        value = terms & shared if CONTENT.match(word) and not behind.startswith(VERBAL) else set[str]()
        other = in_its_place(value, said, there, shared, about=True, least=3) if value.isdisjoint(passage) else None
        if other is not None and other[1] not in word:
            return other
    return None


def other_unit(said: Tokens, cells: Sequence[Sequence[Tokens]]) -> tuple[str, str] | None:
    """The unit of a claim's number, and the other one with which the name of the number's column ends.

    cells: the names of a row's columns with their values. A column whose name has no other word of the claim says
    nothing of its unit.
    """
    words, row = _terms(said), _terms([token for cell in cells for part in cell for token in part])
    for (number, terms), (unit, own) in pairwise(said):
        columns = [name for name, value in cells if kind(number) == "number" and terms & _terms(value)]
        for *others, (last, ends) in filter(None, columns):
            if own and own.isdisjoint(row) and ends.isdisjoint(words) and words & _terms(others):
                return None if _abbreviates(unit, last) else (unit, last)
    return None


def _is_name(word: str) -> bool:
    return kind(word) == "name" and word.casefold() not in FUNCTION_WORDS


def _names(parts: Sequence[Tokens]) -> Iterator[tuple[Tokens, Tokens]]:
    """Names behind a word that says something, each with the words from that one on."""
    runs = ((part, *run) for part in parts for run in _runs(part, "name", frozenset()))
    return ((lead, part[start:end]) for part, start, end in runs if (lead := _lead(part, start)))


def _terms(tokens: Tokens) -> set[str]:
    return set[str]().union(*(terms for _, terms in tokens))


def _lead(tokens: Tokens, at: int) -> Tokens:
    """The words before a place back to one that says something."""
    words = ((place, tokens[place][0]) for place in reversed(range(at)))
    saying = (place for place, word in words if not (word.casefold() in FUNCTION_WORDS or HIRAGANA.fullmatch(word)))
    return tokens[next(saying, at) : at]


def _keys(lead: Tokens) -> list[tuple[str, ...]]:
    """Of which two such beginnings have one in common that are alike: a term, and the word behind it."""
    return [(term, *(word.casefold() for word, _ in lead[1:2])) for term in lead[0][1]]


def _runs(tokens: Tokens, wanted: str, shared: Set[str]) -> Iterator[tuple[int, int]]:
    """Where the words stand that the claim has not and that are of a kind; names of several words are one."""
    start = 0
    for at, (word, terms) in enumerate([*tokens, ("", set())]):
        fits = bool(terms) and kind(word) == wanted and not terms & shared and word.casefold() not in FUNCTION_WORDS
        if start < at and (not fits or wanted != "name"):
            yield start, at
            start = at
        start = start if fits else at + 1


def _same(said: Tokens, at: int, there: Tokens, place: int) -> bool:
    """Whether the same word stands at two places; the ends of both texts are no word."""
    if not (0 <= at < len(said) and 0 <= place < len(there)):
        return False
    (word, terms), (other, others) = said[at], there[place]
    return word.casefold() == other.casefold() or bool(terms & others)


def _hedges(tokens: Tokens, at: int) -> Set[str]:
    return _HEDGES & {word.casefold() for word, _ in tokens[max(0, at - 3) : at]}


def _rounded(number: str, other: str) -> bool:
    """Whether one number is near the other and has fewer digits that count."""
    try:
        a, b = float(number), float(other)
    except ValueError:
        return False
    digits = [len(each.replace(".", "").strip("0")) for each in (number, other)]
    return digits[0] != digits[1] and abs(a - b) <= _ROUGH * max(abs(a), abs(b))


def _abbreviates(unit: str, other: str) -> bool:
    """Whether the letters of one unit stand in the other in this order: km and kilometres."""
    short, long = sorted((unit.casefold(), other.casefold()), key=len)
    letters = iter(long)
    return short[0] == long[0] and all(letter in letters for letter in short)
