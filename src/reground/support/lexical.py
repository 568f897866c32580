"""A check without a model: how much of a claim's words, names and numbers a sentence has.

A word counts by its rarity among the units that are compared (idf), and a number three times as much. What stands
elsewhere in the passage counts in part. A name or a number that the whole passage lacks, or a negation on one side
only, speaks against the sentence: a claim with one wrong number shares all its other words. So does a row of a table or
an entry of a manual that is not the one that the claim or its question names (`units`), and so does another value in
the column. A number with its fraction, a version, a date, an address and a name in code are one word each, and a date
is the same in all its forms. An answer without its statement ("In 1889."), or one that repeats the question, is
supported where what is new in it stands among words of the question. Two sentences of linked pages may support a claim
together.

`docs/reproduction/support.md` measures it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import dropwhile, takewhile
from typing import NamedTuple
from unicodedata import normalize

from reground.core.answers import abstains
from reground.core.evidence import without_unknown
from reground.support import contrast
from reground.support.contrast import Tokens, in_its_place, kind
from reground.support.units import Evidence
from reground.text import languages
from reground.text.excerpts import FUNCTION_WORDS
from reground.text.languages import CHINESE, CONTENT, UNSTEMMED, analyzer, language_code, segmenter
from reground.text.sentences import sentences

_LABEL = re.compile(
    r"^\W*+(?:(?:so|thus|therefore),?\s++)?(?:the\s++)?(?:final\s++)?answer(?:\s++is)?\s*+[:：]\s*+", re.I
)
_BULLET = re.compile(r"^\s*+(?:[-*+•>#]++|\d{1,3}[.)])\s++")
_MARKUP = re.compile(r"[*`#]++|(?<!\w)_++|(?<!_)_++(?!\w)")
"""An underscore inside of a word is part of a name, such as exit_code."""
_FENCE = re.compile(r"^\s*+(?:`{3,}+[^`\n]*+|~{3,}+[^~\n]*+)\s*+")
_RULE = re.compile(r"[\s|:-]*+")
"""What divides the head of a table from its rows, if it has bars and dashes: |---|:--:|."""
_UNSPACED = re.compile(r"[\u3005-\u3007\u3041-\u3096\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
"""Chinese characters and hiragana, which no spaces divide into words: about two make one."""
_RUN = re.compile(r"\w++")
_PLACE = re.compile(
    r"\b(?:in|from|see|by|under|to)\s(?:the\s)?(?:(?:passage|document|source)s?\s)?\[\d+\]", re.IGNORECASE
)
"""Where an answer says that something stands, as a part of the sentence: "see passage [2]"."""
NOTE = re.compile(r" ?\[(?:source|unsupported|contradicted): [^\[\]\n]{1,300}\]")
"""What is written into a sentence that was mended or that fell."""
_SHORT_WORDS, _SHORT_LETTERS = 5, 40  # a sentence below both is an answer without its statement, such as "In 1889."


@dataclass(frozen=True)
class Claim:
    """A sentence of an answer.

    text: as it stands, with the white space around it. statement: what it claims, without markers and markup; empty if
    it claims nothing. alone: whether it answers the question without stating what it answers. about: names of what its
    pronoun may mean. key: the words that tell it, a row of a table, from the others. context: what it stands under.
    cites: what it cites, as it is written.
    """

    text: str
    statement: str
    question: str = ""
    alone: bool = False
    about: tuple[str, ...] = ()
    key: str = ""
    context: str = ""
    cites: tuple[str, ...] = ()


def claims(text: str, question: str) -> list[Claim]:
    """The sentences of an answer; together their texts are the answer.

    Questions, headings, the head of a table, the fence of a code block, sentences without a letter or a digit, those
    that only say in which passage something stands, and that the documents do not say it claim nothing. "Yes" claims
    what the question asks, and "no" nothing that words could be compared with.
    """
    parts = sentences(text)
    claimed = []
    for part, below in zip(parts, (*parts[1:], ""), strict=False):  # no parts, one below
        is_head = "|" in below and "-" in below and _RULE.fullmatch(below) is not None
        bare = _BULLET.sub("", without_unknown(NOTE.sub("", part), ())[0])
        statement = _MARKUP.sub("", _LABEL.sub("", bare)).strip()
        is_heading = part.lstrip().startswith("#") or statement.endswith((":", "："))
        is_empty = not any(map(str.isalnum, statement)) or statement.endswith(("?", "？")) or abstains(statement)
        rest, places = _PLACE.subn(" ", part)  # "It can be found in [2]." has at most one word more
        is_empty |= places > 0 and sum(word.casefold() not in FUNCTION_WORDS for word in _RUN.findall(rest)) < _ENOUGH
        verdict = statement.rstrip(".!").casefold()
        if is_head or _FENCE.fullmatch(part) or is_heading or is_empty or verdict == "no":  # no: denied in other words
            claimed.append(Claim(part, ""))
        elif verdict == "yes":  # says what the question asks
            claimed.append(Claim(part, question.rstrip(" \t\n?？"), question))
        else:
            unspaced = -(-len(_UNSPACED.findall(statement)) // 2)
            words = unspaced + len(_RUN.findall(_UNSPACED.sub(" ", statement))) if unspaced else len(statement.split())
            short = words < _SHORT_WORDS and len(statement) < _SHORT_LETTERS
            claimed.append(Claim(part, statement, question, alone=short or _LABEL.match(bare) is not None))
    return claimed


_MONTHS = (
    *("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    *("jan", "feb", "mär", "apr", "mai", "jun", "jul", "aug", "sep", "okt", "nov", "dez"),  # in German
)
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]{{0,6}}+\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_DATES = (
    re.compile(rf"\b{_DAY}\s(?:of\s)?{_MONTH},?\s(?P<year>\d{{4}})\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s{_DAY},?\s(?P<year>\d{{4}})\b", re.IGNORECASE),
)
_MAY, _MONTH_OF_MAY = re.compile(r"(?<=\d )May\b|\bMay(?= \d)"), "Maymonth"
_ISO = re.compile(r"(\d{4})-\d\d-\d\d")
_SIGN = r"(?:\A|(?<=[\s(:=|]))(?<!\d )[-−–](?=\d)"  # not of a range, 3-12 or 3 -12
_NUMBER_WORD = rf"\d++(?:[-/]\d++){{2,}}+|\d++(?:[.,:]\d++)++|{_SIGN}\d++(?:\.\d++)?+(?![\w-])"
_NAME_WORD = (
    r"\w++(?:[.+-]\w++){0,9}+@\w++(?:[.-]\w++){0,9}+"  # an address
    r"|(?=\w*[A-Z])(?=[\w-]{0,64}\d)\w++(?:-\w++)++"  # AB-1234, F2-C
    r"|\w++(?:\.\w++)++|\w*[^\W_]_\w++|[a-z]++[A-Z]\w*+"  # os.path, exit_code, maxRetries
)
_CODE_NAME, _CODE_NUMBER = re.compile(rf"\A(?:{_NAME_WORD})"), re.compile(rf"\A(?:{_NUMBER_WORD})")
_ONE = re.compile(rf"\A(?:{_NAME_WORD}|{_NUMBER_WORD})")
"""One name or number, although it has signs or capitals inside."""
_WORD = re.compile(rf"{_NUMBER_WORD}|{_NAME_WORD}|\w++")
_COUNTS = {
    word: number
    for words in (
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety",
        "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
        "achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    )
    for word, number in zip(words.split(), (*range(2, 21), *range(30, 100, 10)), strict=True)
} | {"twice": 2}
_TENS, _UNITS = ("|".join(word for word in _COUNTS if (_COUNTS[word] > 19) is tens) for tens in (True, False))
_COUNT = re.compile(rf"\b(?:({_TENS})(?:[ -](one|{_UNITS}))?|(ein|{_UNITS})und({_TENS})|({_UNITS}))\b", re.IGNORECASE)
_SPACED = r"(?:(?<=\b\d)(?<![-.,:/]\d)|(?<=\b\d\d)(?<![-.,:/]\d\d)|(?<=\d \d{3})) (?=\d{3}\b)|(?<=\b\d{3}) (?=000\b)"
_GROUPED, _POINTED = (re.compile(rf"(?<=\d)[{sign}'’\u00a0\u2009\u202f](?=\d{{3}}(?!\d))|{_SPACED}") for sign in ",.")
"""What groups the digits of a number: 2,850 and 2850 are the same, and 2.850 where the comma begins the decimals."""
_FRACTION = re.compile(r"(?<![\w/.,-])(?:(\d{1,3}) {1,2})?([1-8])[/⁄]([2-9])(?![\w/]|\.\d)")
_DECIMAL = re.compile(r"(?<=\d),(?=\d{1,2}\b)")
_WHOLE = re.compile(r"(?<![\d.])(\d++)\.0++(?!\.?\d)")
"""11.00, which is 11."""
_SINGLE = re.compile(r"\b(?:one|eine?)(?= (?:or|to|oder|bis) \d)", re.IGNORECASE)
_SCALES = {"thousand": 1, "million": 2, "billion": 3, "trillion": 4}  # of 1000
_SCALED = re.compile(rf"\b(\d{{1,9}}(?:\.\d{{1,9}})?) ({'|'.join(_SCALES)})\b", re.IGNORECASE)
_COMMA = frozenset({"da", "de", "el", "es", "fi", "fr", "it", "nl", "no", "pt", "ro", "ru", "sv", "tr"})
_ENGLISH_NOT = (
    r"\b(?:not|no(?: longer)?|never|none|neither|nor|cannot|without|except|exception of|apart from|other than|excluding"
    r"|unless)\b|n['’]t\b"
)
_NOT = {
    code: rf"\b(?:{'|'.join(words.split())})\b"
    for code, words in {
        "da": "ikke ingen intet aldrig uden hverken",
        "de": "nicht kein keine keinen keinem keiner keines nie niemals niemand nichts ohne weder außer ausgenommen",
        "es": "no nunca jamás nadie nada ningún ninguno ninguna ni sin tampoco",
        "fr": "pas jamais aucun aucune rien ni sans non",
        "it": "non no mai nessun nessuno nessuna né senza neanche nemmeno",
        "nl": "niet geen nooit niemand niets zonder noch",
        "no": "ikke ingen intet aldri uten verken",
        "pt": "não nunca jamais ninguém nenhum nenhuma nem sem",  # "no" is "in the"
        "ru": "не нет ни никогда никто ничего без нельзя",
        "sv": "inte icke ej ingen inget inga aldrig utan varken",
    }.items()
}
"""What denies, in the languages where it is a word of its own. In others English words are looked for."""
_EASTERN_NOT = (
    r"不(?![仅但同断久过管论少错止只僅斷過論])|没有?|沒有?|未(?!来|來|必)|并非|毫无|无法"
    r"|ません|(?<![少危])な(?:い|かった)|(?<!だけで)(?<!ばかりで)(?<![少危])なく(?!な)"
)
"""What denies in Chinese and Japanese, other than "not only", "different" and "few"."""
_NUMBER = 3.0  # what a number counts; a word counts 1
_ELSEWHERE = 0.3  # what a word counts that stands in the passage, but in another sentence
_NO_NUMBER, _NO_NAME, _OTHER_NUMBER, _OTHER_NAME, _NEGATED = 0.4, 0.5, 0.6, 0.5, 0.4
"""What is left of the score for a number or a name that the passage lacks, or that only another sentence of it has, and
for a negation on one side only."""
_VERBS = frozenset({"is", "was", "are", "were", "has", "had"})
_BOUND = re.compile(r"\A\s(?:\w{1,20}\s){1,2}?(?P<than>(?:than|als|de|que)\s)?(?=\D?\d)", re.IGNORECASE)
"""A number that a negation bounds and does not deny: not exceed 40, no more than 5, nicht später als 9:30."""
_DENIED, _CLAUSE = 3, 80
"""The words that a negation denies, and the most characters among which they are."""
_PARTS = re.compile(r"[,;:()](?!\d)|\band\b")  # where a sentence goes on to another thing
_SPELLINGS = (
    (re.compile(r"(?<=[bt])re(?=s?\b)"), "er"),  # metres and meters
    (re.compile(r"(?<=[a-z]{3})our"), "or"),  # harbour and harbor
    (re.compile(r"(?<=[a-z]{3})is(?=e[sd]?\b|ing\b|ation)"), "iz"),  # organised and organized
)
_STOP = re.compile(r"[.,;:!?()。，、；：]")
_OTHER_KEY = 0.4  # what is left for a row or an entry that is not the one that the claim, or its question, names
_SCALE = 2.5
"""Sentences share less of a question's words than of a statement's; this makes half a score mean the same for both."""
_LEAST = 0.3
"""What is left for an answer that stands there, but among no word of the question, and the most for a statement that
shares a single word: too little to support it."""
_FEW = 4  # words of a value, at most, with the verb before it
_ENOUGH = 2
"""Words that a statement and a sentence share at least, unless one is a name or a number. "I made up the rest." has two
that say something, and "The bridge rests on piers." has the stem of one: half of them, by chance."""

_FIRST, _ADDED, _MANY, _BETTER = 5, 2, 4, 0.1
"""For two sentences: the best ones that may be the first, the words that each adds, those that may all be names, and
the gain."""


SUPPORTED = 0.5
"""The score from which on a claim counts as supported."""
_AGREED = 0.75  # the share of the rest of a claim that a unit has to say, so that its other value contradicts it


class _Words(NamedTuple):
    """The terms of a text, with what each counts, and those of them that are numbers, names, names in code, and
    together those of each name without a capital."""

    weights: dict[str, float]
    numbers: set[str]
    names: set[str]
    code: set[str]
    unspaced: list[tuple[set[str], set[str]]]
    sides: Sequence[contrast.Side] = ()

    def names_without(self, there: Set[str]) -> set[str]:
        """The terms of names that are not in a text, in writing without spaces of those that have no term there."""
        return (self.names - there).union(*(terms for key, terms in self.unspaced if key.isdisjoint(there)))

    def without(self, other: _Words) -> _Words:
        """The terms that the other text has not."""
        both = other.weights.keys()
        others = {term: weight for term, weight in self.weights.items() if term not in both}
        return _Words(others, self.numbers - both, self.names - both, self.code - both, self.unspaced, self.sides)


class Lexical:
    """Compares claims with the sentences of some passages. language: a code or an English name, as for an index."""

    def __init__(self, sentences: Sequence[Evidence], *, language: str = "en") -> None:
        code = language_code(language)
        self._analyzer, self._segment, self._pairs = analyzer(code), segmenter(code), segmenter(UNSTEMMED)
        self._known, self._named = languages.chinese_words() if code == CHINESE else (frozenset[str](),) * 2
        self._cut: dict[str, Tokens] = {}
        self._sided = cache(lambda place: [*self._sides(sentences[place].sentence)])
        self._grouped = _POINTED if code in _COMMA else _GROUPED
        self.sentences = sentences
        self._titles = titles = [self._terms(each.passage.title) for each in sentences]
        self._own = [self._terms(each.sentence) | self._terms(each.subject) for each in sentences]
        for own, each in zip(self._own, sentences if self._named else (), strict=False):  # where jieba cuts otherwise
            own.update(self._pairs(f"{each.passage.title} {each.subject} {each.sentence}").split())
        self._titled = [own | title for own, title in zip(self._own, titles, strict=True)]
        self._not = re.compile(f"{_NOT.get(code, _ENGLISH_NOT)}|{_EASTERN_NOT}", re.IGNORECASE)
        self._denied = [[] if each.cells else self._denies(each.sentence) for each in sentences]  # not "oil: no"
        small = {word for each in sentences for word in _WORD.findall(each.sentence) if word.islower()}
        self._small = {*self._analyzed(self._segment(" ".join(small)))}
        self._holding = Counter(term for terms in self._titled for term in terms)
        rows = ((self._words(each.key), each.cells) for each in sentences)
        self._keys = [{*(key.weights if cells else key.code or key.weights)} for key, cells in rows]  # which tell it
        self._cells = [[[{*self._words(text).weights} for text in cell] for cell in each.cells] for each in sentences]
        self._columns: dict[int, list[set[str]]] = {}
        for each, cells in zip(sentences, self._cells, strict=True):
            self._columns.setdefault(each.place, []).extend(cell[0] for cell in cells if cell[0])
        self._keyed = Counter(term for terms in self._keys for term in terms)
        whole: dict[tuple[int, int], set[str]] = {}
        for each, terms in zip(sentences, self._titled, strict=True):
            whole.setdefault((each.place, each.quoted), set()).update(terms)
        self._whole, self._passages = [whole[each.place, each.quoted] for each in sentences], [*whole.values()]

    def scores(self, claim: Claim) -> list[float]:
        """How far each sentence supports a claim: from 0 to 1, and from about 0.5 on it does."""
        words, question = self._of(claim), self._words(claim.question)
        denied = self._denies(claim.statement)
        places = range(len(self.sentences))
        scores = [0.0 if claim.alone else self._states((place,), words, denied) for place in places]
        new = words if claim.alone else words.without(question)
        if claim.alone or (claim.question and 0 < 2 * len(new.weights) <= len(words.weights)):
            for place in places:
                scores[place] = min(scores[place], 1.0 if new.weights.keys() & self._titled[place] else _LEAST)
                scores[place] = max(scores[place], self._answers(place, new, question, denied))
        value = self._value(claim.statement)
        most = [1.0 if not value or value & titled else _LEAST for titled in self._titled]
        left = self._left(claim, words, question)
        agreeing = (place for place in places if min(scores[place], most[place]) * left[place] >= SUPPORTED)
        for place in agreeing if words.names or words.numbers or CONTENT.search(claim.statement) else ():
            left[place] *= _OTHER_KEY if self._of_another(claim.statement, place) else 1.0
        return [min(score * rest, limit) for score, rest, limit in zip(scores, left, most, strict=True)]

    def _of_another(self, statement: str, place: int) -> tuple[str, str] | None:
        """What a claim says, and what a unit says instead, which has the claim's value for another thing."""
        unit = self.sentences[place]
        if unit.cells:
            return contrast.other_unit(self._tokens(statement), [[*map(self._tokens, cell)] for cell in unit.cells])
        said, texts = self._tokens(statement), (statement, unit.sentence)
        claim, there = ([*map(self._tokens, _PARTS.split(text))] for text in texts)
        other = contrast.of_another(said, there) or contrast.leads_elsewhere(claim, there)
        return other or contrast.replaced(said, self._tokens(unit.sentence), self._whole[place])

    def _value(self, statement: str) -> Set[str]:
        """The terms of the few words behind the last "is" or "has", of which a sentence has to have one."""
        words = _WORD.findall(statement)
        at = next((place for place in reversed(range(len(words))) if words[place] in _VERBS), len(words))
        return self._words("is " + " ".join(words[at + 1 :])).weights.keys() if len(words) - at <= _FEW else set()

    def _left(self, claim: Claim, words: _Words, question: _Words) -> list[float]:
        """What is left of each unit's score: little of a row's or an entry's that is not the claim's, and of a row's
        that has other values in the columns that the claim names.

        The claim's topic is its names and numbers, with the words of the question that it repeats, or all of them where
        none is in a key; without a question all of its words. A common word of other keys says nothing.
        """
        both = words.weights.keys() | question.weights.keys()
        both |= {*self._analyzed(" ".join(words.code | question.code).replace("_", " "))}
        repeated = words.weights.keys() & question.weights.keys() & self._keyed.keys()
        asked = repeated or question.weights.keys() or words.weights.keys()
        topic = self._keyed.keys() & (words.names | words.numbers | asked)
        topic |= words.code or question.code
        rarity = {term: math.log1p(len(self.sentences) / max(1, self._keyed[term])) for term in topic}
        rarest = max(rarity.values(), default=0.0)
        left, elsewhere = [], self._elsewhere(claim)
        for place, unit in enumerate(self.sentences):
            named = [(name, value) for name, value in self._cells[place] if name and name <= both]
            stated = [name for name, value in named if value <= both or value & words.numbers]
            own = self._keys[place].union(*stated) if unit.cells else self._own[place]
            missing = topic - own - self._titles[place] if unit.key else set[str]()
            missing = {term for term in missing if not own.issuperset(self._analyzed(term.replace("_", " ")))}
            is_other = elsewhere[place] or any(2 * rarity[term] >= rarest for term in missing)
            is_other |= unit.cells != () and self._in_another_column(place, words.numbers, both)
            left.append(_OTHER_KEY if is_other or (named and not stated) else 1.0)
        return left

    def _in_another_column(self, place: int, numbers: Set[str], both: Set[str]) -> bool:
        """Whether a row has a number of a claim in a column that the claim does not name, and in one that it names
        something else, or nothing.

        numbers: those of the claim. both: the terms of the claim and its question.
        """
        cells = self._cells[place]
        named = [value for name, value in cells if name and name <= both]
        others = [value for name, value in cells if not (name and name <= both)]
        columns, own = self._columns[self.sentences[place].place], [name for name, _ in cells]
        is_empty = any(name <= both for name in columns if name not in own)
        return (is_empty or any(not value <= both for value in named)) and not numbers.isdisjoint(
            set[str]().union(*others) - set[str]().union(*named)
        )

    def together(self, claim: Claim, scores: Sequence[float]) -> tuple[float, tuple[int, ...]]:
        """The score of the best sentence, or of two if they support the claim better, and their places.

        What takes two steps to find stands in two sentences. The second has to add a word that is neither a name nor a
        number, because a wrong name can be found in some sentence or other.
        """
        if not scores:
            return 0.0, ()
        ranked = sorted(range(len(scores)), key=lambda place: -scores[place])
        best: tuple[float, tuple[int, ...]] = scores[ranked[0]], (ranked[0],)
        if claim.alone or best[0] >= 1.0:
            return best
        words, denied = self._of(claim), self._denies(claim.statement)
        plain = words.weights.keys() - words.numbers - words.names
        left: list[float] = []
        for first in ranked[:_FIRST]:
            for second in ranked:
                adds = self._adds(first, second, words) and self._adds(second, first, words)
                if not adds or not self._linked(first, second):
                    continue
                left = left or self._left(claim, words, self._words(claim.question))  # most claims have no such pair
                here = self._titled[first] | self._titled[second]
                if 2 * len(plain & here) < len(plain):  # numbers alone, which count more, say nothing together
                    continue
                score = self._states((first, second), words, denied) * min(left[first], left[second])
                if score > best[0] + _BETTER:
                    best = score, (first, second)
        return best

    def otherwise(self, claim: Claim) -> tuple[float, int, tuple[str, str]] | None:
        """How far a unit agrees that says something else of the same thing, its place, and what the claim and it say.

        Of what the claim says beside it, the unit says nearly all, and it has a value of the same kind in that place:
        another number, date, unit or name; or only one of the two denies it. None where no unit does.
        """
        words = self._words(f"{claim.question} {claim.statement}") if claim.alone else self._of(claim)
        said, denied = self._tokens(claim.statement), self._denies(claim.statement)
        shared, elsewhere = words.weights.keys(), self._elsewhere(claim)
        best: tuple[float, int, tuple[str, str]] = (0.0, 0, ("", ""))
        for place, unit in enumerate(self.sentences):
            here, title = self._titled[place], self._titles[place] | self._keys[place]
            missing = {term for term in shared - here if not CONTENT.match(term)}
            value = (missing & words.numbers) or words.names_without(here)
            rest = {term: weight for term, weight in words.weights.items() if term not in value | title}
            agreement = self._share(rest, here) if rest else 1.0
            first = next((term for term in words.weights if term not in value), "")
            is_other = first not in here and title.isdisjoint(shared - value)
            is_other |= elsewhere[place] or not (missing - value).isdisjoint(words.names)
            if is_other or agreement < _AGREED or agreement <= best[0]:
                continue
            opposed = self._opposed((place,), words, denied)
            pair = None if value or opposed else self._of_another(claim.statement, place)
            if opposed:
                agreement = self._share(words.weights, here)
                pair = (claim.statement, unit.sentence) if agreement >= max(_AGREED, best[0]) else None
            elif pair is None and unit.cells:
                pair = self._in_column(place, value, said, words)
            elif pair is None:
                known, there = bool(title) and title <= shared - value, self._tokens(unit.sentence)
                # three brothers are no other unit of three voyages
                of_one_thing = value or (shared & here) - words.names - words.numbers - title
                pair = in_its_place(value or missing, said, there, shared, about=known) if of_one_thing else None
            if pair is not None:
                best = agreement, place, (pair[0].replace(_MONTH_OF_MAY, "May"), pair[1].replace(_MONTH_OF_MAY, "May"))
        return best if best[0] else None

    def _elsewhere(self, claim: Claim) -> list[bool]:
        """For each unit whether its passage lacks what a claim's pronoun means: the first of its names anywhere, or
        another one in the title or the unit itself."""
        names = [self._words(f"the {name}").weights.keys() for name in claim.about]
        if not any(names):
            return [False] * len(self.sentences)
        others = [terms for terms in names[1:] if terms]
        return [
            not (names[0] <= whole or any(terms <= titled for terms in others))
            for whole, titled in zip(self._whole, self._titled, strict=True)
        ]

    def _in_column(self, place: int, value: Set[str], said: Tokens, words: _Words) -> tuple[str, str] | None:
        """What a claim says instead of a cell whose column it names, if it names another cell of the row."""
        shared, phrase = words.weights.keys(), " ".join(word for word, terms in said if terms & value)
        cells = list(zip(self._cells[place], self.sentences[place].cells, strict=True))
        others = [cell for (_, other), (_, cell) in cells if other and other <= shared and cell[:1].isalpha()]
        for (name, held), (_, text) in cells:
            is_row = any(cell != text for cell in others)
            if phrase and is_row and name and name <= shared and not held <= shared and kind(phrase) == kind(text):
                return phrase, text
        return None

    def _adds(self, first: int, second: int, claim: _Words) -> bool:
        """Whether the second sentence says words of a claim that the first does not, and not only names or numbers.

        It may add names alone where the first one follows it and has none: "She was the first to ride across."
        """
        added = (self._titled[second] - self._titled[first]) & claim.weights.keys()
        says = len(added) >= _MANY or bool(added - claim.names - claim.numbers)
        follows = first == second + 1 and self.sentences[first].place == self.sentences[second].place
        return len(added) >= _ADDED and (says or (follows and not self._words(self.sentences[first].sentence).names))

    def _denies(self, text: str) -> list[set[str]]:
        """For each negation the terms that it stands before, or else behind. A name and a value None are none."""
        denied = []
        for match in self._not.finditer(text):
            before, after = text[: match.start()], text[match.end() : match.end() + _CLAUSE]
            near, bound = self._content(_STOP.split(after)[0])[:_DENIED], _BOUND.match(self._plain(after))
            if bound and near and (bound["than"] or not near[0].isdigit()):
                denied.append({term for term in near[:1] if not term.isdigit()})
                continue
            word = (before.rpartition(" ")[2] + match[0]).lstrip("\"'“‘(*_")  # ain't, with its beginning
            if word[:1].isupper() and (not near or after.lstrip()[:1].isupper()):
                continue
            near = near or self._content(_STOP.split(before[-_CLAUSE:])[-1])[-_DENIED:]
            denied.append(set(near))
        return list(filter(None, denied))

    def _sides(self, text: str) -> Iterator[contrast.Side]:
        """The sides of opposites that a text is on. A bound in a clause with a negation may be either one."""
        for match in contrast.SIDED.finditer(text):
            pair, side = map(int, str(match.lastgroup)[1:])
            before = _STOP.split(text[max(0, match.start() - _CLAUSE) : match.start()])[-1]
            behind = _STOP.split(text[match.end() : match.end() + _CLAUSE])[0]
            near = self._content(behind)[:_DENIED]
            if near and (pair != contrast.BOUNDS or match["turned"] or not self._not.search(before + behind)):
                yield pair, side ^ (match["turned"] is not None), near

    def _content(self, text: str) -> list[str]:
        terms = self._analyzed(self._segment(self._plain(self._not.sub(" ", text))))
        letters = [term for term in terms if len(term) == 1 and CONTENT.match(term)]
        return letters or [term for term in terms if term not in FUNCTION_WORDS]

    def _linked(self, first: int, second: int) -> bool:
        """Whether two sentences are of one page, or one names the title of the other's."""
        one, other = self.sentences[first], self.sentences[second]
        is_one_page = (one.passage.page_id, one.quoted) == (other.passage.page_id, other.quoted)
        pairs = ((self._titles[first], self._own[second]), (self._titles[second], self._own[first]))
        is_mail = any(each.sentence.startswith("From: ") for each in (one, other))  # the head of another one
        apart = self._titles[first] != self._titles[second] and not is_mail
        return is_one_page or (apart and any(title and title <= own for title, own in pairs))

    def _states(self, places: tuple[int, ...], claim: _Words, denied: Sequence[Set[str]]) -> float:
        """How far sentences say all of a claim.

        What they share has to say more than a single word can: a name, a number, or `_ENOUGH` words. The name with
        which the claim begins is not enough, nor how many of it there are, where the claim says anything else of it.
        """
        here = set[str]().union(*(self._titled[place] for place in places))
        passages = set[str]().union(*(self._whole[place] for place in places))
        shared = claim.weights.keys() & here
        enough = len(shared) >= min(_ENOUGH, len(claim.weights)) or bool(shared & (claim.names | claim.numbers))
        counts = {term for term in claim.numbers if kind(term) == "number"}
        is_row = any(self.sentences[place].cells for place in places)
        says_more = claim.weights.keys() - claim.names - claim.numbers
        first_name = takewhile(claim.names.__contains__, dropwhile(lambda term: term not in claim.names, claim.weights))
        enough = enough and (is_row or not (says_more and shared <= counts.union(first_name)))
        share = self._share(claim.weights, here, passages)
        return self._against(places, claim, denied, here, passages) * (share if enough else min(share, _LEAST))

    def _answers(self, place: int, new: _Words, question: _Words, denied: Sequence[Set[str]]) -> float:
        """How far a sentence says what is new in a claim, among words of the question.

        Its passage has a name of the question, or its title is named by the claim or by a passage that has one.
        """
        own, here, passage = self._own[place], self._titled[place], self._whole[place]
        about = (self._share(question.weights, own) + self._share(question.weights, here)) / 2
        fits = min(1.0, max(_LEAST, _SCALE * about)) if question.weights else 1.0
        named = question.names | question.numbers
        naming = (each for each in self._passages if not named.isdisjoint(each))
        is_far = named and named.isdisjoint(passage)
        if is_far and all(self._titles[place].isdisjoint(each) for each in (new.weights.keys(), *naming)):
            fits = min(fits, _LEAST)
        return self._against((place,), new, denied, here, passage) * self._share(new.weights, here) * fits

    def _against(
        self, places: tuple[int, ...], claim: _Words, denied: Sequence[Set[str]], here: Set[str], passages: Set[str]
    ) -> float:
        left = _NO_NUMBER if claim.numbers - passages else _OTHER_NUMBER if claim.numbers - here else 1.0
        left *= _NO_NAME if claim.names_without(passages) else _OTHER_NAME if claim.names_without(here) else 1.0
        return left * (_NEGATED if self._opposed(places, claim, denied) else 1.0)

    def _opposed(self, places: tuple[int, ...], claim: _Words, denied: Sequence[Set[str]]) -> bool:
        """Whether a claim denies what the sentences do not, or they deny what it says."""
        there = [terms for place in places for terms in self._denied[place]]
        here = [
            *(terms for terms in there if terms not in denied),  # what both deny is no other denial
            *({term.removeprefix("un")} for place in places for term in self._own[place] if term[:2] == "un"),
        ]
        lacks = any(terms not in there and not any(terms & others for others in here) for terms in denied)
        there_too = (each for place in places if claim.sides for each in self._sided(place))
        met = {(pair, side, term) for pair, side, terms in there_too for term in terms}
        for pair, side, (term, *_) in claim.sides:
            is_opposite = (pair, 1 - side, term) in met and (pair, side, term) not in met
            lacks |= is_opposite and (pair < contrast.BOTH_WAYS or side == 0)
        return lacks or any(
            2 * len(terms & claim.weights.keys()) > len(terms) and not any(terms & others for others in denied)
            for terms in there
        )

    def _share(self, weights: Mapping[str, float], here: Set[str], elsewhere: Set[str] = frozenset()) -> float:
        """The share of the terms, by weight and rarity, that are here; those elsewhere count in part."""
        whole = math.fsum(weight * self._idf(term) for term, weight in weights.items())
        held = math.fsum(
            weight * self._idf(term) * (1.0 if term in here else _ELSEWHERE)
            for term, weight in weights.items()
            if term in here or term in elsewhere
        )
        return held / whole if whole else 0.0

    def _idf(self, term: str) -> float:
        """Rarity, in which a word that no sentence has is as rare as one that a single sentence has."""
        return math.log1p(len(self.sentences) / (0.5 + max(1, self._holding[term])))

    def _of(self, claim: Claim) -> _Words:
        words = self._words(claim.statement)
        words.names.update(self._words(claim.key).weights.keys() - words.numbers)
        return words._replace(sides=[*self._sides(claim.statement)])

    def _words(self, text: str) -> _Words:
        """The terms of a text. The first word's capital makes no name, unless nothing that is compared writes it small.

        A capital behind it, or a verb, makes it a name too: "Ada Lovelace", and "Ada was born".
        """
        words, before = _Words({}, set(), set(), set(), self._unspaced(found := self._tokens(text))), ""
        for (word, terms), (behind, _) in zip(found, [*found[1:], ("", set())], strict=False):
            is_first, follows_name, before = not before, before[:1].isupper(), word
            is_code = _CODE_NAME.fullmatch(word) is not None
            if word.casefold() in FUNCTION_WORDS:
                if is_first or not word.isupper() or (word == "I" and not follows_name):
                    continue
                terms = {word.casefold()}  # class A, WHO, George I
            if is_code and "." in word and terms.isdisjoint(self._holding):
                terms = {*self._analyzed(word)}  # textwrap.wrap, for the entry wrap of a page on textwrap
            if is_code:
                words.code.update(terms)
            elif any(map(str.isdigit, word)):
                words.numbers.update(terms)
            if word.islower() and behind and self._not.fullmatch(word):
                continue  # it counts by what it denies
            if is_first and terms.isdisjoint(self._small):
                is_first = behind[:1].islower() and behind not in _VERBS and terms.isdisjoint(self._holding.keys())
            if is_code or (word[0].isupper() and not is_first):
                words.names.update(terms - words.numbers)
            words.weights.update({term: _NUMBER if term in words.numbers else 1.0 for term in terms})
        return words

    def _unspaced(self, found: Tokens) -> list[tuple[set[str], set[str]]]:
        """What is looked for, and all terms, of words without capitals that may be names: in Chinese those that the
        dictionary calls so or does not know, in Japanese those with which no verb begins, without their ends (県)."""
        names = []
        for (word, terms), (behind, _) in zip(found, [*found[1:], ("", set())], strict=False):
            is_name = word in self._named or (len(word) > 1 and word not in self._known)
            if is_name and CONTENT.fullmatch(word) and not behind.startswith(languages.VERBAL):
                head = word if self._named else word[:2] if word <= "ー" else word[:-1] or word
                pairs = {term for term in self._pairs(head).split() if len(term) > 1 or term == head}
                names.append((terms | pairs if self._named else pairs, terms))
        return names

    def _tokens(self, text: str) -> Tokens:
        cut = self._segment if self._named else languages.apart
        if text not in self._cut:  # claims meet the same sentences again and again
            self._cut[text] = [
                (word, {word.casefold()} if _ONE.fullmatch(word) else {*self._analyzed(self._segment(word))})
                for word in _WORD.findall(cut(self._plain(text)))
            ]
        return self._cut[text]

    def _terms(self, text: str) -> set[str]:
        """The terms of a text, with those of the parts of names in code and of dates."""
        plain = self._segment(self._plain(text))
        words = _WORD.findall(plain)
        plain = " ".join(word for word in words if not _CODE_NUMBER.fullmatch(word))  # 2.5 holds no 5
        signed = {word.casefold() for word in words if not word.isalpha() or not word.islower()}
        dates = " ".join(match[0] for date in _DATES for match in date.finditer(_MAY.sub(_MONTH_OF_MAY, text)))
        signed.update({"one"} if "1" in words else ())
        return signed.union(self._analyzed(plain), self._analyzed(dates), _ISO.findall(text))

    def _analyzed(self, text: str) -> list[str]:
        for british, american in _SPELLINGS:
            text = british.sub(american, text)
        terms: list[str] = self._analyzer.analyze(text)
        return terms

    def _plain(self, text: str) -> str:
        for date in _DATES:
            text = date.sub(_iso, text)
        text = _MAY.sub(_MONTH_OF_MAY, text)  # which is no "may"
        text = re.sub("[¼-¾⅐-⅞]", lambda sign: f" {normalize('NFKC', sign[0])}", re.sub(_SIGN, "-", text))
        text = _FRACTION.sub(lambda part: f"{int(part[1] or 0) + int(part[2]) / int(part[3]):.9g}", text)
        text = _WHOLE.sub(r"\1", _DECIMAL.sub(".", text.replace("%", " percent ")))
        text = _COUNT.sub(lambda count: str(sum(_COUNTS.get(part.lower(), 1) for part in count.groups() if part)), text)
        text = self._grouped.sub("", _SINGLE.sub("1", text))
        text = _SCALED.sub(lambda number: f"{float(number[1]) * 1000 ** _SCALES[number[2].lower()]:.0f}", text)
        return languages.with_digits(text)


def _iso(date: re.Match[str]) -> str:
    month = _MONTHS.index(date["month"].lower()) % 12 + 1
    return f"{date['year']}-{month:02}-{int(date['day']):02}"
