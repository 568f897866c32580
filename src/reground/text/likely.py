"""The language that a text is probably written in, by its letters and its commonest words.

It decides only which abbreviations end no sentence, so a wrong guess costs little and a model of languages would be too
much.
"""

from __future__ import annotations

import re
from collections import Counter

ENGLISH = "en"

_LOOKED_AT = 4000  # characters
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
    start = text[:_LOOKED_AT].lower()
    if not start.isascii():
        letters = {code: len(letter.findall(start)) for code, letter in _LETTERS}
        if max(letters["ru"], letters["el"]) > sum(map(len, re.findall(r"[a-z]+", start))):
            return "el" if letters["el"] > letters["ru"] else "uk" if letters["uk"] else "ru"
    votes = Counter(code for word in _WORD.findall(start) for code in _LANGUAGES.get(word, ()))
    best, count = max(votes.items(), key=lambda item: (item[1], item[0] == ENGLISH), default=(ENGLISH, 0))
    return best if count >= max(_FEWEST, votes[ENGLISH] + 1) else ENGLISH
