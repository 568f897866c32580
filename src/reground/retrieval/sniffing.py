"""What a file is by its beginning, where its name does not say.

Mail programs store messages under names without a suffix: the messages of a Maildir, the numbers of MH, the mailboxes
of Thunderbird and of a mail server's spool.
"""

from __future__ import annotations

import re
from pathlib import Path

from reground.retrieval.kinds import is_read, why_unread

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
