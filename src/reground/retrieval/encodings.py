"""Turns bytes into text: finds a file's encoding, and whether it is known or guessed.

A byte-order mark decides, then UTF-8 where the bytes are valid UTF-8, then what the file declares (HTML and XML), and
only then a guess: by the characters that East Asian texts would hold, else by charset-normalizer. So a UTF-8 corpus
pays nothing for the guessing. Left to itself, with all encodings to choose from, charset-normalizer takes Polish and
French for Baltic and one line of KOI8-R for Japanese.

The encodings of Japanese, Korean and Chinese overlap: most bytes of one are characters of all the others. But a text in
the wrong one is odd: Japanese prose is a third kana and more, Korean is hangul throughout, and Chinese keeps to the
characters that its standards put first because they are frequent.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from reground.core.errors import DataError

if TYPE_CHECKING:
    from charset_normalizer import CharsetMatch


class Unreadable(DataError):
    """A file that yields no document; the corpus can do without it.

    kind: what is the matter, in one word by which such files are counted.
    """

    def __init__(self, why: str, *, kind: str = "damaged") -> None:
        super().__init__(why)
        self.kind = kind

    @classmethod
    def of(cls, error: Exception) -> Unreadable:
        """The error of a file whose reading failed in this way."""
        if isinstance(error, Unreadable):
            return error
        if isinstance(error, OSError) and error.strerror:
            return cls(f"cannot be read: {error.strerror}", kind="failed")
        if isinstance(error, MemoryError):
            return cls("cannot be read: it needs more memory than there is", kind="failed")
        why = ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))
        if isinstance(error, (OSError, ImportError)):
            return cls(f"cannot be read: {why}", kind="failed")
        return cls(f"is damaged: {why}")  # a broken file can make a parser fail in any way


class Decoded(NamedTuple):
    """A text, and the name of its encoding where that was guessed, else ""."""

    text: str
    guessed: str = ""


# The longer marks first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What guesses are made among. The fewer there are, the better the guess of a short text.
_WESTERN, _CENTRAL = "cp1252", ("cp1250", "iso8859_2")
_WIDE = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_NARROW = ("cp1251", "koi8_r", "iso8859_5", "cp866", "cp1253", "cp1254", "cp1255", "cp1256", "cp874")
_NAMES = {"cp932": "shift_jis", "cp949": "euc-kr", "cp866": "ibm866", "cp874": "windows-874"}
# Names that pages use for more than they say, after the WHATWG's Encoding Standard, section 4.2.
_SUPERSETS = {
    "ascii": "cp1252", "us-ascii": "cp1252", "latin1": "cp1252", "iso-8859-1": "cp1252", "iso-8859-9": "cp1254",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932", "x-sjis": "cp932",
    "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "x-user-defined": "cp1252",
}  # fmt: skip
_DECLARED = re.compile(
    rb"""<(?:meta\b[^>]{0,400}?\bcharset|\?xml\b[^>]{0,200}?\bencoding)\s{0,9}=\s{0,9}["']?([\w.:-]+)""", re.IGNORECASE
)
_DECLARED_WITHIN = 4096
_ESCAPING = ("iso2022", "hz")
# What Python also knows as encodings is not for texts (zlib), or takes the square of a text's length (punycode).
_UNICODE = ("utf-8", "utf-16")
_TRUSTED = ("cp", "iso8859", "koi8", "mac", "shift", "euc", "gb", "big5", "tis", *_ESCAPING, *_UNICODE)
_SAMPLE = 65536
_FEWEST_GUESSED = 20  # bytes beyond ASCII below which a few odd lines are Western
_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\v\f\r\x1b"))
_MOST_CONTROLS = _MOST_LOST = 0.01
_DAMAGED = 2
_BY_CHANCE = 2  # letters that are valid UTF-8 in a text that is none
_TERMINAL = re.compile(
    r"[^\n]\x08|\x1b(?:\[[0-9;:?]{0,40}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])"
)
"""A letter that is struck over, and what sets colours, titles and places of a terminal."""
_ALONE = re.compile(r"\r(?!\n)")


def decode(content: bytes, *, markup: bool = False) -> Decoded:
    """The text of a file; in HTML and XML (`markup`) its declaration counts. Raises Unreadable if it is not text.

    What tells a terminal colours and bold letters is left out, and a carriage return alone ends a line.
    """
    text, guessed = _decoded(content, markup=markup)
    if "\b" in text or "\x1b" in text:
        text = _TERMINAL.sub("", text)
    if text.count("\r") > text.count("\r\n"):
        text = _ALONE.sub("\n", text)
    return Decoded(text, guessed)


def _decoded(content: bytes, *, markup: bool) -> Decoded:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return Decoded(content.decode(encoding, "replace").removeprefix("\ufeff"))
    if b"\0" in content:
        return _unmarked(content)
    match = _DECLARED.search(content[:_DECLARED_WITHIN]) if markup else None
    declared = text_encoding(match[1].decode("ascii", "replace")) if match else ""
    if declared.startswith(_UNICODE):
        declared = ""  # UTF-8 is tried anyway, and what is UTF-16 without a mark is not read
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return Decoded(content.decode(declared, "replace")) if declared else _without_name(content, error.start)
    # Valid UTF-8 is hardly ever anything else, except for encodings that switch by escapes and use only ASCII bytes.
    return Decoded(content.decode(declared, "replace") if declared.startswith(_ESCAPING) else text)


def _unmarked(content: bytes) -> Decoded:
    """A text in UTF-16 without a mark, which has its blanks and signs in ASCII. Raises Unreadable for any other."""
    for encoding in ("utf-16-le", "utf-16-be"):
        sample = content[: min(len(content), _SAMPLE) & ~1].decode(encoding, "replace")
        odd = sum(not (char.isprintable() or char.isspace()) or char == "\ufffd" for char in sample)
        if odd <= _MOST_CONTROLS * len(sample) < sum(map(str.isascii, sample)):
            return Decoded(content.decode(encoding, "replace"), encoding)
    raise Unreadable("is binary, not text", kind="binary")


def text_encoding(name: str) -> str:
    """The encoding of texts that a page, a server or a message means by this name, by Python's name for it; "" for an
    unknown one, and for what is no encoding of texts or may take the square of their length."""
    name = name.strip().lower()
    try:
        encoding = codecs.lookup(_SUPERSETS.get(name, name)).name
    except (LookupError, ValueError):
        return ""
    return encoding if encoding.startswith(_TRUSTED) else ""


def _without_name(content: bytes, invalid: int) -> Decoded:
    """Text that is not UTF-8 and declares no encoding. `invalid`: the position of the first invalid byte."""
    text = content.decode("utf-8", "replace")
    # For every byte more than characters, some letter was UTF-8. In other encodings most are lost.
    if _DAMAGED * text.count("\ufffd") <= len(content) - len(text) or _has_lines_of_utf_8(content):
        del text
        return Decoded(_line_by_line(content), "damaged utf-8")
    sample = _sample(content, invalid)
    if len(sample) - len(sample.translate(None, _CONTROLS)) > _MOST_CONTROLS * len(sample):
        raise Unreadable("is binary, not text", kind="binary")
    encoding = east_asian(sample) or _guess(sample)
    text = content.decode(encoding, "replace") if encoding else ""
    if not encoding or text.count("\ufffd") > _MOST_LOST * len(text):
        raise Unreadable("is in no encoding that can be made out; save it as UTF-8", kind="encoding")
    return Decoded(text, _NAMES.get(encoding, encoding.replace("cp", "windows-").replace("iso8859_", "iso-8859-")))


def _has_lines_of_utf_8(content: bytes) -> bool:
    """Whether many lines of a text are UTF-8 and others are not, as in a log that several programs write."""
    lines = [line for line in BytesIO(content[: 16 * _SAMPLE]) if not line.isascii()]
    valid = [line for line in lines if _is_utf_8(line)]
    letters = sum(not char.isascii() for line in valid for char in line.decode())
    return letters > _BY_CHANCE and 3 * len(valid) >= len(lines)


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line_by_line(content: bytes) -> str:
    """A text of UTF-8, with the lines in it that hold none in the encoding that they are likely in."""
    sample = b""
    for line in BytesIO(content):
        sample += line if len(sample) < _SAMPLE and _is_other(line) else b""
    is_enough = sum(byte > 0x7F for byte in sample) >= _FEWEST_GUESSED
    other = (is_enough and _guess(sample[:_SAMPLE])) or _WESTERN
    return "".join(line.decode(other if _is_other(line) else "utf-8", "replace") for line in BytesIO(content))


def _is_other(line: bytes) -> bool:
    """Whether a line is no UTF-8, and most bytes in it are none."""
    text = line.decode("utf-8", "replace")
    return not _is_utf_8(line) and _DAMAGED * text.count("\ufffd") > len(line) - len(text)


def _sample(content: bytes, invalid: int) -> bytes:
    """A piece of the content around the invalid bytes; whole lines, unless they are too long."""
    start = content.rfind(b"\n", 0, invalid) + 1
    start = start if invalid - start < _SAMPLE else invalid
    if len(content) - start <= _SAMPLE:
        return content[start:]
    piece = content[start : start + _SAMPLE]
    return piece[: piece.rfind(b"\n") + 1] or piece


def _guess(sample: bytes) -> str:
    """The likeliest encoding; "" if none fits."""
    # A sample without a line's end may end inside a character, of up to four bytes.
    ends = [len(sample)] if sample.endswith(b"\n") or len(sample) < _SAMPLE else range(len(sample) - 3, len(sample) + 1)
    fits = [best.encoding for end in ends if (best := _best(sample[:end])) is not None]
    encoding = next((name for name in fits if name in _WIDE), fits[0] if fits else "")
    if encoding not in _CENTRAL:
        return encoding
    # These differ in a few letters. Western European wins without evidence for a Central European language.
    coherence = {name: best.coherence for name in (_WESTERN, *_CENTRAL) if (best := _best(sample, name)) is not None}
    return max(coherence, key=coherence.__getitem__)


def _best(sample: bytes, *encodings: str) -> CharsetMatch | None:
    from charset_normalizer import from_bytes

    return from_bytes(sample, cp_isolation=list(encodings or (_WESTERN, *_CENTRAL, *_NARROW, *_WIDE))).best()


_FEWEST = 6  # characters beyond ASCII below which nothing is said
_KANA, _HALF_KANA, _HANGUL, _FREQUENT, _HAN = 0.2, 0.05, 0.9, 0.85, 0.6
_TAIL = 3  # bytes at the end of a sample that may be a part of a character


_Test = Callable[[str, bytes], bool]  # of a character and its bytes


def east_asian(sample: bytes) -> str:
    """Python's name of the encoding that a sample of a text is in beyond doubt; "" where that cannot be said."""
    japanese = {
        name: _share(sample, name, lambda char, _: "\u3041" <= char <= "\u30fe") for name in ("cp932", "euc_jp")
    }
    likely = max(japanese, key=japanese.__getitem__)
    half_kana = _share(sample, likely, lambda char, _: "\uff61" <= char <= "\uff9f")
    if japanese[likely] >= _KANA and half_kana <= _HALF_KANA:
        return likely
    if _share(sample, "cp949", lambda char, code: "\uac00" <= char <= "\ud7a3" and min(code) >= 0xA1) >= _HANGUL:
        return "cp949"
    for name, is_frequent in (("gb18030", _in_rows(0xB0, 0xD7, 0xA1)), ("big5", _in_rows(0xA4, 0xC6, 0))):
        han = _share(sample, name, lambda char, _: "\u4e00" <= char <= "\u9fff")
        if han >= _HAN and _share(sample, name, is_frequent) >= _FREQUENT * han:
            return name
    return ""


def _in_rows(first: int, last: int, column: int) -> _Test:
    """Whether a Chinese character stands in these rows of its code, where the frequent ones are."""
    return lambda char, code: "\u4e00" <= char <= "\u9fff" and first <= code[0] <= last and code[1] >= column


def _share(sample: bytes, name: str, is_so: _Test) -> float:
    """The share of a text's characters beyond ASCII that pass a test; 0 where it is no text in this encoding."""
    text = ""
    for tail in range(_TAIL + 1):
        try:
            text = sample[: len(sample) - tail].decode(name)
            break
        except UnicodeDecodeError as error:
            if error.start < len(sample) - tail - _TAIL:
                return 0.0
    beyond = [char for char in text if char > "\x7f"]
    if len(beyond) < _FEWEST:
        return 0.0
    return sum(is_so(char, char.encode(name)) for char in beyond) / len(beyond)
