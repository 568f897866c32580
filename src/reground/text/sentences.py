"""Split text into sentences with sentencex (Wikimedia), and find the names in them.

The library knows the abbreviations of many languages, initials, quotes and marks. Two rules are added for text that
models write: the number of a list item belongs to the sentence after it, and no sentence ends inside a word or an
address. `tests/text/test_sentences.py` has hard cases. Which abbreviations end no sentence depends on the language. It
is guessed by letters and the commonest words, for a wrong guess costs little. Names are runs of words with capital
letters, so scripts without them have none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from sentencex import segment

_LINE = re.compile(r"([^\n]*)(?:\n\s*|\Z)")
_LABEL = re.compile(r"\W{0,9}(?:(?:step|thought)\s?)?\d{1,3}[.)]\W{0,9}", re.IGNORECASE)
_SPACE = re.compile(r"[^\S\n]")
_UNIT = re.compile(
    r"(?<=\d) ?(?:%|[a-zµ][a-z]?(?:[A-Z][a-z]?)?|[A-Z]{2,3}[a-z]?|[^\W\d]{0,3}[/°²³^][\w²³]{1,3})(?=\.\s+[A-Z])"
)
"""A sign of a unit before the end of a sentence: t, kWh, MB, m/s. An abbreviation of three small letters is none."""
_CODE = re.compile(r"`[^`\n]{1,200}+`")
_INCH, _OPENING = re.compile(r'(?<=\d)"'), re.compile(r'(?<![\w"])"(?=\w)')
_WINDOW = 2000  # characters examined together: in Chinese or Japanese the library's time grows with their square


def sentences(text: str) -> list[str]:
    """The sentences with the white space around them; together they are the text. A new line ends a sentence too."""
    ends = [0]
    for end in _ends(text, likely_language(text)):
        start = ends[-1]
        is_inside = end == len(text) or (text[end - 1] in ".!?" and not text[end].isspace())  # of a word or an address
        if not (is_inside or text[start:end].isspace() or _LABEL.fullmatch(text, start, min(end, start + 40))):
            ends.append(end)
    return [text[start:end] for start, end in pairwise([*ends, len(text)]) if start < end]


def _ends(text: str, language: str) -> Iterator[int]:
    """Where sentencex sees an end. The last piece of a window inside a line is examined again with the next text."""
    for line in _LINE.finditer(text):
        start, stop = line.span(1)
        while start < stop:
            window = text[start : min(start + _WINDOW, stop)]
            ends = _agreed(window, language)
            if start + len(window) < stop and len(ends) > 1:
                ends.pop()
            yield from (start + end if start + end < stop else line.end() for end in ends)
            start += ends[-1]


def _agreed(text: str, language: str) -> list[int]:
    """Where a sentence ends by the rules of English, which know most initials and titles, and by the language's own."""
    text = _SPACE.sub(" ", text)  # the library panics at a capital, a no-break space and a full stop
    text = text.replace(" May.", " Day.")  # it takes the month for an abbreviation
    text = _UNIT.sub(lambda unit: "a" * len(unit[0]), text)  # and the unit of a number
    # In code and after inches a quotation mark opens no quotation, which would go on to the next mark.
    text = _CODE.sub(lambda code: "A" + "a" * (len(code[0]) - 1), text)
    text = text if _OPENING.search(text) else _INCH.sub("a", text)
    ends = list(accumulate(map(len, segment(ENGLISH, text))))
    if language == ENGLISH:
        return ends
    own = set(accumulate(map(len, segment(language, text))))
    return [end for end in ends if end in own]


_CAPITALISED = r"[^\W\d_a-z][\w'’.&-]*"
_LINK = r"(?:of|the|de|del|della|la|le|du|des|van|von|der|den|di|da|al|el|bin)"
_NAME = re.compile(rf"{_CAPITALISED}(?:(?:\s{_LINK}){{0,2}}\s(?:{_CAPITALISED}|\d+))*")
_OWNER = re.compile(r"['’]s\b")
_LOWER = re.compile(r"\b[a-z][\w'’-]*")
_MOST = 64  # names that are told
_LONGEST = 8  # words of a name; more are a heading or a list


def names_in(texts: Iterable[str]) -> list[str]:
    """The names in texts, in the order in which they stand, each once.

    A first word that the texts also write in small letters, such as "The" or "During", is no part of a name.
    """
    read = list(texts)
    common = {word for text in read for word in _LOWER.findall(text)}
    names: dict[str, str] = {}
    for sentence in (each for text in read for each in sentences(text)):
        for match in _NAME.finditer(sentence):
            words = _OWNER.sub("", match.group().rstrip(".'’&-")).split()
            while words and (words[0].casefold() in common or not words[0][0].isupper()):
                del words[0]
            name = " ".join(words)
            if len(name) > 2 and len(words) <= _LONGEST:
                names.setdefault(name.casefold(), name)
    return list(names.values())[:_MOST]


ENGLISH = "en"

_SAMPLE = 4000  # characters
_FEWEST = 2  # words: one may stand in a name
_LETTERS = (("uk", re.compile(r"[іїєґ]")), ("ru", re.compile(r"[а-яё]")), ("el", re.compile(r"[α-ω]")))
_WORDS = {
    ENGLISH: "the of and to is was that for it with by this are were which from as on at be his an has in a he she had "
    "not who but born do i you we they will can if or no",
    "cs": "je se na že jsou byl byla jako nebo také podle kde své který která ve ze do od po pro",
    "da": "og er af til på det den som ikke med var blev også efter han i en et ved har",
    "de": "der und ist das nicht ein eine von mit den dem des zu auf für wurde auch als im am bei sich er es die in",
    "es": "el los las del y en que una por con es fue como su para se más pero nació de la un",
    "fi": "ja on ei se että oli ovat joka myös mutta kuin hän vuonna kun syntyi",
    "fr": "le les des est et une dans que pour du il elle qui sur au par a été aux de la un en à",
    "hu": "az és hogy nem egy volt is meg ez a",
    "it": "il di che è della del una con gli per sono nel al da dei anche si la un nella",
    "nl": "het een van de en dat niet voor met zijn werd ook op bij naar door is in",
    "no": "og er av til på det den som ikke med var ble også etter han i en et ved har",
    "pl": "w i na z że jest się do nie to był była przez oraz od jako po ze",
    "pt": "o os do da em que uma não para é foi dos das ao mais por na no de a um",
    "ro": "și este în care din pe cu la nu fost sau al ale lui de un o",
    "sv": "och att det som är på för av inte med var den till har från en ett i",
    "tr": "ve bir bu için ile de da olarak olan çok daha gibi",
}
"""Short words that most sentences of a language have."""
_LANGUAGES: dict[str, list[str]] = {}
for _code, _words in _WORDS.items():
    for _word in set(_words.split()):
        _LANGUAGES.setdefault(_word, []).append(_code)
_WORD = re.compile(r"[^\W\d_]+")


def likely_language(text: str) -> str:
    """The ISO 639-1 code, "en" where nothing tells. Only the beginning of the text is looked at."""
    start = text[:_SAMPLE].lower()
    if not start.isascii():
        letters = {code: len(letter.findall(start)) for code, letter in _LETTERS}
        if max(letters["ru"], letters["el"]) > sum(map(len, re.findall(r"[a-z]+", start))):
            return "el" if letters["el"] > letters["ru"] else "uk" if letters["uk"] else "ru"
    votes = Counter(code for word in _WORD.findall(start) for code in _LANGUAGES.get(word, ()))
    best, count = max(votes.items(), key=lambda item: (item[1], item[0] == ENGLISH), default=(ENGLISH, 0))
    return best if count >= max(_FEWEST, votes[ENGLISH] + 1) else ENGLISH
