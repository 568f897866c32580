"""Results that fit a number of tokens: the most of a text, or of a list, whose JSON does."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256

from pydantic import BaseModel

from reground.core.evidence import Passage
from reground.core.language import tokens_of

_KEPT = 2000
"""Texts that can be fetched by their ids."""
_QUERIES = 200
"""Queries whose order is remembered."""
_LONG_ID = 200
"""Characters of an id, above which a short one stands for it: an id cannot be cut."""


def written(result: BaseModel) -> str:
    """A result as JSON, without the fields that have no value."""
    return result.model_dump_json(exclude_none=True)


def size(result: BaseModel) -> int:
    """The tokens of a result, as the project estimates them."""
    return tokens_of(written(result))


def most(make: Callable[[int], BaseModel], upto: int, tokens: int) -> int:
    """The largest n up to `upto` for which make(n) has at most `tokens` tokens; -1 if not even make(0) has.

    A larger n must give a larger result.
    """
    if size(make(upto)) <= tokens:
        return upto
    return bisect_right(range(upto), tokens, key=lambda n: size(make(n))) - 1


def short(name: str) -> str:
    """An id, or what stands for it if it is too long."""
    return name if len(name) <= _LONG_ID else f"id-{sha256(name.encode()).hexdigest()[:16]}"


class Known:
    """What was found and answered last, by id: (documents' name, text). An id that is too long gets a short one."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, tuple[str | None, Passage]] = OrderedDict()

    def keep(self, corpus: str | None, passage: Passage) -> str:
        """Remember a text, and return the id that it can be fetched by."""
        key = short(passage.id)
        self._texts[key] = (corpus, passage)
        self._texts.move_to_end(key)
        if len(self._texts) > _KEPT:
            self._texts.popitem(last=False)
        return key

    def get(self, key: str) -> tuple[str | None, Passage] | None:
        """The name of the documents (None for an answer) and the text; None if it is not remembered."""
        return self._texts.get(key)


class Orders:
    """What was found for a query, in the order in which it was given, so that no cursor repeats or misses a passage.

    A search that looks deeper may put others before those that it gave already.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, str], list[Passage]] = OrderedDict()

    def after(self, corpus: str, query: str, start: int, found: Sequence[Passage]) -> list[Passage]:
        """What was given before, then what is new. start: the place to go on from; at 0 the query begins again."""
        given = self._found.pop((corpus, query), []) if start else []
        known = {passage.id for passage in given}
        order = [*given, *(passage for passage in found if passage.id not in known)]
        self._found[corpus, query] = order
        if len(self._found) > _QUERIES:
            self._found.popitem(last=False)
        return order
