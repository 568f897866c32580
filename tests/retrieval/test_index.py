"""Building an index, bringing it up to date, and searching it."""

import asyncio
import contextlib
import gzip
import json
import os
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError, DataError
from reground.core.evidence import Retriever
from reground.retrieval.decontaminate import Decontaminator
from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings, Kind, Progress, Skipped
from tests.retrieval.corpora import OLD_NS, WordEmbedder, jsonl, write
from tests.retrieval.files import pdf

NOTES: dict[str, str | bytes] = {
    "cats.md": "# Cats\n\nCats purr.\n",
    "sub/dogs.txt": "Dogs bark at cats.",
    "corpus/c.jsonl": jsonl([{"id": "1", "title": "Fish", "text": "Fish swim."}, {"id": "2", "text": "Newts swim."}]),
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return write(tmp_path / "notes", NOTES)


def search(index: Path, query: str, k: int = 10) -> list[str]:
    return [passage.id for passage in asyncio.run(open_index(index).retrieve(query, k=k))]


def test_documents_are_found_with_title_and_place(notes: Path, tmp_path: Path) -> None:
    report = build_index(notes, tmp_path / "index")
    assert (report.documents, report.passages, report.read, report.kept, report.removed) == (4, 4, 4, 0, 0)
    retriever = open_index(tmp_path / "index")
    assert isinstance(retriever, Retriever)
    assert retriever.name == report.name
    found = asyncio.run(retriever.retrieve("do cats purr?", k=3))
    ids = [(p.id, p.title, p.url) for p in found]
    assert ids == [("cats.md", "Cats", "cats.md"), ("sub/dogs.txt", "dogs", "sub/dogs.txt")]
    assert asyncio.run(retriever.retrieve("fish", k=1))[0].id == "1"


def test_only_what_changed_is_read(notes: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    first = build_index(notes, index)
    again = build_index(notes, index)
    assert (again.read, again.kept, again.removed, again.name) == (0, 4, 0, first.name)
    (notes / "sub/dogs.txt").unlink()
    write(notes, {"cats.md": "# Cats\n\nCats meow.\n", "new.txt": "Owls hoot."}, old=False)
    changed = build_index(notes, index)
    assert (changed.documents, changed.read, changed.kept, changed.removed) == (4, 2, 2, 1)
    assert changed.name != first.name
    assert search(index, "purr") == []
    assert search(index, "meow") == ["cats.md"]
    assert search(index, "hoot") == ["new.txt"]
    assert search(index, "bark") == []
    assert search(index, "swim") == ["2", "1"]


def test_of_a_jsonl_corpus_only_changed_documents_are_indexed(notes: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    build_index(notes, index)
    records = [{"id": "2", "text": "Newts dive."}, {"id": "3", "text": "Eels swim."}]
    write(notes, {"corpus/c.jsonl": jsonl(records)}, old=False)
    report = build_index(notes, index)
    assert (report.documents, report.read, report.kept, report.removed) == (4, 2, 2, 1)
    assert search(index, "swim") == ["3"]
    assert search(index, "dive") == ["2"]


def test_a_touched_file_is_looked_at_but_not_indexed_again(notes: Path, tmp_path: Path) -> None:
    first = build_index(notes, tmp_path / "index")
    for name in NOTES:
        os.utime(notes / name)
    again = build_index(notes, tmp_path / "index")
    assert (again.read, again.kept, again.name) == (0, 4, first.name)


@pytest.mark.parametrize("moved", [False, True])
def test_a_change_that_leaves_size_and_old_time_stamp_is_seen(notes: Path, tmp_path: Path, moved: bool) -> None:
    build_index(notes, tmp_path / "index")
    write(tmp_path / "new", {"cats.md": "# Cats\n\nCats hiss.\n"})
    if moved:
        (tmp_path / "new" / "cats.md").replace(notes / "cats.md")
    else:
        shutil.copy2(tmp_path / "new" / "cats.md", notes / "cats.md")
    assert build_index(notes, tmp_path / "index").read == 1
    assert search(tmp_path / "index", "hiss") == ["cats.md"]
    assert build_index(notes, tmp_path / "index").read == 0


@pytest.mark.parametrize("number", [3, 90])
def test_copies_of_a_text_take_one_place(tmp_path: Path, number: int) -> None:
    tells = "The quay of Ostby is closed to 'long' ships, over ninety metres."
    files = {f"b/quay-{i}.md": f"# The quay, part {i}\n\n{tells}\n" for i in range(number)}
    files |= {f"a{i}.txt": tells.replace(" ", "  ") for i in range(number)}
    marked = tells.replace("'long'", "‘long’").replace("quay", "**quay**").replace("metres", "_metres_")
    files |= {"d.md": f"{marked}\n", "e.rst": f"Ostby\n=====\n\n{tells}\n"}
    files |= {"c.md": "# Quay\n\nThe quay was built in 1901 for the fishing fleet of Ostby.\n"}
    files |= {"fees.md": "# Fee A\n\nAt Ostby 9 crowns.\n", "fees-b.md": "# Fee B\n\nAt Ostby 9 crowns.\n"}
    write(tmp_path / "notes", {**files, "copies.jsonl": jsonl([{"id": "z", "title": "Elsewhere", "text": tells}])})
    build_index(tmp_path / "notes", tmp_path / "index")
    found = search(tmp_path / "index", "quay of Ostby", 5)
    assert len(found) == 4 and {"c.md", "fees.md", "fees-b.md"} < set(found), "short texts differ by their headings"
    assert found[0] in files and found == search(tmp_path / "index", "quay of Ostby", 5)


def test_another_folder_with_the_same_names_is_read(notes: Path, tmp_path: Path) -> None:
    build_index(notes, tmp_path / "index")
    other = write(tmp_path / "other", {**NOTES, "cats.md": "# Cats\n\nCats hiss.\n"})
    report = build_index(other, tmp_path / "index")
    assert (report.read, report.kept) == (1, 3)
    assert search(tmp_path / "index", "hiss") == ["cats.md"]


def test_other_settings_make_the_index_anew(notes: Path, tmp_path: Path) -> None:
    first = build_index(notes, tmp_path / "index")
    report = build_index(notes, tmp_path / "index", IndexSettings(language="none"))
    assert (report.read, report.kept) == (4, 0)
    assert report.name != first.name
    assert search(tmp_path / "index", "cat") == []
    assert build_index(notes, tmp_path / "index").name == first.name


def test_ties_go_by_id_however_many_there_are(tmp_path: Path) -> None:
    owls = [{"id": f"{i:03}", "text": f"owls hoot{'.' * i}"} for i in reversed(range(500))]
    write(tmp_path / "notes", {"c.jsonl": jsonl(owls)})
    build_index(tmp_path / "notes", tmp_path / "index")
    assert search(tmp_path / "index", "owls", 3) == ["000", "001", "002"]


def test_unreadable_files_are_listed_and_not_fatal(notes: Path, tmp_path: Path) -> None:
    script = "<html><script>x()</script></html>"
    write(notes, {"bad.pdf": b"%PDF broken", "empty.md": " \n", "empty.html": script, "binary.txt": b"\0\0"})
    report = build_index(notes, tmp_path / "index")
    assert report.documents == 4
    reasons = {skipped.path: skipped.why for skipped in report.skipped}
    assert reasons.keys() == {"bad.pdf", "empty.md", "empty.html", "binary.txt"}
    assert "PDF" in reasons["bad.pdf"] and reasons["empty.md"] == reasons["empty.html"] == "holds no text"
    assert build_index(notes, tmp_path / "index").skipped == report.skipped
    write(notes, {"empty.md": "No longer empty."}, old=False)
    later = build_index(notes, tmp_path / "index")
    assert {skipped.path for skipped in later.skipped} == {"bad.pdf", "binary.txt", "empty.html"}
    write(notes, {"cats.md": b"\0"}, old=False)
    last = build_index(notes, tmp_path / "index")
    assert Skipped(path="cats.md", why="is binary, not text", kind="binary") in last.skipped
    assert (last.documents, last.removed) == (4, 1)


def test_a_malformed_line_stops_the_build_and_leaves_the_old_index(notes: Path, tmp_path: Path) -> None:
    first = build_index(notes, tmp_path / "index")
    write(notes, {"corpus/c.jsonl": '{"id": "1", "text": "x"}\n{broken\n'}, old=False)
    with pytest.raises(DataError, match=r"c\.jsonl:2: not a JSON record"):
        build_index(notes, tmp_path / "index")
    assert open_index(tmp_path / "index").name == first.name
    assert len(list((tmp_path / "index").glob("data-*"))) == 1


def test_an_empty_corpus_says_what_was_looked_for(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"a.md": "", "b.pdf": "x"})
    with pytest.raises(DataError, match=r"no document with text in 2 files: a\.md \(holds no text\), b\.pdf \(is not"):
        build_index(tmp_path / "notes", tmp_path / "index")
    assert not (tmp_path / "index" / "manifest.json").exists()


def test_repeated_ids_are_reported_and_the_first_is_kept(tmp_path: Path) -> None:
    lines = [{"id": "1", "text": "first"}, {"id": "1", "text": "second"}]
    write(tmp_path / "notes", {"a.jsonl": jsonl(lines), "b.jsonl": jsonl([{"id": "1", "text": "third"}])})
    report = build_index(tmp_path / "notes", tmp_path / "index")
    assert (report.documents, report.duplicates, report.duplicate_count) == (1, ("1", "1"), 2)
    assert search(tmp_path / "index", "first second third") == ["1"]
    assert search(tmp_path / "index", "first") == ["1"]


def records(ids: str) -> str:
    return jsonl({"id": id_, "text": f"text of {id_}"} for id_ in ids)


def test_a_build_that_ends_before_a_moved_document_is_read_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reground.retrieval.build._TELL_SECONDS", 0.0)
    notes, index = tmp_path / "notes", tmp_path / "index"
    write(notes, {"part-0.jsonl": records("abc"), "part-1.jsonl": records("defg")})
    build_index(notes, index)
    write(notes, {"part-0.jsonl": records("acd"), "part-1.jsonl": records("efg")})
    for name in ("part-0.jsonl", "part-1.jsonl"):
        os.utime(notes / name, ns=(OLD_NS + 1, OLD_NS + 1))

    def stop(progress: Progress) -> None:
        if progress.total == 1:  # both files changed, and then one is read again
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(notes, index, progress=stop, save_every=0.0)
    assert sorted(search(index, "text")) == [*"abcdefg"]
    report = build_index(notes, index)
    assert (report.documents, sorted(search(index, "text"))) == (6, [*"acdefg"])


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    versions=st.lists(
        st.dictionaries(st.sampled_from(["a.jsonl", "b.jsonl", "c.jsonl", "d/e.txt"]), st.text("uvwxyz", max_size=5)),
        min_size=2,
        max_size=4,
    )
)
def test_an_updated_index_equals_a_new_one_also_where_documents_move_between_files(
    tmp_path_factory: pytest.TempPathFactory, versions: list[dict[str, str]]
) -> None:
    work = tmp_path_factory.mktemp("versions")
    updated = None
    for files in versions:
        shutil.rmtree(work / "notes", ignore_errors=True)
        texts = {name: records(ids) if name.endswith(".jsonl") else ids for name, ids in files.items()}
        write(work / "notes", {"always.txt": "always"} | texts, old=False)
        updated = build_index(work / "notes", work / "updated")
    fresh = build_index(work / "notes", work / "fresh")
    assert updated is not None
    assert (updated.name, updated.documents, updated.passages) == (fresh.name, fresh.documents, fresh.passages)
    for query in ["always", *"uvwxyz", "u v w", "x y z always"]:
        assert search(work / "updated", query, 5) == search(work / "fresh", query, 5)


def test_progress_counts_bytes_over_all_files_and_inside_files_of_many_documents(tmp_path: Path) -> None:
    records = jsonl([{"id": str(i), "text": f"text {i} " * 40} for i in range(20_000)])
    packed = gzip.compress(records.encode())
    large = "A sentence of the text that goes on and on. " * 100_000
    write(tmp_path / "notes", {"a.txt": "first", "b.jsonl": records, "c.jsonl.gz": packed, "d.txt": large})
    seen: list[Progress] = []
    report = build_index(tmp_path / "notes", tmp_path / "index", progress=seen.append)
    assert (seen[0].total, seen[0].listed) == (0, 0)  # the list of files is being made
    assert seen[-1].writing
    done = [p.all_done for p in seen]
    assert done == sorted(done)
    assert done[-1] == seen[-1].all_size == 5 + len(records) + len(packed) + len(large)
    assert [p.share for p in seen] == sorted(p.share for p in seen)
    inside = {p.done for p in seen if p.file == "b.jsonl"}
    assert any(0 < each < 0.9 * len(records) for each in inside)
    assert len({p.done for p in seen if p.file == "d.txt" and p.done}) >= 3
    assert report.memory > 10_000_000


def test_what_the_watcher_raises_ends_the_listing_of_files(notes: Path, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        assert progress.total == 0
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        build_index(notes, tmp_path / "index", progress=stop)


SOLUTION = "def solve(n): return sum(i * i for i in range(n) if i % 3 == 0 or i % 5 == 0)"


def test_what_overlaps_a_solution_is_dropped_and_named(notes: Path, tmp_path: Path) -> None:
    write(notes, {"leak.md": f"# Leak\n\nThe answer is {SOLUTION}, they say."})
    looked_for = Decontaminator([SOLUTION])
    report = build_index(notes, tmp_path / "index", decontaminate=looked_for)
    assert (report.documents, report.passages, report.dropped_count) == (5, 4, 1)
    assert [(dropped.id, len(dropped.ngram.split())) for dropped in report.dropped] == [("leak.md", 10)]
    assert search(tmp_path / "index", "answer solve sum range") == []
    assert build_index(notes, tmp_path / "index", decontaminate=looked_for).read == 0
    assert build_index(notes, tmp_path / "index").passages == 5
    (tmp_path / "all").mkdir()
    write(tmp_path / "all", {"leak.md": SOLUTION})
    with pytest.raises(DataError, match="overlap what must be kept out"):
        build_index(tmp_path / "all", tmp_path / "none", decontaminate=looked_for)


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="no kind of index 'sparse'"):
        IndexSettings(kind="sparse")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="smaller than the passage"):
        IndexSettings(chunk_tokens=100, overlap=100)
    with pytest.raises(ConfigurationError, match="needs an embedder"):
        IndexSettings(kind="dense")
    with pytest.raises(ConfigurationError, match="no stemmer"):
        IndexSettings(language="klingon")
    assert IndexSettings(language="German").language == "de"


def test_an_opened_index_keeps_working_while_it_is_replaced(notes: Path, tmp_path: Path) -> None:
    build_index(notes, tmp_path / "index")
    old = open_index(tmp_path / "index")
    for language in ("none", "de"):
        build_index(notes, tmp_path / "index", IndexSettings(language=language))
    assert [p.id for p in asyncio.run(old.retrieve("cat", k=1))] == ["cats.md"]
    assert len(list((tmp_path / "index").glob("data-*"))) == 2
    del old
    write(notes, {"new.txt": "new"}, old=False)
    build_index(notes, tmp_path / "index", IndexSettings(language="de"))
    assert len(list((tmp_path / "index").glob("data-*"))) == 1


OLDER = "UPDATE files SET reader = reader - 1 WHERE name LIKE '%.pdf'"
OTHER_TEXTS = "UPDATE documents SET content = content - 1"
"""As if every document had been read with another text."""


def changed(index: Path, *statements: str) -> None:
    """Change an index's ledger, and what its manifest says of it."""
    manifest = json.loads((index / "manifest.json").read_text())
    ledger = index / manifest["generation"] / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(ledger)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    content = ledger.read_bytes()
    manifest["files"]["ledger.sqlite"] = {"size": len(content), "crc32": zlib.crc32(content)}
    (index / "manifest.json").write_text(json.dumps(manifest))


def test_files_of_a_kind_are_read_again_by_a_new_reader(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"a.pdf": pdf(["Owls hoot."]), "b.PDF": pdf(["Owls fly."]), "cats.txt": "Cats purr."})
    first = build_index(tmp_path / "notes", tmp_path / "index")
    changed(tmp_path / "index", OLDER)
    same = build_index(tmp_path / "notes", tmp_path / "index")
    assert (same.read, same.name) == (0, first.name), "the same text is not indexed again"
    changed(tmp_path / "index", OTHER_TEXTS)
    assert build_index(tmp_path / "notes", tmp_path / "index").read == 0
    changed(tmp_path / "index", OLDER)
    again = build_index(tmp_path / "notes", tmp_path / "index")
    assert (again.read, again.kept, again.documents) == (2, 1, 3)
    assert build_index(tmp_path / "notes", tmp_path / "index").read == 0


@pytest.mark.parametrize("kind", ["bm25", "dense"])
def test_an_index_by_words_of_other_terms_is_made_again(kind: Kind, tmp_path: Path) -> None:
    write(tmp_path / "notes", {"a.txt": "Owls hoot."})
    embedder = WordEmbedder()
    made = IndexSettings(kind=kind, embedder=None if kind == "bm25" else embedder.name)
    given = None if kind == "bm25" else embedder
    index = tmp_path / "index"
    first = build_index(tmp_path / "notes", index, made, embedder=given)
    manifest = json.loads((index / "manifest.json").read_text())
    manifest["terms"] = 1
    (index / "manifest.json").write_text(json.dumps(manifest))
    assert open_index(index, embedder=given).name == first.name
    again = build_index(tmp_path / "notes", index, made, embedder=given)
    assert (again.read, again.name) == (int(kind == "bm25"), first.name)
