"""What a file is: by its name, and where that does not say, by its beginning.

Mail programs store messages under names without a suffix: the messages of a Maildir, the numbers of MH, the mailboxes
of Thunderbird and of a mail server's spool.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Format(NamedTuple):
    """Files with some suffixes.

    reader: what reads them, as module and function of `reground.retrieval.reading`. version: rises when that function
    gives another text than before; an index then reads these files again. most: the megabytes of one at most; None
    where it holds many documents, which are read one at a time. has_lines: whether a passage stands in the file as it
    does in the index. is_code: whether it is source code, where lines come before sentences.
    """

    suffixes: tuple[str, ...]
    reader: str = "text.read_plain"
    version: int = 1
    most: int | None = 128
    has_lines: bool = False
    is_code: bool = False


def _suffixes(listed: str) -> tuple[str, ...]:
    return tuple(f".{word}" for word in listed.split())


_CODE = _suffixes(
    "py pyi pyx js mjs cjs jsx ts mts cts tsx vue svelte java kt kts scala groovy gradle clj cljs c h cc cpp cxx "
    "hh hpp hxx cu m mm swift cs fs vb go rs rb php pl pm lua r jl hs ml mli ex exs erl elm dart nim zig v sv vhd "
    "vhdl asm s f f90 f95 pas ada sol sql sh bash zsh fish ps1 bat cmd tcl awk el lisp scm rkt css scss sass less "
    "yaml yml toml ini cfg conf properties proto graphql thrift tf hcl nix cmake mk dockerfile"
)
_TEXT = Format(_suffixes("txt text rst log org adoc asciidoc tex bib srt vtt"), has_lines=True)
JSONL = Format((".jsonl", ".jsonl.gz"), most=None, has_lines=True)
FORMATS = (
    _TEXT,
    Format((".md", ".markdown"), "text.read_markdown", has_lines=True),
    Format((".html", ".htm", ".xhtml"), "web.read_html", most=32),
    Format((".pdf",), "pdf.read_pdf", most=256),
    JSONL,
    Format((".docx", ".docm", ".dotx"), "office.read_word"),
    Format((".pptx", ".pptm", ".ppsx"), "office.read_slides", most=256),
    Format((".xlsx", ".xlsm"), "office.read_sheets"),
    Format((".odt", ".ods", ".odp"), "office.read_open_document"),
    Format((".epub",), "office.read_epub", most=256),
    Format((".eml",), "mail.read_mail", has_lines=True),
    Format((".mbox", ".mbx"), "mail.read_mail", most=None, has_lines=True),
    Format((".csv", ".tsv"), "text.read_delimited", most=64),
    Format((".json", ".geojson", ".jsonld"), "text.read_json", most=32),
    Format((".ipynb",), "text.read_notebook", most=32),
    Format((".xml", ".xsl", ".xsd"), "text.read_markup", most=64, has_lines=True, is_code=True),
    Format(_CODE, has_lines=True, is_code=True),
)
READ = (
    "Markdown, text, HTML, PDF, Word, PowerPoint, Excel, OpenDocument, EPUB, e-mail, CSV, JSON, JSONL, notebooks "
    "and source code"
)
"""What is read, in words."""
_TEXT_NAMES = frozenset(
    (
        "readme", "license", "licence", "copying", "notice", "authors", "contributors", "changelog", "changes", "news",
        "todo", "install", "makefile", "dockerfile", "jenkinsfile", "vagrantfile", "gemfile", "rakefile", "procfile",
        "justfile",
    )
)  # fmt: skip
"""Files without a suffix that hold text."""


def format_of(name: str) -> Format | None:
    """What a file of this name is; None for one that is not read."""
    name = name.lower()
    known = next((each for each in FORMATS if name.endswith(each.suffixes)), None)
    return _TEXT if known is None and name.rpartition("/")[2] in _TEXT_NAMES else known


_OTHER = ("other", "is of a kind that is not read")
_UNREAD = {
    suffix: (kind, why)
    for kind, why, suffixes in (
        ("image", "is an image", "png jpg jpeg gif bmp tif tiff webp heic svg ico psd ai eps raw xcf"),
        ("sound", "is a sound recording", "mp3 wav flac ogg m4a aac wma opus mid"),
        ("video", "is a video", "mp4 mkv avi mov webm wmv m4v mpg mpeg"),
        (
            "archive",
            "is an archive; unpack it to have its files read",
            "zip gz tgz bz2 xz zst 7z rar tar jar war whl deb rpm iso dmg",
        ),
        ("font", "is a font", "ttf otf woff woff2 eot"),
        ("program", "is a compiled program", "exe dll so dylib a o obj lib bin class pyc pyd wasm"),
        (
            "data",
            "is binary data",
            "db sqlite sqlite3 mdb accdb parquet feather arrow npy npz h5 hdf5 pkl pickle pt safetensors gguf onnx",
        ),
        *(
            ("old", f"is in an old or closed format; save it as .{new} to have it read", old)
            for new, old in (
                ("docx", "doc dot rtf wps pages wpd"),
                ("xlsx", "xls xlt xlsb numbers"),
                ("pptx", "ppt pps key"),
                ("eml", "msg"),
                ("mbox", "pst"),
                ("epub", "mobi azw3"),
                ("pdf", "djvu ps"),
            )
        ),
    )
    for suffix in suffixes.split()
}


def why_unread(name: str) -> tuple[str, str]:
    """The kind of a file that is not read, by its name, and why it is not."""
    return _UNREAD.get(name.lower().rpartition(".")[2], _OTHER)


_BEGINNING = 32 << 10
"""Bytes that are looked at. Servers on the way put up to some ten kilobytes of headers before a message's own."""
_HEADER = re.compile(rb"([!-9;-~]{1,80}):")
_DATED = {b"date", b"message-id", b"received"}


def known_as(name: str, path: Path) -> str:
    """The suffix that a file ought to have: ".eml" for a message, ".mbox" for a mailbox; "" where its own says it, for
    any other file, and for one that cannot be opened."""
    if format_of(name) is not None or why_unread(name) != _OTHER:
        return ""
    try:
        if not path.is_file():  # to open a pipe would wait for somebody who writes into it
            return ""
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except OSError:
        return ""
    first, _, rest = beginning.partition(b"\n")
    if first.startswith(b"From "):
        return ".mbox" if _is_message(rest) else ""
    return ".eml" if _is_message(beginning) else ""


def _is_message(beginning: bytes) -> bool:
    """Whether a text begins with the headers of a message: who wrote it, and when or under which id it came."""
    names: set[bytes] = set()
    *lines, _ = beginning.split(b"\n")
    for line in lines:
        if not line.strip():
            break
        header = _HEADER.match(line)
        if header:
            names.add(header[1].lower())
        elif not (names and line[:1] in b" \t"):
            return False
    return b"from" in names and not names.isdisjoint(_DATED)
