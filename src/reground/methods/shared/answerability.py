"""Whether passages can hold the answer to a question, by the words of the question that they lack.

Answerability is that of Rajpurkar et al. 2018 ("Know What You Don't Know"). Words decide the clear cases: passages that
lack the names of a question are about something else, and those that have nearly all of its words are about it. In
between the model says whether they hold the answer; `docs/reproduction/reader.md` measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from reground.text.bm25 import terms
from reground.text.function_words import FUNCTION_WORDS

FEWEST, MOST = 0.2, 0.55
"""How much passages may lack to be taken to answer, and from where on they are not; fitted by
`benchmarks.answerability`."""
_NAME = 3.0
"""What a name or a number counts; another word counts 1."""
_TOGETHER = 2 / 3
"""What the texts together count, beside the best of them."""
_STEM = 6
"""Letters by which words are compared: an ending after them, such as a plural, does not count."""


def lacking(question: str, texts: Iterable[str]) -> float:
    """How much of a question's words the texts lack, from 0 to 1; 0 for a question without any.

    `_TOGETHER` of it is the share that none of them has, the rest the share that the best of them lacks: an answer
    mostly stands where most of the question does.
    """
    asked = _weights(question)
    held = [{stem for stem in map(_stem, terms(text)) if stem in asked} for text in texts]
    together = _share(asked, set().union(*held))
    return _TOGETHER * together + (1 - _TOGETHER) * min((_share(asked, each) for each in held), default=together)


def _share(asked: Mapping[str, float], held: Set[str]) -> float:
    """The share of the words' weight that is not among those held."""
    whole = sum(asked.values())
    return sum(weight for stem, weight in asked.items() if stem not in held) / whole if whole else 0.0


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
