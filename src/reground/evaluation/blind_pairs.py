"""Blind pairs: two anonymous answers to one question, a page that shows them, and the votes on which is better.

RAT let people compare two answers at a time without knowing which method wrote them, and rated the methods by TrueSkill
(appendix C). A pair is known by its question and its two texts alone. So nothing in a page or in a file of votes
depends on who wrote an answer, a vote still counts when a folder is renamed, and two methods that gave the same answer
are judged together. `pair_ratings` counts the votes.
"""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from reground.core.errors import DataError
from reground.core.journal import fingerprint
from reground.core.language import Text, Value
from reground.evaluation.judging import Answer

Verdict = Literal["first", "second", "tie", "bad"]
"""The better answer in the pair's own order, or neither; "bad" says that neither is any good."""


@dataclass(frozen=True)
class Pair:
    """Two answers to a question, in the order of their texts, which says nothing about who wrote them.

    question: its id. text: its words. criteria: what the task has answers judged by, or "". runs: the runs behind the
    first and the second answer; several where runs or repeats gave the same texts.
    """

    question: str
    text: str
    criteria: str
    first: str
    second: str
    runs: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """The pair's name in a page and in votes."""
        return fingerprint("pair", self.question, self.text, self.first, self.second)


@dataclass(frozen=True)
class Vote:
    """What a judge says of a pair. person: whether people voted, and no model."""

    judge: str
    person: bool
    pair: Pair
    verdict: Verdict


class _Ballot(Value):
    """A vote in a file. pair: the pair's key."""

    pair: Text
    verdict: Verdict


class _Ballots(Value):
    """A file of votes, as the page saves it. judge: the name that a person gave."""

    judge: Annotated[Text, Field(min_length=1, max_length=60)]
    votes: list[_Ballot]


def pairs_of(answers: Iterable[Answer]) -> list[Pair]:
    """Each run's final answers with each other run's to the same question in the same repeat; equal ones are left out.

    Raises DataError where fewer than two runs answered a question in common, or never differently.
    """
    texts: dict[tuple[str, str, str, int], dict[str, str]] = defaultdict(dict)
    for answer in answers:
        if not answer.before:
            texts[answer.example, answer.question, answer.criteria, answer.repeat][answer.run] = answer.text.strip()
    runs: dict[tuple[str, str, str, str, str], dict[tuple[str, str], None]] = defaultdict(dict)
    for (question, text, criteria, _), by_run in texts.items():
        for (run, answer_text), (other, other_text) in combinations(by_run.items(), 2):
            if answer_text != other_text:
                (first, left), (second, right) = sorted(((answer_text, run), (other_text, other)))
                runs[question, text, criteria, first, second][left, right] = None
    if not runs:
        raise DataError("blind pairs need different answers of at least two runs to the same questions")
    return [Pair(*words, tuple(both)) for words, both in runs.items()]


def page(pairs: Iterable[Pair], seed: int) -> str:
    """One HTML page of the pairs, which needs nothing from elsewhere. The seed draws their order and their sides.

    Texts are data that the page's script shows as text; besides, the page's policy allows no other script.
    """
    draw = random.Random(seed)
    ordered = sorted(pairs, key=lambda pair: pair.key)
    draw.shuffle(ordered)
    shown: list[dict[str, str | bool]] = []
    for pair in ordered:
        turned = draw.random() < 0.5
        a, b = (pair.second, pair.first) if turned else (pair.first, pair.second)
        words = {"question": pair.text, "criteria": pair.criteria, "a": a, "b": b}
        shown.append({"key": pair.key, "turned": turned, **words})
    contents = {"page": fingerprint("page", *(pair.key for pair in ordered)), "pairs": shown}
    template = (files("reground.evaluation") / "blind_pairs.html").read_text(encoding="utf-8")
    script = template.partition("<script>")[2].partition("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return template.replace("DIGEST", digest).replace("CONTENTS", json.dumps(contents).replace("<", "\\u003c"))


def read_votes(paths: Iterable[Path], pairs: Iterable[Pair]) -> list[Vote]:
    """People's votes on these pairs, in the order of voting. Of a judge's votes on one pair the last one counts.

    Raises DataError for a file that cannot be read, is none of votes, or has a vote for a pair that is not among these.
    """
    by_key = {pair.key: pair for pair in pairs}
    votes: dict[tuple[str, str], Vote] = {}
    for path in paths:
        try:
            ballots = _Ballots.model_validate_json(path.read_bytes())
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=path) from None
        except ValidationError as error:
            fault = error.errors(include_input=False)[0]
            raise DataError(f"not a file of votes: {[*fault['loc']]}: {fault['msg']}", path=path) from None
        for ballot in ballots.votes:
            if ballot.pair not in by_key:
                raise DataError(f"a vote is for a pair that is not in these runs: {ballot.pair[:64]!r}", path=path)
            votes[ballots.judge, ballot.pair] = Vote(ballots.judge, True, by_key[ballot.pair], ballot.verdict)
    return list(votes.values())
