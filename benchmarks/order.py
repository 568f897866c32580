"""Whether the order that `ask` searches in is ever worse than words alone, on data sets and on folders of files.

A question about a folder is made by program and has one known place, the sentence, line or row that answers it; a
passage that holds the place is found. Of each file a few are made:

- prose (pages and docstrings): a sentence without two fifths of its words, of the others some with or without an s,
  and two words of another sentence of the file, so that no passage need hold them all;
- names (pages and code): "What is NAME?", where an entry or a line defines it;
- words (code): the words inside of a function's name, with those of a part of its docstring;
- cells (tables): "What is the COLUMN of KEY?".

`--chunk-tokens` measures other sizes of passages. "in 2,000 tokens" is the recall of the first passages that fit there.

    python -m benchmarks.order [--folders python=FOLDER,code=FOLDER] [--sets scifact,hotpotqa] [--chunk-tokens 400]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.retrieval import Judged, drawn, records
from reground.app.documents import ANSWERING
from reground.core.evidence import Passage, Retriever
from reground.evaluation.data import data_root
from reground.evaluation.metrics.ranking import ndcg, recall, reciprocal_rank
from reground.evaluation.statistics import compare
from reground.retrieval.documents import Document, read_documents, scan
from reground.retrieval.encodings import Unreadable
from reground.retrieval.index import build_index, open_index
from reground.retrieval.rerank import rerank
from reground.retrieval.settings import IndexSettings
from reground.text.sentences import sentences

SETS = "scifact,hotpotqa,2wikimultihopqa,nq_open"
METRICS = ("recall@5", "in 2,000 tokens", "MRR", "nDCG@10")
DEPTH, SEED, BUDGET = 50, 0, 2000
_DROPPED, _INFLECTED = 0.4, 0.2
_WORDS = range(10, 40)
"""Words of a sentence that is asked for."""

Scores = dict[str, dict[str, float]]


class Asked(NamedTuple):
    """A question, its kind, and its place: words that a passage of the document holds."""

    kind: str
    text: str
    document: str
    place: str


def reworded(sentence: str, draw: random.Random) -> str:
    """The sentence without two fifths of its words and without markup; some others lose or get an s."""
    words = re.findall(r"\w[\w.'-]*\w|\w", re.sub(r":\w+:|https?://\S+", " ", sentence))
    kept = [word for word in words if draw.random() >= _DROPPED]
    return " ".join(_inflected(word) if draw.random() < _INFLECTED else word for word in kept)


def _inflected(word: str) -> str:
    if not word.isalpha() or len(word) < 4:
        return word
    return word[:-1] if word.endswith("s") else f"{word}s"


def prose(document: Document, draw: random.Random) -> Iterator[Asked]:
    """Questions that repeat a part of a sentence."""
    docstrings = re.findall(r'"""(.*?)"""', document.text, re.DOTALL)
    text = "\n\n".join(docstrings) if document.source.endswith(".py") else document.text
    paragraphs = (each for each in re.split(r"\n[ \t]*\n", text) if each.strip()[:1].isalpha())
    found = [each.strip() for paragraph in paragraphs for each in sentences(" ".join(paragraph.split()))]
    found = [each for each in found if len(each.split()) in _WORDS and each.endswith(".")]
    for sentence in found:
        others = reworded(draw.choice(found), draw).split()[:2]
        yield Asked("prose", " ".join([*others, reworded(sentence, draw)]), document.id, sentence)


def names(document: Document, draw: random.Random) -> Iterator[Asked]:
    """Questions about what is defined."""
    entry = r"^(?:\.\. (?:function|method|class|data|exception|confval|option|setting)::|(?:def|class)) +(([\w.]+).*)$"
    for match in re.finditer(entry, document.text, re.MULTILINE):
        if len(match[2]) > 5 and not match[2].startswith("_"):
            yield Asked("names", f"What is {match[2]}?", document.id, match[0])


def words(document: Document, draw: random.Random) -> Iterator[Asked]:
    """Questions about a function in words."""
    function = r'^ *def (\w+_\w+)\([^"]*?:\n +(?:r?"""(.*?)[.\n])'
    for match in re.finditer(function, document.text, re.MULTILINE):
        name, told = match[1].strip("_"), match[2].split()
        if "_" in name and len(told) > 3:
            text = f"{name.replace('_', ' ')} {reworded(' '.join(told), draw)}"
            yield Asked("words", text, document.id, match[0].split("\n")[0])


def cells(document: Document, draw: random.Random) -> Iterator[Asked]:
    """Questions about the rows of a table, by the first column whose values are names."""
    rows = [dict(re.findall(r"([^:;]+): ([^;]*)(?:; |$)", line)) for line in document.text.split("\n")]
    rows = [row for row in rows if len(row) > 1]
    columns = list(rows[0]) if rows else []
    named = (c for c in columns if len({r.get(c) for r in rows}) == len(rows) and rows[0][c][:1].isalpha())
    key = next(named, None)
    for row in rows:
        for column, value in row.items():
            if key and column != key and len(row[key]) > 2 and value:
                yield Asked("cells", f"What is the {column} of {row[key]}?", document.id, f"{key}: {row[key]}")


KINDS: dict[str, tuple[Callable[[Document, random.Random], Iterator[Asked]], ...]] = {
    ".py": (prose, names, words),
    ".csv": (cells,),
}


def documents(folder: Path) -> Iterator[Document]:
    """What can be read of a folder."""
    for file in scan(folder).files:
        with suppress(Unreadable):
            yield from read_documents(file)


def asked(folder: Path, most: int) -> list[Asked]:
    """At most that many questions of each kind about the files of a folder, from as many files as there are.

    A place that two questions or files share is asked for by none.
    """
    draw = random.Random(SEED)
    found: dict[str, list[list[Asked]]] = {}
    holders: Counter[str] = Counter()
    for document in documents(folder):
        plain = " ".join(document.text.split())
        for kind in KINDS.get(Path(document.id).suffix, (prose, names)):
            made = [each for each in kind(document, draw) if each.text and plain.count(_plain(each.place)) == 1]
            holders.update({each.place for each in made})
            found.setdefault(kind.__name__, []).append(draw.sample(made, len(made)))
    chosen = []
    for lists in found.values():
        draw.shuffle(lists)
        deepest = max(map(len, lists), default=0)
        turns = (each[at] for at in range(deepest) for each in lists if at < len(each) and holders[each[at].place] == 1)
        chosen += [question for question, _ in zip(turns, range(most), strict=False)]
    return chosen


def _plain(text: str) -> str:
    return " ".join(text.split())


def placed(question: Asked, found: Sequence[Passage]) -> list[str]:
    """The ranking of the passages found, in which those that hold the place are called by it."""
    place = _plain(question.place)
    at_home = (passage.page_id == question.document and place in _plain(passage.text) for passage in found)
    return [place if holds else passage.id for holds, passage in zip(at_home, found, strict=True)]


async def measured(
    questions: Sequence[tuple[str, str, Mapping[str, int], Callable[[Sequence[Passage]], list[str]]]],
    retriever: Retriever,
    size: int,
) -> Scores:
    """The scores of a search, by measure and question."""
    scores: Scores = {metric: {} for metric in METRICS}
    for id_, text, gold, ranked in questions:
        ranking = ranked(await retriever.retrieve(text, k=DEPTH))
        once = list(dict.fromkeys(ranking))
        scores["recall@5"][id_] = recall(once, gold, 5)
        scores["in 2,000 tokens"][id_] = recall(ranking, gold, max(1, BUDGET // size))
        scores["MRR"][id_] = reciprocal_rank(once, gold)
        scores["nDCG@10"][id_] = ndcg(once, gold, 10)
    return scores


def of_folder(folder: Path, most: int) -> list[tuple[str, str, Mapping[str, int], Callable[..., list[str]]]]:
    """The questions about a folder."""
    return [
        (f"{each.kind} {at}", each.text, {_plain(each.place): 1}, lambda found, each=each: placed(each, found))
        for at, each in enumerate(asked(folder, most))
    ]


def of_set(name: str, most: int, out: Path) -> list[tuple[str, str, Mapping[str, int], Callable[..., list[str]]]]:
    """The questions of a data set; its whole corpus is written to a file."""
    questions = drawn(name, data_root(None), most, 10**9, out) if name != "nq_open" else _natural(most, out)
    return [(each.id, each.text, each.gold, lambda found: [passage.page_id for passage in found]) for each in questions]


def _natural(most: int, out: Path) -> list[Judged]:
    import json

    root = data_root(None)
    found = [
        Judged(str(each["id"]), str(each["question"]), dict.fromkeys(map(str, each["metadata"]["gold_ids"]), 1), [])
        for each in records(root, "nq_open", "oracle_questions.jsonl")
    ]
    corpus = (json.dumps(each) for each in records(root, "nq_open", "oracle_corpus.jsonl"))
    out.write_text("\n".join(corpus) + "\n", encoding="utf-8")
    return random.Random(SEED).sample(found, min(most, len(found)))


def line(what: str, ids: Sequence[str], words_alone: Scores, default: Scores) -> str:
    """A Markdown line about some of the questions."""
    shown = []
    for metric in METRICS:
        plain = {id_: words_alone[metric][id_] for id_ in ids}
        told = compare({id_: default[metric][id_] for id_ in ids}, plain).difference
        mean = sum(plain.values()) / len(ids)
        shown.append(f"{mean:.3f} {told.mean:+.3f} [{told.low:+.3f}, {told.high:+.3f}]")
    return f"| {what} | {len(ids)} | {' | '.join(shown)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a Markdown table: words alone, and what the order of `ask` adds to them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", default="", help="NAME=FOLDER,NAME=FOLDER")
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--questions", type=int, default=300, help="of a set, and of a kind in a folder")
    parser.add_argument("--chunk-tokens", type=int, default=IndexSettings().chunk_tokens)
    parser.add_argument("--rerank", default=ANSWERING)
    given = parser.parse_args(arguments)
    settings = replace(IndexSettings(), chunk_tokens=given.chunk_tokens, overlap=given.chunk_tokens // 8)
    print(f"| corpus | questions | {' | '.join(METRICS)} |\n|---|---:|{'---|' * len(METRICS)}")
    folders = dict(pair.split("=", 1) for pair in given.folders.split(",") if pair)
    for name in [*filter(None, given.sets.split(",")), *folders]:
        with tempfile.TemporaryDirectory() as work:
            corpus = Path(folders.get(name, f"{work}/{name}.jsonl"))
            make = of_folder(corpus, given.questions) if name in folders else of_set(name, given.questions, corpus)
            build_index(corpus, Path(work, "index"), settings)
            search = open_index(Path(work, "index"))
            found = [
                asyncio.run(measured(make, each, given.chunk_tokens)) for each in (search, rerank(search, given.rerank))
            ]
            ids = list(found[0]["MRR"])
            print(line(name, ids, *found), flush=True)
            kinds = dict.fromkeys(id_.split()[0] for id_ in ids) if name in folders else {}
            for kind in kinds if len(kinds) > 1 else ():
                print(line(f"{name}: {kind}", [id_ for id_ in ids if id_.split()[0] == kind], *found), flush=True)


if __name__ == "__main__":
    main()
