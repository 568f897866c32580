"""What a file is: by its name, and where that does not say, by its beginning.

Mail programs store messages under names without a suffix: the messages of a Maildir, the numbers of MH, the mailboxes
of Thunderbird and of a mail server's spool.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


def _words(listed: str) -> tuple[str, ...]:
    return tuple(listed.split())


def _suffixes(listed: str) -> tuple[str, ...]:
    return tuple(f".{word}" for word in listed.split())


MARKDOWN_SUFFIXES = (".md", ".markdown")
TEXT_SUFFIXES = (".txt", ".text", ".rst", ".log", ".org", ".adoc", ".asciidoc", ".tex", ".bib", ".srt", ".vtt")
HTML_SUFFIXES = (".html", ".htm", ".xhtml")
PDF_SUFFIXES = (".pdf",)
JSONL_SUFFIXES = (".jsonl", ".jsonl.gz")
WORD_SUFFIXES = (".docx", ".docm", ".dotx")
SLIDES_SUFFIXES = (".pptx", ".pptm", ".ppsx")
SHEETS_SUFFIXES = (".xlsx", ".xlsm")
OPEN_DOCUMENT_SUFFIXES = (".odt", ".ods", ".odp")
EPUB_SUFFIXES = (".epub",)
MAIL_SUFFIXES = (".eml",)
MAILBOX_SUFFIXES = (".mbox", ".mbx")
TABLE_SUFFIXES = (".csv", ".tsv")
JSON_SUFFIXES = (".json", ".geojson", ".jsonld")
NOTEBOOK_SUFFIXES = (".ipynb",)
CODE_SUFFIXES = _suffixes(
    "py pyi pyx js mjs cjs jsx ts mts cts tsx vue svelte java kt kts scala groovy gradle clj cljs c h cc cpp cxx "
    "hh hpp hxx cu m mm swift cs fs vb go rs rb php pl pm lua r jl hs ml mli ex exs erl elm dart nim zig v sv vhd "
    "vhdl asm s f f90 f95 pas ada sol sql sh bash zsh fish ps1 bat cmd tcl awk el lisp scm rkt css scss sass less "
    "xml xsl xsd yaml yml toml ini cfg conf properties proto graphql thrift tf hcl nix cmake mk dockerfile"
)
MARKUP_SUFFIXES = (".xml", ".xsl", ".xsd")
"""Source code that declares its encoding."""
CODE_NAMES = frozenset(
    _words(
        "readme license licence copying notice authors contributors changelog changes news todo install makefile "
        "dockerfile jenkinsfile vagrantfile gemfile rakefile procfile justfile"
    )
)
"""Files without a suffix that hold text."""
PLAIN_SUFFIXES = MARKDOWN_SUFFIXES + TEXT_SUFFIXES + CODE_SUFFIXES + MAIL_SUFFIXES + MAILBOX_SUFFIXES + JSONL_SUFFIXES
"""Files in which a passage stands as it does in the index, so that it has a line."""
SUFFIXES = (
    MARKDOWN_SUFFIXES + TEXT_SUFFIXES + HTML_SUFFIXES + PDF_SUFFIXES + JSONL_SUFFIXES + WORD_SUFFIXES
    + SLIDES_SUFFIXES + SHEETS_SUFFIXES + OPEN_DOCUMENT_SUFFIXES + EPUB_SUFFIXES + MAIL_SUFFIXES + MAILBOX_SUFFIXES
    + TABLE_SUFFIXES + JSON_SUFFIXES + NOTEBOOK_SUFFIXES + CODE_SUFFIXES
)  # fmt: skip
READ = (
    "Markdown, text, HTML, PDF, Word, PowerPoint, Excel, OpenDocument, EPUB, e-mail, CSV, JSON, JSONL, notebooks "
    "and source code"
)
"""What is read, in words."""

_MB = 1 << 20
_LARGEST = 128 * _MB
_LARGEST_OF = {
    **dict.fromkeys(HTML_SUFFIXES + JSON_SUFFIXES + NOTEBOOK_SUFFIXES, 32 * _MB),
    **dict.fromkeys((*TABLE_SUFFIXES, ".xml"), 64 * _MB),
    **dict.fromkeys(PDF_SUFFIXES + SLIDES_SUFFIXES + EPUB_SUFFIXES, 256 * _MB),
}


class Unread(NamedTuple):
    """A kind of files that are not read, and why."""

    kind: str
    why: str


_OTHER = Unread("other", "is of a kind that is not read")
_UNREAD = {
    **dict.fromkeys(
        _words("png jpg jpeg gif bmp tif tiff webp heic svg ico psd ai eps raw xcf"), Unread("image", "is an image")
    ),
    **dict.fromkeys(_words("mp3 wav flac ogg m4a aac wma opus mid"), Unread("sound", "is a sound recording")),
    **dict.fromkeys(_words("mp4 mkv avi mov webm wmv m4v mpg mpeg"), Unread("video", "is a video")),
    **dict.fromkeys(
        _words("zip gz tgz bz2 xz zst 7z rar tar jar war whl deb rpm iso dmg"),
        Unread("archive", "is an archive; unpack it to have its files read"),
    ),
    **dict.fromkeys(_words("ttf otf woff woff2 eot"), Unread("font", "is a font")),
    **dict.fromkeys(
        _words("exe dll so dylib a o obj lib bin class pyc pyd wasm"), Unread("program", "is a compiled program")
    ),
    **dict.fromkeys(
        _words("db sqlite sqlite3 mdb accdb parquet feather arrow npy npz h5 hdf5 pkl pickle pt safetensors gguf onnx"),
        Unread("data", "is binary data"),
    ),
    **{
        old: Unread("old", f"is in an old or closed format; save it as .{new} to have it read")
        for old, new in {
            "doc": "docx", "dot": "docx", "rtf": "docx", "wps": "docx", "pages": "docx", "wpd": "docx",
            "xls": "xlsx", "xlt": "xlsx", "xlsb": "xlsx", "numbers": "xlsx", "ppt": "pptx", "pps": "pptx",
            "key": "pptx", "msg": "eml", "pst": "mbox", "mobi": "epub", "azw3": "epub", "djvu": "pdf", "ps": "pdf",
        }.items()
    },
}  # fmt: skip


def is_read(name: str) -> bool:
    """Whether a file of this name is read."""
    name = name.lower()
    return name.endswith(SUFFIXES) or name.rpartition("/")[2] in CODE_NAMES


def why_unread(name: str) -> Unread:
    """Why a file of this name is not read."""
    return _UNREAD.get(name.lower().rpartition(".")[2], _OTHER)


def largest(name: str) -> int | None:
    """The most bytes of a file of this name; None where it is read piece by piece, whatever its size."""
    name = name.lower()
    if name.endswith(JSONL_SUFFIXES + MAILBOX_SUFFIXES):
        return None
    dot = name.rfind(".")
    return _LARGEST_OF.get(name[dot:] if dot >= 0 else "", _LARGEST)


_BEGINNING = 32 << 10
"""Bytes that are looked at. Servers on the way put up to some ten kilobytes of headers before a message's own."""
_HEADER = re.compile(rb"([!-9;-~]{1,80}):")
_DATED = {b"date", b"message-id", b"received"}


def known_as(name: str, path: Path) -> str:
    """The suffix that a file ought to have: ".eml" for a message, ".mbox" for a mailbox; "" where its own says it, for
    any other file, and for one that cannot be opened."""
    if is_read(name) or why_unread(name).kind != "other":
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
