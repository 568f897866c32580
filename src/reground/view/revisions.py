"""Which text a reply is a new version of, because a trajectory does not name it.

It is looked for in the prompt, and where the prompt holds no such text, as when a method asks again with other
passages, among the replies before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from reground.core.language import Message

_LEAST = 0.4
"""The share of words that a revision keeps, of the longer of both texts. Another kind of reply keeps fewer."""
_FEW = 8
"""Words of a reply from which on it may be a version of one that its prompt does not hold. A verdict has fewer."""
_SHORT = 8
"""Characters of a line that is known only if it is a whole line of an earlier reply."""
_MARKER = re.compile(r"\[\d+\]")


def text_before(messages: Sequence[Message], reply: str, earlier: Sequence[str]) -> str | None:
    """The text that earlier replies wrote and that this reply is a version of; None if there is none."""
    said = [_plain(text) for text in earlier]
    lines = {_plain(line) for text in earlier for line in text.splitlines()}
    blocks = (block for message in messages for block in _blocks(message.content, said, lines))
    kept, best = max(((_kept(block, reply), block) for block in blocks), default=(0.0, ""))
    if kept >= _LEAST:
        return best
    if len(reply.split()) < _FEW:
        return None
    return next((text.strip() for text in reversed(earlier) if _kept(text, reply) >= _LEAST), None)


def _blocks(content: str, said: Sequence[str], lines: set[str]) -> Iterator[str]:
    """Runs of lines that earlier replies wrote."""
    block: list[str] = []
    for line in content.splitlines():
        _, _, behind = line.partition(": ")
        known = next((part for part in (line, behind) if _known(_plain(part), said, lines)), None)
        if known is not None:
            block.append(known)
        elif line.strip() and block:
            yield "\n".join(block).strip()
            block = []
        elif block:
            block.append("")
    if block:
        yield "\n".join(block).strip()


def _known(line: str, said: Sequence[str], lines: set[str]) -> bool:
    return bool(line) and (line in lines or (len(line) >= _SHORT and any(line in text for text in said)))


def _plain(text: str) -> str:
    """Without citation markers, which a method may renumber, and with plain white space."""
    return " ".join(_MARKER.sub(" ", text).split())


def _kept(before: str, after: str) -> float:
    old, new = Counter(before.split()), Counter(after.split())
    return (old & new).total() / max(1, old.total(), new.total())
