"""E-mail: one message (.eml), or a mailbox of many (.mbox).

Of a text and a page that say the same, the text counts; a page that says more is read. Messages inside of it,
invitations and what a server says of a delivery are read behind it; other attachments are named and not read. Of a
message only its first 16 MB are looked at: its texts stand before what is attached.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from email import message_from_bytes
from email.header import decode_header
from email.message import Message
from email.policy import Compat32, Policy, compat32
from email.utils import getaddresses, parsedate_to_datetime
from functools import cache, partial
from typing import IO, Any

from reground.core.language import storable_text
from reground.retrieval.encodings import Unreadable, decode, text_encoding
from reground.retrieval.reading.result import Circumstances, Read
from reground.retrieval.reading.web import plain

LARGEST_MESSAGE = 16 << 20
_MOST_PARTS = 20_000
_MOST_NESTED = 64  # boundaries of parts; the standard library's parser compares every line with all that are open
_LONGEST_HEADER = 2000
_ATTACHED = 50
_FEW_WORDS = 3  # of a page that its text may lack
_PIECE = 1 << 20
_BODIES = ("text/plain", "text/html")
_HEADS = ("From", "To", "Cc", "Date")
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_FLOWED = re.compile(r"(?<!\n--) \r?\n(?:>+ ?)?")  # where a line goes on in the next one, if `delsp` is yes
_WORD = re.compile(r"\w+")
_NAMELESS = ("us-ascii", "ascii", "unknown-8bit")  # charsets that programs write where they know none


class _Part(Message):
    """A part of a message. Parts and boundaries of all parts are counted as the parser makes them, however they are
    written; too many are Unreadable."""

    def __init__(self, counts: Counter[str], policy: Policy = compat32) -> None:
        super().__init__(policy)
        self._counts = counts
        self._count("parts", _MOST_PARTS)

    def get_boundary(self, failobj: Any = None) -> Any:
        """What stands between the parts of a part; the parser asks for it once."""
        self._count("nested parts", _MOST_NESTED)
        return super().get_boundary(failobj)

    def _count(self, what: str, most: int) -> None:
        self._counts[what] += 1
        if self._counts[what] > most:
            raise Unreadable(f"has more than {most} {what}")


class _Bounded(Compat32):
    """Cuts every header where it comes in: the standard library takes the square of its length for its parameters.

    Letters beyond ASCII that stand in a header as they are, which many programs write, are made out.
    """

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """The name and the value of a header."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_HEADER]

    def header_fetch_parse(self, name: str, value: str) -> str:
        """A header's value; the standard library puts a question mark for every byte of such letters."""
        try:
            return value if value.isascii() else decode(value.encode("ascii", "surrogateescape")).text
        except (UnicodeEncodeError, Unreadable):
            return value.encode("utf-8", "replace").decode()


def read_mail(content: bytes, around: Circumstances) -> Read:
    """The subject and the text of a message, after lines that say who wrote when to whom."""
    return _read(_parsed(content))


def mailbox(file: IO[bytes], around: Circumstances) -> Iterator[tuple[str, Read]]:
    """The messages of a mailbox, one in memory at a time, and a key that each has wherever it stands. Raises Unreadable
    for a file that is none."""
    for content in messages(file):
        around.tick()
        try:
            message = _parsed(content)
            yield _header(message, "Message-ID").strip("<> ") or _digest(content), _read(message)
        except (MemoryError, ImportError):
            raise
        except Exception:  # the parsers fail in many ways on what spam holds
            yield _digest(content), Read("", content.decode("utf-8", "replace"))


def messages(file: IO[bytes]) -> Iterator[bytes]:
    """The messages of a mailbox as they stand, each cut to its first 16 MB. Raises Unreadable for no mailbox."""
    lines: list[bytes] | None = None
    size = 0
    is_behind_blank = begins = True
    while piece := file.readline(_PIECE):
        if begins and is_behind_blank and piece.startswith(b"From "):
            if lines is not None:
                yield b"".join(lines)
            lines, size = [], 0
        elif lines is None:
            raise Unreadable("is not a mailbox: it does not begin with a From line")
        elif size < LARGEST_MESSAGE:
            lines.append(piece[1:] if begins and piece.startswith(b">From ") else piece)
            size += len(piece)
        is_behind_blank = begins and not piece.strip(b"\r\n")
        begins = piece.endswith(b"\n")
    if lines is not None:
        yield b"".join(lines)


def _parsed(content: bytes) -> Message:
    content = decode(content).text.encode() if content.startswith(_WIDE) else content
    return message_from_bytes(content[:LARGEST_MESSAGE], partial(_Part, Counter()), policy=_Bounded())


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _read(message: Message) -> Read:
    texts: list[str] = []
    attached: list[str] = []
    guessed = partly = ""
    decoded = cache(_text)
    for part in _leaves(message, decoded):
        kind, name = part.get_content_type(), _one_line(str(part.get_filename() or ""))
        if part.is_multipart():
            is_mail = kind == "message/rfc822"  # else what a server says of a delivery
            inner = [_heads(each, ("Subject", *_HEADS) if is_mail else [*each][:_ATTACHED]) for each in _inner(part)]
            texts += map("\n".join, inner[:_ATTACHED])
        elif kind == "text/calendar":
            said = calendar(decoded(part)[0])
            texts += [] if said in texts else [said]  # beside the text and, again, attached
        elif kind in _BODIES and part.get_content_disposition() != "attachment":
            said, guess = decoded(part)
            said, missing = plain(said, links=True) if kind == "text/html" else (said, "")
            texts.append(said)
            guessed, partly = guessed or guess, partly or missing
        elif len(attached) < _ATTACHED:
            attached.append(name or kind)
    body = "\n\n".join(filter(None, map(str.strip, texts)))
    files = [f"Attachments (not read): {', '.join(attached)}"] if attached else []
    blocks = filter(None, ("\n".join(_heads(message, _HEADS)), body, *files))
    text = "\n\n".join(blocks) if body or _header(message, "Subject") or files else ""
    return Read(_header(message, "Subject"), text, guessed, partly, fields=_fields(message))


def _fields(message: Message) -> dict[str, object]:
    """Who wrote to whom, as names and as addresses, and when."""
    known: dict[str, object] = {"subject": _header(message, "Subject")}
    for name in ("From", "To", "Cc"):
        people = getaddresses([_header(message, name)])[:_ATTACHED]
        known[name] = [said for name, address in people for said in (name, address) if said]
    with suppress(ValueError, TypeError, OverflowError, IndexError):
        known["date"] = parsedate_to_datetime(_header(message, "Date"))
    return known


def _heads(message: Message, names: Sequence[str]) -> list[str]:
    return [f"{name}: {said}" for name in names if (said := _header(message, name))]


def _inner(part: Message) -> list[Message]:
    return [each for each in part.get_payload() if isinstance(each, Message)]


def _leaves(message: Message, decoded: Callable[[Message], tuple[str, str]]) -> Iterator[Message]:
    """The parts that hold what is not said better beside them; behind one that holds a message come that one's."""
    waiting = [(message, "")]
    while waiting:
        part, needless = waiting.pop()
        # Of a part without others, `get_payload` decodes the text, in any encoding that is named.
        if part.is_multipart():
            if part is not message and part.get_content_maintype() == "message":
                yield part
            parts = _inner(part)
            is_choice = part.get_content_subtype() == "alternative"
            needless = needless or (_needless(parts, decoded) if is_choice else "")
            waiting += [(each, needless) for each in reversed(parts)]
        elif part.get_content_type() != needless:
            yield part


def _needless(parts: Sequence[Message], decoded: Callable[[Message], tuple[str, str]]) -> str:
    """Which kind of parts says nothing that those beside it do not: pages, or texts that are a piece of them. None
    where a text only says that there is a page."""
    texts = " ".join(decoded(each)[0] for each in parts if each.get_content_type() == "text/plain")
    if not texts.strip():
        return ""
    leaves = [each for part in parts for each in part.walk() if each.get_content_type() == "text/html"]
    said = set(_WORD.findall(texts.lower()))
    shown = set(_WORD.findall(" ".join(plain(decoded(each)[0])[0] for each in leaves).lower()))
    if len(shown - said) <= max(len(shown & said), _FEW_WORDS):
        return "text/html"
    return "text/plain" if len(said - shown) <= len(said & shown) else ""


def _text(part: Message) -> tuple[str, str]:
    """The text of a part, and the guess of its encoding."""
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return "", ""
    text, guessed = _decoded(content, part.get_content_charset(""))
    return _FLOWED.sub("", text) if str(part.get_param("delsp")).lower() == "yes" else text, guessed


def _decoded(content: bytes, charset: str) -> tuple[str, str]:
    encoding = charset if charset == "utf-7" else text_encoding(charset)
    is_narrow = encoding.startswith("utf-16") and b"\0" not in content
    try:
        if encoding and charset not in _NAMELESS and not is_narrow:
            return storable_text(content.decode(encoding)), ""  # UTF-7 can write half a surrogate pair
    except ValueError:
        pass  # a wrong name: it is made out from the bytes
    return decode(content.replace(b"\0", b" "))


_CALENDAR = {
    "SUMMARY": "Event", "DTSTART": "Begins", "DTEND": "Ends", "DUE": "Due", "RRULE": "Repeats", "LOCATION": "Place",
    "ORGANIZER": "Organizer", "ATTENDEE": "Attendee", "STATUS": "Status", "DESCRIPTION": "Description",
}  # fmt: skip
_FOLDED = re.compile(r"\r?\n[ \t]")
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_ESCAPED = re.compile(r"\\(.)")


def read_calendar(content: bytes, around: Circumstances) -> Read:
    """The events and tasks of a calendar."""
    text, guessed = decode(content)
    return Read("", calendar(text), guessed)


def calendar(source: str) -> str:
    """What, when, where and who of the events and tasks of a calendar, in lines."""
    lines, is_event = list[str](), False
    for line in _FOLDED.sub("", source).splitlines():
        key, _, value = line.partition(":")
        name, *parameters = key.split(";")
        if name in ("BEGIN", "END"):
            is_event = name == "BEGIN" and value.strip() in ("VEVENT", "VTODO", "VJOURNAL")
            lines += [""] if is_event and lines else []
        elif is_event and name in _CALENDAR and value:
            lines.append(f"{_CALENDAR[name]}: {_calendar_value(value, parameters)}")
    return "\n".join(lines)


def _calendar_value(value: str, parameters: Sequence[str]) -> str:
    given = dict(each.partition("=")[::2] for each in parameters)
    if moment := _MOMENT.fullmatch(value):
        year, month, day, hour, minute, zone = moment.groups("")
        place = "UTC" if zone else given.get("TZID", "")
        return f"{year}-{month}-{day} {f'{hour}:{minute} {place}' if hour else ''}".strip()
    said = _ESCAPED.sub(lambda escaped: "\n" if escaped[1] in "nN" else escaped[1], value)
    address = said.removeprefix("mailto:").removeprefix("MAILTO:")
    return f"{given['CN'].strip(chr(34))} ({address})" if "CN" in given else address


def _header(message: Message, name: str) -> str:
    return _one_line(str(message.get(name) or ""))


def _one_line(header: str) -> str:
    """A header as it is read, on one line."""
    header = header[:_LONGEST_HEADER]
    try:
        pieces = [
            piece.decode(charset or "ascii", "replace") if isinstance(piece, bytes) else piece
            for piece, charset in decode_header(header)
        ]
    except (LookupError, ValueError):
        pieces = [header]
    return " ".join("".join(pieces).encode("utf-8", "replace").decode().split())
