import gzip
import json
from pathlib import Path

import pytest

from reground.core.errors import DataError
from reground.retrieval.documents import Document, SourceFile, read_jsonl, scan
from reground.retrieval.encodings import Unreadable
from reground.retrieval.index import build_index
from tests.retrieval.corpora import jsonl, write
from tests.retrieval.files import pdf, read


def test_a_name_that_is_no_valid_unicode_is_written_with_escapes(tmp_path: Path) -> None:
    try:
        (tmp_path / "caf\udce9.txt").write_text("x")
    except (OSError, UnicodeError):
        pytest.skip("needs a file system that takes any bytes for a name")
    found = scan(tmp_path).files[0]
    assert found.name == "caf\\udce9.txt"
    assert found.path.read_text() == "x"


def test_a_rule_at_the_top_of_markdown_begins_no_front_matter() -> None:
    text = "---\n\n# Rivers\n\nThe Danube is long: 2850 km.\n\n---\n\nThe end.\n"
    assert (read("a.md", text).title, read("a.md", text).text) == ("Rivers", text)
    assert read("b.md", "---\n# by hand\n\n'a b': [1]\n---\nText\n").text == "Text\n"


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("# The Title #\n\nText", "The Title"),
        ("The Title\n=========\n\n# Later", "The Title"),
        ("---\nauthor: x\n---\n# Heading\n\nText", "Heading"),
        ("```\n# comment\n```\n# Real\n", "Real"),
        ("Just text, #nothing else", "notes"),
        ("Windows too\r\n===\r\n\r\nText", "Windows too"),
        ("    # code by its indent\n   # Real\n", "Real"),
        ("#nothing\n####### nothing\n#\n###### C# #\n", "C#"),
        ("---\nno end of the front matter\n# Real\n", "Real"),
    ],
)
def test_markdown_is_titled_by_its_first_heading(content: str, title: str) -> None:
    document = read("folder/notes.md", content)
    assert document.title == title
    assert (document.id, document.url, document.source) == ("folder/notes.md",) * 3
    assert "author" not in document.text
    assert "tags" not in document.text


def test_a_page_without_a_heading_is_titled_by_its_title_or_its_file() -> None:
    document = read("a.htm", "<title>Tiny</title><p>One &amp; <b>two</b></p><div>three</div><style>x</style>")
    assert (document.title, document.text.split()) == ("Tiny", ["One", "&", "two", "three"])
    assert read("b/On rivers.html", "<p>no title").title == "On rivers"


LONG = "x" * (11 << 20)


@pytest.mark.parametrize(
    "before",
    ["<div>" * 1500, f"<!--{LONG}-->", f"<p>{LONG}</p>", f"<script>{LONG}</script>", f"<img src='data:,{LONG}'>"],
    ids=["elements", "comment", "text", "script", "attribute"],
)
def test_html_beyond_the_ordinary_limits_of_its_parser_is_read_to_its_end(before: str) -> None:
    for page in (f"{before}<h1>Rivers</h1><p>The end.", f"<html><body>{before}<h1>Rivers</h1><p>The end.</body>"):
        document = read("a.html", page)
        assert (document.title, document.partly) == ("Rivers", "")
        assert document.text.endswith("# Rivers\n\nThe end.")


def test_html_beyond_all_limits_says_what_is_missing() -> None:
    document = read("a.html", f"<p>The beginning.</p>{'<div>x' * 200_000}<p>The end.")
    assert document.text.startswith("The beginning.")
    assert "and all behind it, was not read" in document.partly or document.text.endswith("The end.")


def test_pdf_is_read_page_by_page() -> None:
    document = read("a/paper.pdf", pdf(["First page", "Second page"], title="On  paper"))
    assert document.text == "First page\n\nSecond page"
    assert document.title == "On paper"
    for none in ("", "untitled", "Untitled document 2", "(anonymous)", "Microsoft Word - v3.docx", "C:/in/p.indd"):
        assert read("a/paper.pdf", pdf(["Text"], title=none)).title == "paper"
    assert read("a/paper.pdf", pdf(["Text"], title="Node.js 22.10 (LTS)")).title == "Node.js 22.10 (LTS)"


def test_pdfs_that_give_nothing_say_why() -> None:
    with pytest.raises(Unreadable, match="not a readable PDF"):
        read("a.pdf", b"%PDF-1.7 nonsense")
    with pytest.raises(Unreadable, match="password"):
        read("a.pdf", pdf(["Text"], password="secret"))
    with pytest.raises(Unreadable, match="no text"):
        read("a.pdf", pdf([""]))


def documents(path: Path) -> list[Document]:
    return list(read_jsonl(SourceFile(path, path.name, 0, 0)))


def test_jsonl_records_of_every_layout(tmp_path: Path) -> None:
    records = [
        {"id": "1", "title": "T", "text": "x", "url": "http://x", "metadata": {}},
        {"_id": "2", "title": "T", "text": "x"},
        {"id": 3, "contents": '"The Title"\nThe text\nmore'},
        {"id": "4", "contents": "no title"},
        {"id": "5", "title": "Only title", "text": ""},
        {"id": "6", "title": "", "text": " "},
        {"id": "7", "title": "T", "contents": "all\nof it"},
        {"id": "8", "text": "half a pair: \ud83d"},
        {"id": "", "text": "no id"},
        {"well": "Orm", "at": {"depth": 44}, "note": "Sealed."},
    ]
    write(tmp_path, {"c.jsonl": "\n\n".join(map(json.dumps, records)) + "\n"})
    found = documents(tmp_path / "c.jsonl")
    assert [(d.id, d.title, d.text, d.url) for d in found] == [
        ("1", "T", "x", "http://x"),
        ("2", "T", "x", None),
        ("3", "The Title", "The text\nmore", None),
        ("4", "", "no title", None),
        ("5", "Only title", "Only title", None),
        ("7", "T", "all\nof it", None),
        ("8", "", "half a pair: \ufffd", None),
        ("c.jsonl/17", "", "no id", None),
        ("c.jsonl/19", "c", "well: Orm; note: Sealed.\nat > depth: 44", None),
    ]
    with gzip.open(tmp_path / "z.jsonl.gz", "wt") as out:
        out.write("".join(json.dumps(record) + "\n" for record in records))
    assert [d.id for d in documents(tmp_path / "z.jsonl.gz")][:7] == [d.id for d in found[:7]]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not a JSON record"),
        ("[1]", "not a JSON object"),
        (b'{"id": "1", "text": "\xff"}', "not a JSON record: not UTF-8"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str | bytes, why: str) -> None:
    good = jsonl([{"id": "0", "text": "x"}]).encode()
    write(tmp_path, {"c.jsonl": good + (line.encode() if isinstance(line, str) else line)})
    with pytest.raises(DataError, match=why) as raised:
        documents(tmp_path / "c.jsonl")
    assert str(raised.value).startswith(f"{tmp_path / 'c.jsonl'}:2: ")


def test_damaged_compression_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(jsonl([{"id": str(i), "text": f"text {i * i}"} for i in range(500)]).encode())
    for content in (whole[: len(whole) // 2], b"not gzip", whole[:20] + b"\xff\xff\xff" + whole[23:]):
        write(tmp_path, {"c.jsonl.gz": content})
        with pytest.raises(DataError, match="compressed file is damaged"):
            documents(tmp_path / "c.jsonl.gz")
    with pytest.raises(DataError, match="cannot be read"):
        documents(tmp_path / "absent.jsonl")


@pytest.mark.parametrize("line", ["[1, 2]", "not JSON"])
def test_a_jsonl_file_of_another_program_leaves_the_rest_of_a_corpus(line: str, tmp_path: Path) -> None:
    write(tmp_path, {"log.jsonl": f"\n{line}\n", "crane.md": "The crane lifts 740 kg."})
    report = build_index(tmp_path, tmp_path.parent / "index")
    assert (report.documents, [each.path for each in report.skipped]) == (1, ["log.jsonl"])
    (tmp_path / "crane.md").unlink()
    with pytest.raises(DataError, match="line 2"):
        build_index(tmp_path, tmp_path.parent / "other")
