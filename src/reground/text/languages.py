"""How a language's text becomes search terms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from reground.core.errors import ConfigurationError, MissingExtra

# ISO 639-1 codes, and the names under which tantivy knows their Snowball stemmers.
STEMMERS = {
    "ar": "arabic", "da": "danish", "nl": "dutch", "en": "english", "fi": "finnish", "fr": "french", "de": "german",
    "el": "greek", "hu": "hungarian", "it": "italian", "no": "norwegian", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
# Languages without a stemmer that are written without spaces, or, as Korean, with endings that no space sets off.
UNSPACED = {"ja": "japanese", "ko": "korean", "th": "thai", "lo": "lao", "km": "khmer", "my": "burmese"}
STOP_WORDS = {"da", "nl", "en", "fi", "fr", "de", "hu", "it", "no", "pt", "ru", "es", "sv"}
CHINESE = "zh"
UNSTEMMED = "none"

VERSION = 4
"""Rises when a text gets other terms than before. An index by words that was made with other terms is made again."""

_LONGEST_TERM = 128
"""Bytes of a word: a SHA-512 in hexadecimal. Letters of other scripts take two or three bytes each."""
_MOST_MARKS = 30
"""Marks and signs in a row that are looked at (UAX 15, section 13): to put them in order takes the square of their
number."""
_LONG_RUN = re.compile(rf"([^\w\s\x00-\x7f]{{{_MOST_MARKS}}})[^\w\s\x00-\x7f]+")
_USUAL = str.maketrans("\u02bb\u02bc\u02be\u02bf\u2018ς", "'''''σ", "\u00ad\u200d\u2060\ufeff")
"""Apostrophes, the sigma at the end of a word, and soft hyphens and the like, which stand inside of words."""
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")

UNSPACED_LETTER = (
    r"[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\U00020000-\U0003134f]"
)
"""The class of the letters of Han, kana, Hangul, Thai, Lao, Burmese and Khmer, for a pattern."""
_UNSPACED = re.compile(f"{UNSPACED_LETTER}+")

CONTENT = re.compile(rf"{_HAN.pattern}++|[\u30a1-\u30fa\u30fc]++")
"""A run of Chinese characters or of katakana, which write what says something in Japanese; the rest is hiragana."""
HIRAGANA = re.compile(r"[\u3041-\u3096]++")
VERBAL = ("し", "さ", "す", "せ")  # with these begin the endings that make a verb of a noun in Japanese
_NUMERAL = re.compile(r"(\d{1,9}(?:\.\d{1,4})?(?=[十百千万億亿]))?([〇零一二两兩三四五六七八九十百千万億亿]{1,20})")

Segmenter = Callable[[str], str]


def language_code(language: str) -> str:
    """The code of a language given by code or English name: "en", "English". Raises ConfigurationError."""
    key = language.strip().lower()
    names = {**STEMMERS, **UNSPACED, CHINESE: "chinese", UNSTEMMED: UNSTEMMED}
    for code, name in names.items():
        if key in (code, name):
            return code
    choices = ", ".join([*sorted(names.keys() - {UNSTEMMED}), UNSTEMMED])
    raise ConfigurationError(f"no stemmer for the language {language!r}; choose one of: {choices}")


def analyzer(code: str) -> Any:
    """The tantivy analyzer of a language: words, lower case, without stop words, stemmed.

    The text must have passed through `segmenter` first.
    """
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(_LONGEST_TERM + 1))
    builder = builder.filter(Filter.lowercase())
    if code in STOP_WORDS:
        builder = builder.filter(Filter.stopword(STEMMERS[code]))
    if code == CHINESE:
        builder = builder.filter(Filter.custom_stopword(list(_CHINESE_STOP_WORDS)))
    if code in STEMMERS:
        builder = builder.filter(Filter.stemmer(STEMMERS[code]))
    return builder.build()


def segmenter(code: str) -> Segmenter:
    """The function that writes a text's letters in one way, and puts spaces between words in writing without spaces.

    Decomposed letters, ligatures and letters of other widths become the usual ones (NFKC), and soft hyphens go, because
    they are the same word to a reader.

    Chinese (zh) is cut into words by jieba. In an index of any other language, runs of Chinese, Japanese, Korean, Thai,
    Lao, Khmer and Burmese become single characters and overlapping pairs, so that they are found whatever the language.
    Raises MissingExtra.
    """
    return _segment_chinese() if code == CHINESE else _in_pairs


def with_digits(text: str) -> str:
    """A text with its numbers in Chinese characters in digits: 2500 for 二千五百 and 120000 for 12万, and 14 for ١٤."""
    return text if text.isascii() else _NUMERAL.sub(_digits, re.sub(r"\d", lambda digit: str(int(digit[0])), text))


def _digits(number: re.Match[str]) -> str:
    if number[0] == "一" or number[0][0] in "万億亿":  # begins many words
        return number[0]
    whole = part = 0.0
    digit = float(number[1] or 0)
    for letter in number[2]:
        value = unicodedata.numeric(letter.replace("两", "二"))
        if value < 10:
            digit = 10 * digit + value
        elif value < 10_000:
            part, digit = part + (digit or 1) * value, 0.0
        else:
            whole, part, digit = whole + (part + digit or 1) * value, 0.0, 0.0
    return f"{whole + part + digit:.15g}"


def apart(text: str) -> str:
    """A text with spaces around each run of Chinese characters, of katakana and of hiragana."""
    return text if text.isascii() else HIRAGANA.sub(r" \g<0> ", CONTENT.sub(r" \g<0> ", text))


@cache
def chinese_words() -> tuple[frozenset[str], frozenset[str]]:
    """All words of jieba's dictionary, and those of them that name persons, places, organisations and works."""
    import jieba

    with jieba.get_dict_file() as file:
        kinds = {word: kind for word, _, kind in map(str.split, file.read().decode().splitlines())}
    return frozenset(kinds), frozenset(word for word, kind in kinds.items() if re.match("n[rstz]", kind))


def _usual(text: str) -> str:
    """A text that is not ASCII alone with each letter written in one way."""
    return unicodedata.normalize("NFKC", _LONG_RUN.sub(r"\1", text)).translate(_USUAL)


def _in_pairs(text: str) -> str:
    def pairs(run: re.Match[str]) -> str:
        letters = [character for character in run.group() if character.isalpha()]  # no tone marks and the like
        return f" {' '.join([*letters, *map(''.join, pairwise(letters))])} "

    return text if text.isascii() else _UNSPACED.sub(pairs, _usual(text))


_POINTS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
_JOINT = r"[-.'’@/+&\u200b\u200c]|::?"
_LETTER = rf"[\w{_POINTS}]"
_NAME = rf"{_LETTER}++(?:(?:{_JOINT}){_LETTER}++)*+"
_NAMES = re.compile(_NAME)
_PLAIN = rf"[A-Za-z]?[a-z]*+(?!{_LETTER}|(?:{_JOINT}){_LETTER})"  # most words, which have no other spelling
_SPELT = re.compile(rf"(?<!{_LETTER})(?!{_PLAIN}){_NAME}")
_JOINTS = re.compile(rf"{_JOINT}|_++")
_ELISION = re.compile(r"['’](?:[dmst]|ll|re|ve)\Z", re.IGNORECASE)  # of don't and it's
_STRONG_JOINT = re.compile(r"[@/+&]|::")
_NUMBERS = re.compile(rf"(?<!\d)\d++(?:(?:{_JOINT})\d++)++")
_BETWEEN = "ǀ"  # what joins the numbers of a version, a date or an address in one word, a letter of no common language
_LONG_NUMBER = 8  # digits by which a number without its marks is known: of a book, a telephone, a date
# A name at the beginning of an entry, with what may mark it up, or behind words such as "def" and "static int".
_ENTRY = rf"^[^\w\n]{{0,9}}(?:\w{{1,20}}::?[ \t]*+){{0,3}}?({_NAME})[`*_\"')\]]{{0,4}}+[ \t]*+"
_OF_ENTRY = r"(?:$|=(?!=)|:(?!:)|\||[-–—][ \t]|\([^\n]*[{:]$)"
_WORDS = r"(?:[\w<>\[\],]{1,40}[ \t]++)"
_CODE = rf"^[ \t]*+({_WORDS}{{1,8}}?{_NAME})[ \t]*+(?:\([^\n]*[{{(\[}}:,]$|\{{$|:?=(?!=))"
_DEFINING = re.compile(rf"{_ENTRY}{_OF_ENTRY}|{_CODE}|^[ \t]*+{_WORDS}({_NAME}):$", re.MULTILINE)
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
_ARABIC = str.maketrans({"ى": "ي", "ی": "ي", "ة": "ه", "ک": "ك", "\u0640": ""})


class Spellings(NamedTuple):
    """Words under which those of a text are found too.

    names: compounds, each as a single word: servername for SERVER_NAME, usa for U.S.A. numbers: those such as 2.10.3
    and 10.0.12.7, each as a single word. words: those inside of parseHTMLResponse, and those with other letters without
    what stands on them: dvorak and lodz. defined: the names that stand where a line defines something.
    """

    names: set[str]
    numbers: set[str]
    words: set[str]
    defined: set[str]


def spellings(text: str) -> Spellings:
    """The other spellings of a text's words."""
    text = text if text.isascii() else _usual(text)
    entries = " ".join(map("".join, _DEFINING.findall(text)))
    result = Spellings(set(), set(), set(), {_JOINTS.sub("", name) for name in _NAMES.findall(entries.lower())})
    for run in set(_SPELT.findall(text)):
        if len(run) <= _LONGEST_TERM:
            parts = _JOINTS.split(run)
            names = [run] if _ELISION.search(run) is None else []
            names += [part for part in re.split(_JOINT, run) if "_" in part]
            names += [part for part in _STRONG_JOINT.split(run) if part != run]
            result.names.update(_compound(name) for name in names if _JOINTS.search(name))
            result.numbers.update(re.sub(_JOINT, _BETWEEN, number) for number in _NUMBERS.findall(run))
            for part in parts:
                result.words.update(_inside(part))
                result.words.update(() if part.isascii() else _folded(part))
    return result


def identifiers(query: str) -> set[str]:
    """The names in a query that are asked alone or written like those of programs and addresses."""
    runs = _NAMES.findall(query)
    names = (
        run for run in runs if len(runs) == 1 or not {"_", "@"}.isdisjoint(run) or (run.isalnum() and _inside(run))
    )
    return {_JOINTS.sub("", name.lower()) for name in names}


def _compound(name: str) -> str:
    """A compound as one word without marks; "" for one of few digits alone, which would be another number."""
    word = _JOINTS.sub("", next(iter(_folded(name)), name.lower()))
    return "" if word.isdecimal() and len(word) < _LONG_NUMBER else word


def _inside(name: str) -> list[str]:
    """The words of a name in which capitals set them off; none if it is one word."""
    cuts = [
        at
        for at in range(1, len(name))
        if name[at].isupper() and (not name[at - 1].isupper() or name[at + 1 : at + 2].islower())
    ]
    if not cuts or name[cuts[0] + 1 :] == "s":  # URLs
        return []
    return [name[start:end] for start, end in pairwise([0, *cuts, len(name)])]


def _folded(word: str) -> Iterator[str]:
    """A word without accents, points and strokes, and with ae for ä; nothing if that is how it is written."""
    word = word.lower()
    for letters in dict.fromkeys((word, word.translate(_UMLAUTS))):
        bare = unicodedata.normalize("NFD", letters.translate(_ARABIC))
        bare = unicodedata.normalize("NFC", "".join(letter for letter in bare if not _is_accent(letter)))
        bare = bare if bare.isascii() else " ".join(_to_ascii().analyze(bare))
        if bare != word:
            yield bare


def _is_accent(letter: str) -> bool:
    """Whether a mark leaves the same letter: an accent, or a point of Hebrew or Arabic, and no vowel sign of India."""
    return 10 <= (kind := unicodedata.combining(letter)) <= 36 or kind >= 200


@cache
def _to_ascii() -> Any:
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    return TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.ascii_fold()).build()


def _segment_chinese() -> Segmenter:
    try:
        import jieba
    except ImportError:
        raise MissingExtra("Chinese text", "zh") from None
    import logging

    jieba.setLogLevel(logging.WARNING)  # it tells about its dictionary on every start

    def segment(text: str) -> str:
        text = text if text.isascii() else _usual(text)
        return " ".join(jieba.cut_for_search(text)) if _HAN.search(text) else text

    return segment


_CHINESE_STOP_WORDS = "的了和是在也与及或都而着就之其等吗呢吧啊"  # each a word of one character
