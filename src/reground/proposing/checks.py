"""What a proposed question must be, as far as no model is needed to see it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reground.core.errors import ParseError
from reground.core.evidence import Passage
from reground.evaluation.metrics.text import cover_exact_match, exact_match, hit, normalise, token_f1
from reground.text.sentences import sentences

AGREE = 0.6
"""Token F1 from which two short answers are the same: "Baltic Sea" and "the Baltic" have 0.67."""
ALIKE = 0.8
"""Token F1 from which two questions are the same."""

_MOST_WORDS = 12  # of an answer
_MOST_CHARACTERS = 400  # of a question
_LONGEST_QUOTE = 300  # characters of a sentence that shows the evidence
_ENDS = ("?", "？", "؟")
_OF_PASSAGES = re.compile(r"\bpassages?\b|\bPassages? \d")
"""Not the Northwest Passage."""


def read_proposal(reply: str) -> tuple[str, str]:
    """The question and the answer of a reply of the form asked for. Raises ParseError with what to do better."""
    found = {"question": "", "answer": ""}
    for line in reply.splitlines():
        name, colon, rest = line.strip(" \t*#_>-").replace("：", ":", 1).partition(":")
        key = name.strip(" *_").lower()
        if colon and key in found and not found[key]:
            found[key] = rest.strip().strip("*_").strip()
    question, answer = found["question"], found["answer"].strip("\"'“”").rstrip(".")
    if not question or not answer:
        raise ParseError("write two lines, 'Question: ...' and 'Answer: ...'.")
    if not question.endswith(_ENDS) or len(question) > _MOST_CHARACTERS:
        raise ParseError("the question must be one short sentence that ends with a question mark.")
    if len(answer.split()) > _MOST_WORDS:
        raise ParseError(f"the answer must have at most {_MOST_WORDS} words.")
    return question, answer


def flaw(question: str, answer: str, passages: Iterable[Passage]) -> str | None:
    """Why a proposal cannot be used; None if nothing is wrong with it."""
    if not any(holds(passage.text, answer) for passage in passages):
        return "the answer stands in no passage"
    if holds(question, answer):
        return "the question holds the answer"
    if _OF_PASSAGES.search(question):
        return "the question speaks of passages"
    return None


def holds(text: str, phrase: str) -> bool:
    """Whether a text holds a phrase: as whole words, or anywhere in writing without spaces. Yes and no never count."""
    found = hit([phrase], [text])
    if found or found is None or phrase.isascii():
        return bool(found)
    return normalise(phrase) in normalise(text)


def agrees(said: str, expected: str) -> bool:
    """Whether a short answer says the same as another one."""
    return bool(exact_match(said, [expected])) or token_f1(said, [expected]) >= AGREE


def gives_away(said: str, expected: str) -> bool:
    """Whether an answer says another one, however much stands around it."""
    return agrees(said, expected) or bool(cover_exact_match(said, [expected]))


def is_repeated(question: str, others: Iterable[str]) -> bool:
    """Whether a question is nearly one of the others."""
    return token_f1(question, others) >= ALIKE


def quote(passage: Passage, phrase: str) -> str:
    """The sentence of a passage that holds a phrase, else its first one; for people to read."""
    parts = [" ".join(each.split()) for each in sentences(passage.text) if each.strip()]
    found = next((each for each in parts if holds(each, phrase)), parts[0] if parts else "")
    return found if len(found) <= _LONGEST_QUOTE else f"{found[:_LONGEST_QUOTE]} ..."
