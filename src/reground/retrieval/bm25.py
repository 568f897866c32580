"""BM25 by tantivy (Robertson and Zaragoza 2009; k1 = 1.2 and b = 0.75, which tantivy fixes).

One field is searched: the title, twice, then the text. Saying the title twice weighs it modestly; measured on
SciFact, nDCG@10 is 0.690 that way, 0.684 with the title once. Texts are stored in tantivy's own compressed blocks.

Behind the text stand the other spellings of its words (`languages.spellings`), marked by a letter so that they are
terms of their own: a word as it was asked for counts for more than one that only a fold or a cut makes the same.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reground.core.evidence import Passage
from reground.retrieval.storage import refusing
from reground.text.languages import analyzer, identifiers, segmenter, spellings

_ANALYZER = "reground"
_LOCK = ".tantivy-meta.lock"  # what tantivy writes into a folder that it opens, if only to read
_HEAP_BYTES = 128_000_000
_MOST_PIECES = 20_000  # of one document
_MAX_TERMS = 64  # of a query; drafts of whole pages are queries too
_MAX_QUERY_CHARACTERS = 100_000
_NEAR = 1e-5  # scores that differ by less, relatively, are tied: the order in which terms are added up is not fixed
_SPARE = 16  # passages looked at beyond those asked for, to see where a tie ends
_MOST_TIED = 10_000
_KEYS = 1 << 63
EXACT_UP_TO = 20_000
"""Passages up to which an updated folder ranks exactly like a new one: to write that many takes some two seconds."""
_MOST_REMOVED = 0.01
_MOVED_AT_ONCE = 10_000
_ALSO, _DEFINED = "ǂ", "ǁ"  # begin other spellings and stand around defined names: letters of no common language
_SPELLING, _NAME = 0.4, 2.5
"""The weight of another spelling where the word itself stands in some text, and of a name from a program that the query
has, which so outweighs its words. A word weighs 1."""


def _schema() -> Any:
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    builder.add_unsigned_field("key", indexed=True, stored=True)
    builder.add_text_field("terms", tokenizer_name=_ANALYZER, index_option="freq")
    for name in ("id", "title", "text", "url"):
        builder.add_bytes_field(name, stored=True)
    return builder.build()


class Bm25Writer:
    """Adds passages to a tantivy folder and removes them by their document's key.

    Nothing is visible before `finish`.
    """

    def __init__(self, folder: Path, language: str, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self._folder = folder
        self._language = language
        self._exact_up_to = exact_up_to
        self._segment = segmenter(language)
        self._analyzer = analyzer(language)
        self._schema = _schema()
        self._open(folder)

    def _open(self, folder: Path) -> None:
        from tantivy import Index

        folder.mkdir(parents=True, exist_ok=True)
        self._index = Index(self._schema, path=str(folder))
        self._index.register_tokenizer(_ANALYZER, self._analyzer)
        self._begin()

    def _begin(self) -> None:
        self._writer = self._index.writer(_HEAP_BYTES, num_threads=1)
        self._is_pending = False

    def add(self, key: int, passages: Sequence[Passage]) -> None:
        """Add passages of a document."""
        from tantivy import Document

        self._is_pending = True
        for passage in passages:
            entry = Document()
            entry.add_unsigned("key", key)
            text = f"{passage.title}\n{passage.title}\n{passage.text}"
            other = spellings(text)
            words = self._analyzer.analyze(" ".join(other.names | other.numbers | other.words))
            terms = {_ALSO + stem for stem in words} | {_DEFINED + name + _DEFINED for name in other.defined}
            entry.add_text("terms", " ".join([self._segment(text), *sorted(terms)]))
            for name in ("id", "title", "text", "url"):
                if (value := getattr(passage, name)) is not None:
                    entry.add_bytes(name, value.encode())
            self._writer.add_document(entry)

    def remove(self, key: int) -> None:
        """Remove a document's passages."""
        from tantivy import Query

        # Not delete_documents_by_term, which takes the number for a signed one and finds nothing.
        self._writer.delete_documents_by_query(Query.term_query(self._schema, "key", key))
        self._is_pending = True

    def save(self) -> None:
        """Write out what came so far, and be ready for more."""
        self._commit()
        self._begin()

    def finish(self, tick: Callable[[], None] = lambda: None) -> int:
        """Write everything out and wait until the segments are merged. Returns how many passages there are now.

        tantivy goes on counting what was removed, in the number of documents, their mean length and the frequency of
        terms. After a removal the folder is therefore written again from the texts that it holds, and ranks like one
        that never held anything else. A large folder is written again only when a hundredth of it is removed, because
        that reads all of it; until then its scores are off by about as much. `tick` is called now and then meanwhile.
        """
        self._commit()
        passages = int(self._index.searcher().num_docs)
        segments = json.loads((self._folder / "meta.json").read_bytes())["segments"]
        removed = sum(each["deletes"]["num_deleted_docs"] for each in segments if each["deletes"])
        if removed > (0 if passages <= self._exact_up_to else _MOST_REMOVED * passages):
            self._write_again(tick)
        return passages

    def close(self) -> None:
        """Stop the writer's threads; what was not finished is left out."""
        if self._is_pending:
            self._writer.rollback()  # otherwise tantivy indexes all that is queued first, and Python waits for it whole
        del self._writer

    def _commit(self) -> None:
        self._writer.commit()
        self._writer.wait_merging_threads()
        self._is_pending = False
        self._index.reload()

    def _write_again(self, tick: Callable[[], None]) -> None:
        from tantivy import FieldType, Query

        old = self._index.searcher()
        fresh = self._folder.with_name(f"{self._folder.name}-again")
        self._open(fresh)
        # A bounded number at a time: keys are hashes, so equal ranges of them hold about equally many.
        step = _KEYS // (old.num_docs // _MOVED_AT_ONCE + 1) + 1
        for start in range(0, _KEYS, step):
            among = Query.range_query(self._schema, "key", FieldType.Unsigned, start, start + step, include_upper=False)
            for _, address in old.search(among, limit=max(1, old.num_docs), count=False).hits:
                tick()
                entry = old.doc(address)
                self.add(entry.get_first("key"), [_passage(entry)])
        self._commit()
        self.close()
        shutil.rmtree(self._folder)
        fresh.rename(self._folder)
        self._open(self._folder)


class Bm25Index:
    """A tantivy folder, opened for searching. Safe to use from several threads."""

    def __init__(self, folder: Path, language: str) -> None:
        from tantivy import Index

        self._segment = segmenter(language)
        self._analyzer = analyzer(language)
        self._schema = _schema()
        self._damaged = f"the BM25 part of the index is damaged: {folder}"
        with refusing(self._damaged), ExitStack() as passing:
            lock, place = folder / _LOCK, folder
            if folder.is_dir() and not os.access(lock if lock.exists() else folder, os.W_OK):
                # Where nothing may be written, tantivy gets a folder with links to the files.
                place = Path(passing.enter_context(TemporaryDirectory(prefix="reground-")))
                for file in folder.iterdir():
                    if not file.name.endswith(".lock"):
                        (place / file.name).symlink_to(file.resolve())
            index = Index.open(str(place))
            index.register_tokenizer(_ANALYZER, self._analyzer)
            index.config_reader(reload_policy="manual")
            index.reload()
            self._searcher = index.searcher()  # holds all files open

    def search(self, query: str, k: int, among: Collection[int] | None = None) -> list[Passage]:
        """The `k` passages with the highest BM25 score. The query is text, never query syntax.

        among: the keys of the documents that are searched; all by default.
        """
        query = query[:_MAX_QUERY_CHARACTERS].encode("utf-8", "replace").decode()
        counts = Counter(self._analyzer.analyze(self._segment(query)))
        weights = list(counts.items()) if len(counts) <= _MAX_TERMS else self._rarest(counts)  # of a long one
        weights += self._expand(query, weights)
        if k < 1 or not weights:
            return []
        from tantivy import Occur, Query

        terms = ((Query.term_query(self._schema, "terms", term, index_option="freq"), count) for term, count in weights)
        query_ = Query.boolean_query([(Occur.Should, Query.boost_query(term, count)) for term, count in terms])
        if among is not None:
            documents = Query.const_score_query(Query.term_set_query(self._schema, "key", list(among)), 0.0)
            query_ = Query.boolean_query([(Occur.Must, query_), (Occur.Must, documents)])
        with refusing(self._damaged):  # the query is well formed, so it is the index that is not
            return self._best(query_, k)

    def _best(self, query: Any, k: int) -> list[Passage]:
        """The `k` best; of passages that are tied, those whose ids come first, however the index came to be."""
        limit = k + _SPARE
        while True:
            hits = self._searcher.search(query, limit=limit, count=False).hits
            ends = [i for i in range(1, len(hits)) if hits[i - 1][0] - hits[i][0] > _NEAR * hits[i - 1][0]]
            if len(hits) < limit or (ends and ends[-1] >= k) or limit > k + _MOST_TIED:
                break
            limit *= 4
        best: list[Passage] = []
        for start, end in pairwise([0, *ends, len(hits)]):
            if len(best) >= k:
                break
            tied = (_passage(self._searcher.doc(address), score) for score, address in hits[start:end])
            best += sorted(tied, key=lambda passage: passage.id)
        return best[:k]

    def pieces(self, key: int) -> list[Passage]:
        """A document's passages by its key, in no order."""
        from tantivy import Query

        with refusing("a page could not be read"):
            results = self._searcher.search(Query.term_query(self._schema, "key", key), limit=_MOST_PIECES, count=False)
            return [_passage(self._searcher.doc(address)) for _, address in results.hits]

    def _rarest(self, weights: Mapping[str, float]) -> list[tuple[str, float]]:
        frequency = {term: self._searcher.doc_freq("terms", term) for term in weights}
        indexed = sorted((term for term in weights if frequency[term]), key=lambda term: (frequency[term], term))
        return [(term, weights[term]) for term in indexed[:_MAX_TERMS]]

    def _expand(self, query: str, terms: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """The other spellings of a query's words, and its words where they are the other spelling of one."""
        forms = spellings(query)
        lacking = {term for term, _ in terms if not self._searcher.doc_freq("terms", term)}
        words = dict.fromkeys(self._analyzer.analyze(" ".join(forms.words)), 1.0 if lacking else _SPELLING)
        names = identifiers(query) | forms.numbers
        words |= dict.fromkeys(self._analyzer.analyze(" ".join(forms.names - names)), _SPELLING)
        words |= dict.fromkeys(self._analyzer.analyze(" ".join((forms.names & names) | forms.numbers)), _NAME)
        words |= {term: count * (1.0 if term in lacking else _SPELLING) for term, count in terms}
        weights: dict[str, float] = {}
        for word, weight in words.items():
            weights |= self._term_weights(weight, word, _ALSO + word)
        for name in names - forms.numbers:
            weights |= self._term_weights(_NAME, _DEFINED + name + _DEFINED)
        for term, _ in terms:
            weights.pop(term, None)
        return self._rarest(weights)

    def _term_weights(self, weight: float, *words: str) -> dict[str, float]:
        """The terms of the spellings of a word, and what each counts: together they are as rare as one word."""
        terms = [term for word in words for term in self._analyzer.analyze(word)]
        texts = {term: self._searcher.doc_freq("terms", term) for term in terms}
        rarity = _idf(sum(texts.values()), self._searcher.num_docs)
        return {term: weight * rarity / _idf(count, self._searcher.num_docs) for term, count in texts.items()}


def _idf(count: int, of: int) -> float:
    return math.log1p((max(count, of) - count + 0.5) / (count + 0.5))


def _passage(entry: Any, score: float = 0.0) -> Passage:
    """The passage in a stored document."""
    url = entry.get_first("url")
    id_, title, text = (bytes(entry.get_first(name)).decode() for name in ("id", "title", "text"))
    return Passage(id=id_, title=title, text=text, url=None if url is None else bytes(url).decode(), score=score)
