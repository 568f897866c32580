"""Exact match, cover-EM, token F1, hit and gold recall: short answers against golds and their aliases.

Normalisation and F1 follow SQuAD (Rajpurkar et al. 2016, section 6.1), with HotpotQA's rule for yes and no: such an
answer gets no partial credit. In Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer a word is one letter, as in
CMRC 2018 (Cui et al. 2019) and KorQuAD (Lim et al. 2019). Every function takes all golden answers of a question and
returns the best value.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from reground.text.languages import UNSPACED_LETTER

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WIDE = {code + 0xFEE0: code for code in range(0x21, 0x7F)}
_UNSPACED = re.compile(UNSPACED_LETTER)
_QUOTES = "[\u00b7\u2010-\u2027\u3001-\u3003\u3008-\u3020\u30fb\uff61-\uff65]"
"""Punctuation of texts in these letters. An English text keeps its own, as in SQuAD."""
_BESIDE = re.compile(rf"(?<={UNSPACED_LETTER}){_QUOTES}++|{_QUOTES}(?={UNSPACED_LETTER})")
_UNDIVIDED = frozenset({"yes", "no", "noanswer"})


def normalise(text: str) -> str:
    """Lower-case, without ASCII punctuation and the articles a, an, the; single spaces.

    Letters of writing without spaces stand apart, without the punctuation beside them.
    """
    unspaced = _UNSPACED.search(text) is not None
    if unspaced:
        text = _BESIDE.sub("", text.translate(_WIDE))
    plain = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))
    return " ".join((_UNSPACED.sub(r" \g<0> ", plain) if unspaced else plain).split())


def exact_match(prediction: str, golds: Iterable[str]) -> float:
    """1 if the normalised prediction equals a normalised gold, else 0. A blank prediction matches nothing."""
    if not prediction.strip():
        return 0.0
    answer = normalise(prediction)
    return float(any(answer == normalise(gold) for gold in golds))


def cover_exact_match(prediction: str, golds: Iterable[str]) -> float:
    """1 if the prediction contains the words of a gold in a row, both normalised, else 0.

    Only whole words match: not "no" in "unknown", nor "5" in "1956". A gold that normalises to nothing never matches.
    """
    return float(_holds(normalise(prediction), golds))


def token_f1(prediction: str, golds: Iterable[str]) -> float:
    """The harmonic mean of precision and recall over the normalised words, as bags; between 0 and 1."""
    answer, best = normalise(prediction), 0.0
    for gold in map(normalise, golds):
        if answer == gold or not {answer, gold} & _UNDIVIDED:
            words, gold_words = answer.split(), gold.split()
            common = sum((Counter(words) & Counter(gold_words)).values())
            precision, recall = common / max(1, len(words)), common / max(1, len(gold_words))
            best = max(best, 2 * precision * recall / (precision + recall) if common else 0.0)
    return best


def hit(golds: Iterable[str], texts: Iterable[str]) -> float | None:
    """1 if one of the retrieved texts contains a gold's words in a row, else 0.

    None for yes-no questions, because any text may contain yes and no.
    """
    sought = [gold for gold in golds if normalise(gold) and normalise(gold) not in _UNDIVIDED]
    if not sought:
        return None
    return float(any(_holds(normalise(text), sought) for text in texts))


def gold_recall(gold_ids: Sequence[str], retrieved: Iterable[str]) -> float:
    """The share of the gold passages, at least one, that was retrieved."""
    gold = set(gold_ids)
    return len(gold & set(retrieved)) / len(gold)


def _holds(text: str, golds: Iterable[str]) -> bool:
    words = f" {text} "
    return any(f" {gold} " in words for gold in map(normalise, golds) if gold)


def option_exact_match(options: Collection[str], right: Collection[str]) -> float:
    """1 if exactly the right options were chosen, else 0. With one right option this is accuracy."""
    return float(bool(options) and set(options) == set(right))


def option_f1(options: Collection[str], right: Collection[str]) -> float:
    """The harmonic mean of precision and recall over the set of options; 0 if none was chosen."""
    common = len(set(options) & set(right))
    return 2 * common / (len(set(options)) + len(set(right))) if common else 0.0
