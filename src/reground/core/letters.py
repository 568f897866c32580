"""The letters of the options that a reply chooses, and not those that it argues against."""

from __future__ import annotations

import re

from reground.core.numerals import WIDE
from reground.core.phrases import marked_answer, sentence_answer, trim

_BETWEEN_LETTERS = r"(?:\s*+|[)）.]*+\s*+(?:[,、;；/&+和及与與と]|and\b)++(?:\s*+and\b)?\s*+|[)）]\s*+(?=[(（]))[(（]*+"
"""A closed bracket needs a comma, "and" or another bracket behind it: in "A) E. coli" one option is chosen."""
_OPTIONS = rf"(?<![A-Za-z])[A-H](?:{_BETWEEN_LETTERS}[A-H])*(?![A-Za-z])"
_LETTERS = re.compile(_OPTIONS)
_SMALL_LETTERS = re.compile(
    rf"(?:\A[^\w\n]*+|\b(?:options?|choices?|is) \(?|\()([a-h](?:{_BETWEEN_LETTERS}[a-h])*)(?:[).:](?!\w)|[^\w\n]*+\Z)"
)
_LETTERS_ALONE = re.compile(rf"(?m)^[^\w\n]*+({_OPTIONS}|[a-h])[^\w\n]*+$")
_LETTERS_CHOSEN = re.compile(rf"(?<![不没])[选選](?![项項])[择擇]?[^\w\n]*+(?:选项|選項)?[^\w\n]*+({_OPTIONS})")
_OPTION_LINE = re.compile(r"(?m)^[^\w\n]*+([A-H])[.):：、](?!\w)")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_REASON = re.compile(r"\b(?:because|since|whereas|while)\b|因为|由于|而(?!非)")
_ARTICLE = re.compile(r" (?!(?:is|are|was|were|and|or|nor|but|because|since|as|has|would|seems)\b)[a-z]")
_DENIED_BEFORE = re.compile(
    r"(?:(?i:\b(?:not|nor|neither|than|over|except|excluding|without|instead of)\b|n['’]t)"
    r"|不选|不是|不为|[并而]非|排?除)[^\w\n]*+(?:(?:be|the|options?|choices?)[^\w\n]++)*+(?:选项)?\Z"
)
_DENIED_AFTER = re.compile(
    r"\A[^\w\n]*+(?:(?:is|are|was|were)(?:n['’]t| (?:\w++ly )?(?:not|wrong|incorrect|false)\b)"
    r"|can be (?:ruled|eliminated)|[^\s，。；,;.A-H]{0,6}?(?:错|不正确|不对|不符|不选|有误))"
)
_NEAR = 40


def extract_letters(text: str) -> str:
    """The chosen option letters A to H, sorted and without repeats, e.g. "AC".

    They are those in the marked answer. Without a mark they are those after "the answer is", those that are chosen in
    Chinese, those of a line without a word, or of the option with which a reply begins, and then those that the last or
    else the first line ends with, or in Chinese names, and does not deny.
    """
    text = text.translate(WIDE).replace("*", "")
    marked = marked_answer(text)
    places = [marked if marked is not None else sentence_answer(text) or "", *_LETTERS_CHOSEN.findall(text)[-1:]]
    lines = [line for line in text.splitlines() if line.strip()] if marked is None else []
    if lines:
        options = _OPTION_LINE.findall(text) if _OPTION_LINE.match(lines[0]) else []
        places += [*_LETTERS_ALONE.findall(text)[-1:], *(options if len(options) == 1 else [])]
    chosen = [_letters(trim(place))[:1] for place in places]
    named = [_named(line) for line in (*lines[-1:], *lines[:1])]
    groups = next((each for each in (*chosen, *named) if each), [])
    return "".join(sorted(set(re.sub(r"and|[^a-hA-H]", "", "".join(groups)).upper())))


def _named(line: str) -> list[str]:
    """The letters that a line without a mark comes to: of "A or rather B" the last ones; in Chinese all."""
    groups = _letters(line)
    if _CHINESE.search(line):
        return groups
    return groups[:1] if _OPTION_LINE.match(line) else groups[-1:]


def _letters(phrase: str) -> list[str]:
    """The groups of letters in the first part of a phrase that names some and does not deny them."""
    for part in _REASON.split(phrase):
        found = [group for group in _LETTERS.finditer(part) if not _denied(group)]
        articles = [group for group in found if group[0] == "A" and _ARTICLE.match(part, group.end())]
        if found:
            return [group[0] for group in found if group not in articles or len(found) == 1]
    return _SMALL_LETTERS.findall(phrase)


def _denied(group: re.Match[str]) -> bool:
    """Whether letters are told to be wrong."""
    before = group.string[max(0, group.start() - _NEAR) : group.start()]
    after = group.string[group.end() : group.end() + _NEAR]
    return bool(_DENIED_BEFORE.search(before) or _DENIED_AFTER.match(after))
