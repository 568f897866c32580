"""Pairs of passages from different documents that something links: a title, a shared name or a rare term.

A question of two steps needs a bridge between two passages (HotpotQA; Yang et al. 2018, section 2). Where one passage
names the other's title, the title is the bridge. Else it is a name, or in writing without capital letters a term, that
few documents hold: what many hold links nothing.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from reground.core.evidence import Passage
from reground.core.journal import fingerprint
from reground.core.language import Text, Value
from reground.retrieval.build import passages_of
from reground.retrieval.documents import read_documents
from reground.retrieval.encodings import Unreadable
from reground.retrieval.passages import document_ids, normal, normal_title
from reground.retrieval.scan import find_files
from reground.text.sentences import names_in

MOST_PASSAGES = 5_000
"""Passages that are compared; of more, this many are drawn."""

_MOST_DOCUMENTS = 4  # that hold a name or a term which links
_MOST_MENTIONS = 8  # of a title
_LONGEST_TITLE = 8  # words
_OF_A_PASSAGE, _OF_A_LINK, _OF_TWO_DOCUMENTS = 3, 2, 1  # pairs
_TERM = re.compile(r"[\u4e00-\u9fff]{3,12}|[\u30a0-\u30ff]{3,16}|[^\W\d_\u3040-\u30ff\u4e00-\u9fff]{5,30}")

_SMALL = re.compile(r"\b[a-z]+\b")


class Pair(Value):
    """Two passages and what links them. kind: `title` where the first passage names the second one's title."""

    first: Passage
    second: Passage
    link: Text
    kind: Literal["title", "name", "term"]

    @property
    def id(self) -> str:
        """Differs where a text differs, so that nothing recorded is taken for another pair's."""
        parts = [part for each in (self.first, self.second) for part in (each.id, each.title, each.text)]
        return fingerprint("pair", self.link, *parts)[:16]


def corpus_passages(corpus: Path, size: int, overlap: int) -> list[Passage]:
    """The passages of a folder or file, cut as an index cuts them (tokens); files that cannot be read are left out."""
    passages: list[Passage] = []
    for file in find_files(corpus):
        try:
            for document in read_documents(file):
                passages += [piece.passage for piece in passages_of(document, size, overlap)]
        except (OSError, Unreadable):
            continue  # indexing has named it already
    return passages


def linked_pairs(passages: Iterable[Passage], *, most: int, seed: int = 0) -> list[Pair]:
    """At most `most` linked pairs, in an order that the seed draws; titles and names take turns.

    A passage, a link and two documents come up a few times at most, so that questions do not repeat themselves.
    """
    drawn = _drawn(passages, seed)
    turns = [_by_title(drawn), _by_name(drawn)]
    used: Counter[str] = Counter()
    chosen: list[Pair] = []
    while turns and len(chosen) < most:
        turn = turns.pop(0)
        found = next((pair for pair in turn if not _worn(pair, used)), None)
        if found is not None:
            used.update(_marks(found))
            chosen.append(found)
            turns.append(turn)
    return chosen


def _drawn(passages: Iterable[Passage], seed: int) -> list[Passage]:
    """At most MOST_PASSAGES, shuffled. Reservoir sampling: memory holds no more than are kept."""
    draw = random.Random(seed)
    kept: list[Passage] = []
    for seen, passage in enumerate(passages, start=1):
        if len(kept) < MOST_PASSAGES:
            kept.append(passage)
        elif (place := draw.randrange(seen)) < MOST_PASSAGES:
            kept[place] = passage
    draw.shuffle(kept)
    return kept


def _document(passage: Passage) -> str:
    return document_ids(passage.id)[-1]


def _marks(pair: Pair) -> list[str]:
    documents = sorted((_document(pair.first), _document(pair.second)))
    return [
        f"passage {pair.first.id}",
        f"passage {pair.second.id}",
        f"link {pair.link.casefold()}",
        f"documents {documents}",
    ]


def _worn(pair: Pair, used: Counter[str]) -> bool:
    limits = (_OF_A_PASSAGE, _OF_A_PASSAGE, _OF_A_LINK, _OF_TWO_DOCUMENTS)
    return any(used[mark] >= limit for mark, limit in zip(_marks(pair), limits, strict=True))


def _by_title(passages: Sequence[Passage]) -> Iterator[Pair]:
    """A passage that names a title, and the first piece of its document. A title of several documents names none."""
    titled: dict[str, Passage] = {}
    owners: dict[str, set[str]] = {}
    for passage in passages:
        title = normal_title(passage).strip()
        owners.setdefault(title, set()).add(_document(passage))
        if title and (title not in titled or _piece(passage) < _piece(titled[title])):
            titled[title] = passage
    titled = {title: passage for title, passage in titled.items() if len(owners[title]) == 1}
    longest: dict[str, int] = {}  # words of a title, by its first word
    for title in titled:
        words = title.split()
        if len(words) <= _LONGEST_TITLE:
            longest[words[0]] = max(longest.get(words[0], 0), len(words))
    mentions: Counter[str] = Counter()
    for passage in passages:
        for title in _phrases(normal(passage.text).split(), longest):
            target = titled.get(title)
            if target is None or _document(target) == _document(passage) or mentions[title] >= _MOST_MENTIONS:
                continue
            mentions[title] += 1
            yield Pair(first=passage, second=target, link=target.title, kind="title")


def _piece(passage: Passage) -> int:
    number = passage.id.rpartition("#")[2]
    return int(number) if number.isdecimal() else 1


def _phrases(words: Sequence[str], longest: Mapping[str, int]) -> list[str]:
    """Every run of words that may be a title, each once."""
    return list(
        dict.fromkeys(
            " ".join(words[start : start + size])
            for start, word in enumerate(words)
            for size in range(1, longest.get(word, 0) + 1)
        )
    )


def _by_name(passages: Sequence[Passage]) -> Iterator[Pair]:
    """Two passages of different documents that share a name or a term which few documents hold."""
    holders: dict[tuple[str, str], dict[str, Passage]] = {}
    small = {word for passage in passages for word in _SMALL.findall(passage.text)}
    for passage in passages:
        own = normal_title(passage).strip()
        for kind, name in _names(passage):
            # A word that another passage writes in small letters began a sentence here.
            if normal(name).strip() != own and not (kind == "name" and name.casefold() in small):
                documents = holders.setdefault((kind, name), {})
                if len(documents) <= _MOST_DOCUMENTS:
                    documents.setdefault(_document(passage), passage)
    for (kind, name), documents in holders.items():
        if 2 <= len(documents) <= _MOST_DOCUMENTS:
            first, second, *_ = documents.values()
            named: Literal["name", "term"] = "name" if kind == "name" else "term"
            yield Pair(first=first, second=second, link=name, kind=named)


def _names(passage: Passage) -> list[tuple[str, str]]:
    """The names in a passage, or its terms where it has none."""
    if names := names_in([passage.text]):
        return [("name", name) for name in names]
    return [("term", term) for term in dict.fromkeys(_TERM.findall(passage.text.casefold()))]
