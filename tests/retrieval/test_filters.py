"""Which files are read, and which documents a filter chooses."""

import asyncio
from pathlib import Path

import pytest

from reground.core.evidence import Pages
from reground.retrieval.documents import scan
from reground.retrieval.filters import FilterError, Globs, fits, where
from reground.retrieval.index import IndexRetriever, build_index, open_index
from reground.retrieval.rerank import only, rerank
from reground.retrieval.settings import IndexSettings
from tests.retrieval.corpora import WordEmbedder, jsonl, write

MAIL = """From: Ada Lovelace <ada@engine.example>\nTo: babbage@engine.example
Date: Fri, 03 Jan 2025 23:30:00 -0500\nSubject: Cogs\n\nThe cogs turn."""
ODD = "---\nauthor:\n  name: Grete  # so\n  'place of work': Bonn\nsteps:\n- kind: axle\n  about: |\n    kind: hub\n"
ODD += '  sizes: [4,\n    "5: six"]\n- kind: spoke\nempty:\nnull: ~\nlinks:\n  - https://a.example/b\n---\nWheels turn.'
MADE = jsonl([{"id": "made", "text": "Wheels.", "author": {"name": "Ada", "born": [1815, {"in": "May"}]}}])
FILES: dict[str, str | bytes] = {
    "guide/v1/turn.md": "---\ntags: [draft, 'old, worn']\ndate: 2024-05-01\nLast Edit: 2024\nstars: 3\n---\nTurn once.",
    "guide/v2/a/turn.md": "---\ntags:\n- api\n- wheels\ndate: 2025-02-03\nstars: 12\n---\n# Cogs\n\nCogs turn.",
    "mail/1": MAIL,
    "rows.jsonl": jsonl([{"id": "r", "text": "Cogs.", "author": "G. Hopper", "date": "2026", "e\u0301tat": 7}]),
    "plain.txt": "Cogs turn often.",
}
IDS = {"v1": "guide/v1/turn.md", "v2": "guide/v2/a/turn.md", "mail": "mail/1", "row": "r", "plain": "plain.txt"}
IDS |= {"odd": "odd.md", "made": "made"}
FOUND = [
    ("path:guide/v2/*", "v2"),
    ("path:guide", "v1 v2"),
    ("folder:guide AND NOT path:v1", "v2"),
    ("path:guide/**/turn.md", "v1 v2"),
    ("path:/turn.md OR path:*.txt", "plain"),
    ("type:md", "v1 v2 odd"),
    ("type:eml", "mail"),
    ("tag:API", "v2"),
    ('tags:"old, worn"', "v1"),
    ("date>=2025-01-01", "v2 mail row"),
    ("date:2025-*", "v2 mail"),
    ("date <= 2024-05", "v1"),
    ("date=2025-01-04T04:30:00", "mail"),
    ("stars>3", "v2"),
    ("stars!=3", "v2"),
    ("NOT date>2000", "plain odd made"),
    ("sender:ada@engine.example", "mail"),
    ('from:"Ada L*" or author:*hopper', "mail row"),
    ("(tag:draft or tag:api) and not (stars<10)", "v2"),
    ("last_edit<2025", "v1"),
    ("e\u0301tat=7 AND \u00c9tat:7", "row"),
    ("modified<2002", "v1 v2 mail row plain odd made"),
    ("author.name:*", "odd made"),
    ('"author.place of work":bonn AND links:https*', "odd"),
    ('steps.kind:spoke AND steps.kind:axle AND steps.sizes>3 AND steps.sizes:"5: *" AND NOT steps.kind:hub', "odd"),
    ("author.born<1900 AND author.born.in:may", "made"),
]


@pytest.fixture(params=["bm25", "hybrid"])
async def cogs(request, tmp_path_factory) -> IndexRetriever:
    if request.param == "hybrid":
        pytest.importorskip("lancedb", reason="needs the extra [dense]")
    folder, out = (
        write(tmp_path_factory.mktemp("cogs"), {**FILES, "odd.md": ODD, "made.jsonl": MADE}),
        tmp_path_factory.mktemp("index"),
    )
    settings = IndexSettings(kind=request.param, embedder=None if request.param == "bm25" else "openai/words")
    embedder = None if request.param == "bm25" else WordEmbedder()
    await asyncio.to_thread(build_index, folder, out, settings, embedder=embedder)
    return open_index(out, embedder=embedder)


async def test_only_chosen_documents_are_found_however_they_are_searched(cogs: IndexRetriever) -> None:
    names = set()
    for text, ids in FOUND:
        for retriever in (cogs, rerank(cogs, "links")):
            chosen = await only(retriever, text)
            names.add(chosen.name)
            found = {passage.id for passage in await chosen.retrieve("How do cogs and wheels turn?", k=9)}
            assert found == {IDS[each] for each in ids.split()}, text
    assert len(names) == 2 * len(FOUND)
    twice = await (await only(rerank(cogs, "links"), "path:guide")).only("stars>3")
    assert isinstance(twice, Pages) and await twice.page(IDS["v1"]) is None and await twice.page(IDS["v2"])


async def test_what_is_wrong_with_a_filter_is_said_with_its_place(cogs: IndexRetriever) -> None:
    for text, said in (
        ("path:a AND", "at its end"),
        ("path:a tag:b", r"AND or OR is missing, before 'tag:b' \(character 8\)"),
        ("(path:a", r"a \) is missing"),
        ("path:a)", r"nothing opens this \)"),
        ("date>=soon", "a number or a date"),
        ("date<2025-02-30", "a number or a date"),
        ('path:"a', "a condition such as"),
        ("(" * 4000, "more than 50 parentheses"),
        ("autor:x", "no document has a field 'autor'; they have author, author"),
        ("price>3", "date, from, last_edit, links, modified, path"),
        ("tag:api AND stars<2", "no document fulfils"),
    ):
        with pytest.raises(FilterError, match=said):
            await cogs.only(text)
    assert fits("./gr\u00f6\u00dfe", "gro\u0308ssE/a.md")
    assert not fits("./a.md", "b/a.md") and not fits("*a*a*a*a*a*a*a*a*b/**/*a*b", "a" * 5000)
    with pytest.raises(FilterError, match="at most 4,000"):
        where("path:a OR " * 1000)


async def test_a_changed_field_is_seen_and_no_other_document_is_read_again(tmp_path: Path) -> None:
    notes, out = write(tmp_path / "notes", {"a.md": "---\ntag: x\n---\nOwls.", "b.md": "Cats."}), tmp_path / "index"
    before = build_index(notes, out).name
    write(notes, {"a.md": "---\ntag: why\n---\nOwls."})
    report = build_index(notes, out)
    assert (report.read, report.kept) == (1, 1) and report.name != before
    assert [each.id for each in await (await open_index(out).only("tag:why")).retrieve("owls", k=3)] == ["a.md"]


@pytest.mark.parametrize(
    ("globs", "left"),
    [
        (Globs(include=("*.md",)), ["guide/v1/turn.md", "guide/v2/a/turn.md"]),
        (Globs(include=("guide/v2", "*.TXT")), ["guide/v2/a/turn.md", "plain.txt"]),
        (Globs(exclude=("guide/**/a", "mail/*", "rows.*")), ["guide/v1/turn.md", "plain.txt"]),
        (Globs(("guide",), ("v1",)), ["guide/v2/a/turn.md"]),
    ],
)
def test_files_are_chosen_by_globs(globs: Globs, left: list[str], tmp_path: Path) -> None:
    found = scan(write(tmp_path / "cogs", FILES), globs=globs)
    assert [file.name for file in found.files] == left
    assert {each.kind for each in found.unread} == {"chosen"}
