"""The part of a reply that states its answer, in the ways in which models mark it."""

from __future__ import annotations

import json
import re

from reground.core.markers import marker_runs

_WORDS = (
    r"(?:answer|antwort|antwoord|réponse|respuesta|resposta|risposta|svar|vastaus|válasz|răspuns|απάντηση|ответ|cevap|yanıt"
    r"|பதில்|الإجابة|الجواب)"
)
"""The word for an answer in the languages that an index knows, and below in those that set no spaces."""
_ANSWER_LINE = re.compile(
    rf"(?im)^[ \t>*_#-]*+(?:final\s++)?+{_WORDS}(?:\s++finale?)?+[\s*_]*+(?:is)?+[\s*_]*+[:：][\s*_]*+(.*)$"
)
_ANSWER_INLINE = re.compile(rf"(?im)(?<![^\W_]){_WORDS}[ *]*+[:：]\**+\s++(\S.*)$")
_IS = r"(?:应该|应当|应|就)?+(?:[是为為はは은는：:]|คือ|ແມ່ន|គឺ)[:：]?+"
_ANSWER_UNSPACED = re.compile(
    r"(?:答案|答え|解答|回答|正解|정답|답변|คำตอบ|ຄຳຕອບ|ចម្លើយ|အဖြေ|[答답](?=[은는:：]))[*_ \t]*+"
    rf"(?:[】\]』」）)][*_ \t]*+(?:{_IS})?+|{_IS})[\s*_]*+([^\n。]+?)(?=(?:です|である|입니다)?\.?(?:[。\n]|\Z))"
)
_ANSWER_TAG = re.compile(r"(?i)<(?:final_)?answer>")
_ANSWER_FIELD = re.compile(
    r"""(?i)["'](?:final[_ ]?)?answer["']\s*+:\s*+"""
    r"""("(?:[^"\\]|\\.){0,999}+"|'[^'\n]{0,999}+'|\[[^]\n]{0,999}+\]|[^]\s,}]++)"""
)
_ANSWER_IS = re.compile(
    r"(?i)\b(?:answer is|answers are|antwort (?:ist|lautet)|antwoord is|réponse est|respuesta es|resposta é|risposta è"
    r"|svaret (?:är|er)|vastaus on|răspunsul este|απάντηση είναι)\b:?\s++(?=\S)"
)
_BOXED = re.compile(r"\\(?:boxed|fbox)\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}")
_LATEX = re.compile(r"\\(?:text\w*|mathrm|mathbf|mbox)\{([^{}]*+)\}|\\[()\[\]]|\\(?=[%$&#_])")
_STOP = re.compile(r"\.(?=\s|$)|[\n。]")
_OPENER = re.compile(r"\A\s*+(?:a|an|as|because|both|he|i|in|it|she|so|that|the|they|this)\b(?!\.)", re.IGNORECASE)
_NAMES = re.compile(r"\A\s*+[A-Z\d][\w'’-]*+(?:[ ,]++(?:[A-Z\d][\w'’-]*+|and|de|of|the|von))*+\s*+(?:[.\n]|\Z)")
_VERDICT = re.compile(r"(?i)(yes|no)[*_]*(?:[,;:]|\.(?!\s*\d))[*_]*(?:\s++\S++){4}")
_NEAR = 40
_MARKERS_BACKWARDS = re.compile(
    r"\A\s*+\.?\s*+(?:\]\d++(?:[ \t]*+[,;][ \t]*+\d++)*+\[[ \t]*+(?:(?:[,;&]|dna[ \t])[ \t]*+(?=\]))?+)++"
)
"""Markers at the end of a text that is written backwards, where "and" is "dna"."""
_SEVERAL = re.compile(r"\d[ \t]*[,;]")


def extract_phrase(text: str) -> str:
    """The phrase that a reply marks as its answer, else the one after "the answer is", else the last line.

    Marks are <answer>, a JSON field "answer", the last "Answer:", preferably at the start of a line and in any language
    that an index knows, and LaTeX's box.
    """
    stated = marked_answer(text) or sentence_answer(text)
    if stated is not None:
        return trim(stated)
    filled = [line.strip() for line in text.splitlines() if line.strip()]
    return trim(filled[-1]) if filled and not _ANSWER_LINE.fullmatch(filled[-1]) else ""


def extract_short(text: str) -> str:
    """The phrase, and of "Yes, both were born in France" the word alone.

    A yes or no with fewer than four words behind it stays, because it may be a title: "Yes, Prime Minister".
    """
    phrase = extract_phrase(text)
    verdict = _VERDICT.match(phrase)
    return phrase if verdict is None else verdict.group(1)


def marked_answer(text: str) -> str | None:
    """What a reply marks as its answer; None without a mark."""
    tagged = _ANSWER_TAG.split(text)[1:]
    if tagged and (inner := tagged[-1].partition("</")[0].strip()):
        return marked_answer(inner) or inner.rpartition("\n")[2]
    for field in _ANSWER_FIELD.findall(text)[-1:]:
        return _decoded(field)
    for pattern in (_ANSWER_LINE, _ANSWER_INLINE, _ANSWER_UNSPACED, _BOXED):
        found = [phrase for phrase in map(str.strip, pattern.findall(text)) if phrase]
        if found:
            return found[-1]
    return None


def _decoded(field: str) -> str:
    """A value of JSON as text, and a list with commas."""
    try:
        value = json.loads(field)
    except ValueError:
        return field.strip("'")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else field


def sentence_answer(text: str) -> str | None:
    """The rest of the sentence after the last "answer is"."""
    starts = [found.end() for found in _ANSWER_IS.finditer(text)]
    if not starts:
        return None
    rest = text[starts[-1] :]
    ends = (stop.start() for stop in _STOP.finditer(rest) if not _abbreviates(rest, stop.start()))
    return rest[: next(ends, len(rest))]


def _abbreviates(text: str, at: int) -> bool:
    """Whether a point is that of "Mt. Fuji", "John F. Kennedy", "Apple Inc. was" or "Warner Bros. Pictures".

    A capital, or a capital and consonants, stand for a longer word, unless a sentence begins behind them. So does a
    word of up to four letters with a capital before a small letter, a number, or names that end the sentence.
    """
    word = re.split(r"[\W\d_]", text[max(0, at - _NEAR) : at])[-1]
    rest = text[at + 1 : at + 1 + 2 * _NEAR]
    after = rest.lstrip()[:1]
    if text[at] != "." or not word or not after or "\n" in rest[: len(rest) - len(rest.lstrip())]:
        return False
    if after == "(":
        return True
    if after.isalpha() and (len(word) == 1 or re.fullmatch(r"[A-Z][b-df-hj-np-tv-xz]{1,3}", word)):
        return _OPENER.match(rest) is None or (text[at - 2 : at - 1] == "." and after.islower())
    if word.islower():
        return after.isdigit() and len(word) <= 3
    named = len(text[:at].split()) <= 3 and _NAMES.match(rest)
    return word[0].isupper() and len(word) <= 4 and (after.islower() or after.isdigit() or bool(named))


def trim(phrase: str) -> str:
    """The phrase without markup, LaTeX around its words, markers of passages and the point at its end."""
    for boxed in _BOXED.findall(phrase)[-1:]:
        phrase = boxed
    phrase = _LATEX.sub(r"\1", phrase).strip()
    phrase = phrase[1:-1] if phrase[:1] == phrase[-1:] == "$" else phrase
    return _uncited(phrase.strip()).strip("*_`\"'“”「」『』").rstrip(".。").strip()


def _uncited(phrase: str) -> str:
    """The phrase without markers at its end, such as [1][2] or [1, 2] and [3]. A list stays: "the interval [0, 1]"."""
    markers = _MARKERS_BACKWARDS.match(phrase[::-1])
    if markers is None:
        return phrase
    rest = phrase[: -markers.end()].rstrip()
    cut = phrase[len(rest) :]
    if _SEVERAL.search(cut):
        first = len(rest) + cut.index("[")
        if not rest or all(start != first for start, _, _ in marker_runs(phrase, most=0)):
            return phrase
    return rest
