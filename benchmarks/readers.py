"""Words of documents that other libraries find and reground does not: python -m benchmarks.readers FOLDER

Every file of the folder is read by reground and by two or three libraries, each in a process of its own with bounds on
time and memory. For each kind of file the share of words that `--least` libraries find and reground finds too is
printed, and for each file the words that it does not find. A word that reground writes in several pieces, as in `10^6`,
counts as found. The libraries come with the extra `readers`.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from reground.retrieval.documents import SourceFile, read_documents

Reader = Callable[[Path], str]

_WORD = re.compile(r"\w+")
_DIVIDED = re.compile(r"(?<=\w)[-\u00ad\u2010]\s*\n\s*(?=\w)")
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+")
_SECONDS = 60.0
_MEMORY = 6 << 30
_MOST_PIECES = 6
"""Pieces of one word, as in `10^6`, which others write as 106."""


def ours(path: Path) -> str:
    file = SourceFile(path, path.name, path.stat().st_size, 0)
    return "\n".join(f"{each.title}\n{each.text}" for each in read_documents(file))


def kreuzberg(path: Path) -> str:
    read = import_module("kreuzberg").extract_file_sync(str(path))
    tables = "\n".join(table.markdown for table in read.tables)
    return f"{read.content}\n{tables}"


def markitdown(path: Path) -> str:
    return str(import_module("markitdown").MarkItDown(enable_plugins=False).convert(str(path)).text_content)


def odfpy(path: Path) -> str:
    document = import_module("odf.opendocument").load(str(path))
    texts = (
        each for kind in ("P", "H") for each in document.getElementsByType(getattr(import_module("odf.text"), kind))
    )
    return "\n".join(map(import_module("odf.teletype").extractText, texts))


def openpyxl(path: Path) -> str:
    book = import_module("openpyxl").load_workbook(path, data_only=True, read_only=True)
    rows = (row for sheet in book.worksheets for row in sheet.iter_rows(values_only=True))
    return "\n".join(" | ".join(str(cell) for cell in row if cell is not None) for row in rows)


def pypdf(path: Path) -> str:
    return "\n".join(page.extract_text() for page in import_module("pypdf").PdfReader(path).pages)


def html2text(path: Path) -> str:
    return _as_text(path.read_bytes().decode("utf-8", "replace"))


def trafilatura(path: Path) -> str:
    return str(import_module("trafilatura").extract(path.read_bytes(), favor_recall=True) or "")


def standard_library(path: Path) -> str:
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    return "\n".join([str(message["subject"] or ""), *_parts(message)])


def _parts(message: EmailMessage) -> Iterator[str]:
    body = message.get_body(("plain", "html"))
    if body is not None:
        content = body.get_content()
        yield _as_text(content) if body.get_content_subtype() == "html" else content


def _as_text(page: str) -> str:
    converter = import_module("html2text").HTML2Text(bodywidth=0)
    converter.ignore_links = True
    return str(converter.handle(page))


READERS: dict[str, tuple[Reader, ...]] = {
    **dict.fromkeys((".docx", ".pptx", ".epub", ".ipynb"), (kreuzberg, markitdown)),
    **dict.fromkeys((".odt", ".ods", ".odp"), (kreuzberg, odfpy)),
    ".xlsx": (kreuzberg, markitdown, openpyxl),
    ".pdf": (kreuzberg, pypdf),
    ".html": (html2text, trafilatura),
    ".htm": (html2text, trafilatura),
    ".eml": (kreuzberg, standard_library),
}
"""The libraries that read files of a kind; none of them limits what a file may cost."""


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared: without signs, case and addresses, which some of the libraries leave
    out, and without the hyphens at the ends of lines."""
    text = _DIVIDED.sub("", _ADDRESS.sub(" ", text))
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold().replace("_", " "))


def missing(text: str, others: list[str], least: int) -> tuple[int, list[str]]:
    """The number of words that `least` or more of the others find, and those of them that the text lacks, in order."""
    own = words_of(text)
    known = set(own)
    for pieces in range(2, _MOST_PIECES + 1):
        known.update(map("".join, zip(*(own[start:] for start in range(pieces)), strict=False)))
    counts = Counter(word for other in others for word in dict.fromkeys(words_of(other)))
    wanted = [word for word, count in counts.items() if count >= least]
    return len(wanted), [word for word in wanted if word not in known]


def bounded(reader: Reader, path: Path) -> tuple[str, str]:
    """What a reader makes of a file, or why it fails. Time and memory have bounds."""
    mine, other = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=_read, args=(reader, path, other))
    process.start()
    other.close()
    text, why = "", f"takes more than {_SECONDS:.0f} s"
    if mine.poll(_SECONDS):
        try:
            text, why = mine.recv()
        except EOFError:
            why = "ends its process"
    process.kill()
    process.join()
    return text, why


def _read(reader: Reader, path: Path, out: Connection) -> None:
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    try:
        out.send((reader(path), ""))
    except Exception as error:
        out.send(("", f"{type(error).__name__}: {error}"))


class Compared(NamedTuple):
    """A file. wanted: how many words enough libraries find. lost: those that reground does not. failed: who and why."""

    path: Path
    wanted: int
    lost: list[str]
    failed: dict[str, str]


def compare(path: Path, least: int) -> Compared:
    readers = READERS[path.suffix.lower()]
    results = {reader.__name__: bounded(reader, path) for reader in (ours, *readers)}
    failed = {name: why for name, (_, why) in results.items() if why}
    texts = [text for name, (text, why) in results.items() if name != ours.__name__ and not why]
    wanted, lost = missing(results[ours.__name__][0], texts, least)
    return Compared(path, wanted, lost, failed)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--least", type=int, default=2, help="libraries that must find a word")
    parser.add_argument("--shown", type=int, default=20, help="words that are shown of a file")
    options = parser.parse_args(arguments)
    files = [each for each in sorted(options.folder.rglob("*")) if each.is_file() and each.suffix.lower() in READERS]
    for module in ("kreuzberg", "markitdown", "openpyxl", "odf.opendocument", "odf.text", "odf.teletype", "pypdf",
                   "html2text", "trafilatura"):  # fmt: skip
        import_module(module)  # once, and not in the process of each file
    groups: dict[str, list[Compared]] = defaultdict(list)
    for path in files:
        found = compare(path, options.least)
        groups[path.suffix.lower()].append(found)
        if found.lost or ours.__name__ in found.failed:
            print(
                f"{path.relative_to(options.folder)}: {len(found.lost)} of {found.wanted} words not found", flush=True
            )
            print(f"    {' '.join(found.lost[: options.shown])} {found.failed.get(ours.__name__, '')}".rstrip())
    print("\n| kind | files | words | found | failed |\n|---|---|---|---|---|")
    for kind, of in sorted(groups.items()):
        wanted, lost = sum(each.wanted for each in of), sum(len(each.lost) for each in of)
        failed = Counter(name for each in of for name in each.failed)
        share = f"{100 * (1 - lost / wanted):.2f} %" if wanted else "-"
        said = ", ".join(f"{name} {count}" for name, count in failed.items())
        print(f"| {kind} | {len(of)} | {wanted:,} | {share} | {said} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
