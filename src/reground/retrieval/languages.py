"""How a language's text becomes search terms."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from reground.core.errors import ConfigurationError, MissingExtra

# ISO 639-1 codes, and the names under which tantivy knows their Snowball stemmers.
STEMMERS = {
    "ar": "arabic", "da": "danish", "nl": "dutch", "en": "english", "fi": "finnish", "fr": "french", "de": "german",
    "el": "greek", "hu": "hungarian", "it": "italian", "no": "norwegian", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
STOP_WORDS = {"da", "nl", "en", "fi", "fr", "de", "hu", "it", "no", "pt", "ru", "es", "sv"}
CHINESE = "zh"
UNSTEMMED = "none"

_LONGEST_TERM = 40
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")

Segmenter = Callable[[str], str]


def language_code(language: str) -> str:
    """The code of a language given by code or English name: "en", "English". Raises ConfigurationError."""
    wanted = language.strip().lower()
    codes = {**{code: code for code in STEMMERS}, **{name: code for code, name in STEMMERS.items()}}
    codes |= {CHINESE: CHINESE, "chinese": CHINESE, UNSTEMMED: UNSTEMMED}
    if wanted not in codes:
        known = ", ".join([*sorted(STEMMERS), CHINESE, UNSTEMMED])
        raise ConfigurationError(f"no stemmer for the language {language!r}; choose one of: {known}")
    return codes[wanted]


def analyzer(code: str) -> Any:
    """The tantivy analyzer of a language: words, lower case, without stop words, stemmed.

    Chinese text must have been through `segmenter` before.
    """
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(_LONGEST_TERM))
    builder = builder.filter(Filter.lowercase())
    if code in STOP_WORDS:
        builder = builder.filter(Filter.stopword(STEMMERS[code]))
    if code == CHINESE:
        builder = builder.filter(Filter.custom_stopword(list(_CHINESE_STOP_WORDS)))
    if code in STEMMERS:
        builder = builder.filter(Filter.stemmer(STEMMERS[code]))
    return builder.build()


def segmenter(code: str) -> Segmenter | None:
    """What puts spaces between a language's words, where its writing has none. Raises MissingExtra."""
    return _segment_chinese() if code == CHINESE else None


def _segment_chinese() -> Segmenter:
    try:
        import jieba
    except ImportError:
        raise MissingExtra("Chinese text", "zh") from None
    import logging

    jieba.setLogLevel(logging.WARNING)  # it tells about its dictionary on every start

    def segment(text: str) -> str:
        return " ".join(jieba.cut_for_search(text)) if _HAN.search(text) else text

    return segment


_CHINESE_STOP_WORDS = "的了和是在也与及或都而着就之其等吗呢吧啊"  # each a word of one character
