"""Whether passages can hold the answer to a question, by the words of the question that they lack.

Answerability is that of Rajpurkar et al. 2018 ("Know What You Don't Know"). Words decide the clear cases: passages that
lack the names of a question are about something else, and those that have nearly all of its words are about it. In
between, and where a question has no name, the model says whether they hold the answer; `docs/reproduction/reader.md`
measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reground.text.excerpts import FUNCTION_WORDS, terms

FEWEST, MOST = 0.15, 0.25
"""How much passages may lack to be taken to answer, and from where on they are not; docs/reproduction/reader.md has the
measurement."""
_NAME = 3.0
"""What a name or a number counts; another word counts 1."""
_STEM = 6
"""Letters by which words are compared: an ending after them, such as a plural, does not count."""


def lacking(question: str, texts: Iterable[str]) -> float | None:
    """The share of a question's words that none of the texts has, from 0 to 1.

    None for a question without a name or a number: its other words say too little of what it is about.
    """
    asked = _weights(question)
    if _NAME not in asked.values():
        return None
    there = {stem for text in texts for stem in map(_stem, terms(text))}
    return sum(weight for stem, weight in asked.items() if stem not in there) / sum(asked.values())


def _weights(question: str) -> Mapping[str, float]:
    """What each word of a question counts, by its stem. The first word's capital makes no name."""
    names = {_stem(term) for word in question.split()[1:] if any(map(str.isupper, word)) for term in terms(word)}
    return {
        stem: _NAME if stem in names or any(map(str.isdigit, stem)) else 1.0
        for stem in map(_stem, filter(_says, terms(question)))
    }


def _says(term: str) -> bool:
    """Whether a term is more than a function word or a letter that an apostrophe cut off."""
    return term not in FUNCTION_WORDS and (len(term) > 1 or term.isdigit() or not term.isascii())


def _stem(term: str) -> str:
    return term[:_STEM]
