"""One question as a page tells it: the trajectory with what was marked, changed and spent.

A trajectory does not name the text that a reply is a new version of. It is looked for in the prompt, and where the
prompt holds no such text, as when a method asks again with other passages, among the replies before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from reground.core.answers import Answer
from reground.core.language import Message
from reground.core.trajectory import GenerateStep, RetrieveStep, Trajectory
from reground.evaluation.results import stages_of, timed
from reground.text.alignment import changes
from reground.text.excerpts import FUNCTION_WORDS
from reground.text.languages import analyzer, segmenter

QUERY, SUPPORT = "q", "s"  # the marks: a word of the query, a sentence that supports the answer

_WORD = re.compile(r"\w+")
_LONGEST = 200  # characters of a word that is looked at. A longer one is data, such as an encoded picture
_LEAST = 0.4  # the share of words that a revision keeps, of the longer of both texts. Another kind of reply keeps fewer
_FEW = 8  # words of a reply from which on it may be a version of one that its prompt does not hold. A verdict has fewer
_SHORT = 8  # characters of a line that is known only if it is a whole line of an earlier reply
_MARKER = re.compile(r"\[\d+\]")


def story(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as JSON values, with more than its own fields.

    stages: cost by the name of the step. Each step that costs time has its `seconds`; a reply that revises a text has
    `changes`, as `text.alignment.changes` gives them; a passage has `parts`, as `marked` gives them, instead of a text;
    a thought with a draft has `changes`. Tokens' probabilities are left out but for their mean, `logprob`.
    """
    seconds = {id(step): taken for step, taken in timed(trajectory.steps)}
    quotes: dict[str, list[str]] = {}  # what supports the answer, by the passage that it is from
    for sentence in trajectory.answer.sentences if trajectory.answer is not None else ():
        for support in sentence.supports:
            quotes.setdefault(support.passage_id, []).append(support.quote)
    earlier: list[str] = []
    steps = []
    for step in trajectory.steps:
        data = step.model_dump(mode="json", exclude={"replies": {"__all__": {"token_logprobs"}}})
        if id(step) in seconds:
            data["seconds"] = seconds[id(step)]
        if isinstance(step, RetrieveStep):
            for shown, passage in zip(data["passages"], step.passages, strict=True):
                del shown["text"]
                shown["parts"] = marked(passage.text, step.query, quotes.get(passage.id, ()))
        elif isinstance(step, GenerateStep):
            for shown, reply in zip(data["replies"], step.replies, strict=True):
                shown["logprob"] = reply.mean_logprob
                if (before := text_before(step.messages, reply.text, earlier)) is not None:
                    shown["changes"] = list(changes(before, reply.text.strip()))
            earlier += [reply.text for reply in step.replies]
        steps.append(data)
    return {
        **trajectory.model_dump(mode="json", exclude={"steps", "answer"}),
        "answer": None if trajectory.answer is None else _answer(trajectory.answer),
        "steps": steps,
        "stages": [{"name": name, **stage.model_dump()} for name, stage in stages_of(trajectory).items()],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    data = answer.model_dump(mode="json")
    for shown, thought in zip(data["steps"], answer.steps, strict=True):
        if thought.draft is not None and thought.draft.strip() != thought.text.strip():
            shown["changes"] = list(changes(thought.draft.strip(), thought.text.strip()))
    for shown, sentence in zip(data["sentences"], answer.sentences, strict=True):
        shown["supported"] = sentence.supported
    return data


def marked(text: str, query: str, quotes: Iterable[str]) -> list[tuple[str, str]]:
    """The text in pieces, each with its marks: "", "q", "s" or "qs".

    Words are compared as a search in English compares them: by their stems and without stop words; in writing without
    spaces by pairs of characters. quotes: sentences of the text, with any white space.
    """
    spans = [(start, end, QUERY) for start, end in _matches(text, _terms(query))]
    patterns = (r"\s+".join(map(re.escape, quote.split())) for quote in quotes if quote.strip())
    spans += [(*found.span(), SUPPORT) for pattern in patterns if (found := re.search(pattern, text))]
    edges: dict[int, Counter[str]] = {0: Counter(), len(text): Counter()}
    for start, end, mark in spans:
        edges.setdefault(start, Counter())[mark] += 1
        edges.setdefault(end, Counter())[mark] -= 1
    held: Counter[str] = Counter()
    pieces = []
    for start, end in pairwise(sorted(edges)):
        held.update(edges[start])
        pieces.append((text[start:end], "".join(sorted(mark for mark, count in held.items() if count > 0))))
    return pieces


def _matches(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where the words are that have one of the wanted terms."""
    for word in _WORD.finditer(text) if wanted else ():
        start, characters = word.start(), word.group()
        if len(characters) > _LONGEST:
            continue
        terms = _terms_of_word(characters)
        if len(terms) <= 1 or characters.isascii():
            if terms and terms <= wanted:
                yield word.span()
            continue
        for at in range(len(characters) - 1):  # written without spaces
            if characters[at : at + 2].lower() in wanted:
                yield start + at, start + at + 2


def _terms(text: str) -> frozenset[str]:
    words = (word for word in _WORD.findall(text) if len(word) <= _LONGEST and word.lower() not in FUNCTION_WORDS)
    terms = frozenset().union(*map(_terms_of_word, words))
    return frozenset(term for term in terms if len(term) > 1 or not term.isascii() or term.isdecimal())


_analyzer = cache(analyzer)


@cache
def _terms_of_word(word: str) -> frozenset[str]:
    return frozenset(_analyzer("en").analyze(segmenter("en")(word)))


def text_before(messages: Sequence[Message], reply: str, earlier: Sequence[str]) -> str | None:
    """The text that earlier replies wrote and that this reply is a version of; None if there is none."""
    replies = [_plain(text) for text in earlier]
    lines = {_plain(line) for text in earlier for line in text.splitlines()}
    blocks = (block for message in messages for block in _blocks(message.content, replies, lines))
    kept, best = max(((_kept(block, reply), block) for block in blocks), default=(0.0, ""))
    if kept >= _LEAST:
        return best
    if len(reply.split()) < _FEW:
        return None
    return next((text.strip() for text in reversed(earlier) if _kept(text, reply) >= _LEAST), None)


def _blocks(content: str, replies: Sequence[str], lines: set[str]) -> Iterator[str]:
    """Runs of lines that earlier replies wrote."""
    block: list[str] = []
    for line in content.splitlines():
        _, _, behind = line.partition(": ")
        known = next((part for part in (line, behind) if _known(_plain(part), replies, lines)), None)
        if known is not None:
            block.append(known)
        elif line.strip() and block:
            yield "\n".join(block).strip()
            block = []
        elif block:
            block.append("")
    if block:
        yield "\n".join(block).strip()


def _known(line: str, replies: Sequence[str], lines: set[str]) -> bool:
    return bool(line) and (line in lines or (len(line) >= _SHORT and any(line in text for text in replies)))


def _plain(text: str) -> str:
    """Without citation markers, which a method may renumber, and with plain white space."""
    return " ".join(_MARKER.sub(" ", text).split())


def _kept(before: str, after: str) -> float:
    old, new = Counter(before.split()), Counter(after.split())
    return (old & new).total() / max(1, old.total(), new.total())
