"""How a language's text becomes search terms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from typing import Any

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

VERSION = 2
"""Rises when a text gets other terms than before. An index by words that was made with other terms is made again."""

_LONGEST_TERM = 128
"""Bytes of a word: a SHA-512 in hexadecimal. Letters of other scripts take two or three bytes each."""
_MOST_MARKS = 30
"""Marks and signs in a row that are looked at (UAX 15, section 13): to put them in order takes the square of their
number."""
_LONG_RUN = re.compile(rf"([^\w\s\x00-\x7f]{{{_MOST_MARKS}}})[^\w\s\x00-\x7f]+")
_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u2060\ufeff"))  # soft hyphens and the like, which stand inside of words
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")

UNSPACED_LETTER = (
    r"[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\U00020000-\U0003134f]"
)
"""The class of the letters of Han, kana, Hangul, Thai, Lao, Burmese and Khmer, for a pattern."""
_UNSPACED = re.compile(f"{UNSPACED_LETTER}+")

Segmenter = Callable[[str], str]


def language_code(language: str) -> str:
    """The code of a language given by code or English name: "en", "English". Raises ConfigurationError."""
    wanted = language.strip().lower()
    names = {**STEMMERS, **UNSPACED, CHINESE: "chinese", UNSTEMMED: UNSTEMMED}
    for code, name in names.items():
        if wanted in (code, name):
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


def _usual(text: str) -> str:
    """A text that is not ASCII alone with each letter written in one way."""
    return unicodedata.normalize("NFKC", _LONG_RUN.sub(r"\1", text)).translate(_UNSEEN)


def _in_pairs(text: str) -> str:
    def pairs(run: re.Match[str]) -> str:
        letters = [character for character in run.group() if character.isalpha()]  # no tone marks and the like
        return f" {' '.join([*letters, *map(''.join, pairwise(letters))])} "

    return text if text.isascii() else _UNSPACED.sub(pairs, _usual(text))


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
