"""Code blocks in Markdown as models write it: doubled fences, fences within a line, blocks that never close."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_MARGIN = re.compile(r"\A(?:[>*+-]\s?)*+(?:\d++[.)])?")
_SHORTEST = 3
_ONE_WORD = re.compile(r"[\w+#.-]*")
_LANGUAGE = re.compile(r"[{.\s]*([\w+#-]*)")


def code_blocks(text: str) -> list[tuple[str, str]]:
    """The language and the body of every fenced block, in order; blank bodies and a last unclosed block included.

    Blocks are CommonMark's, with three exceptions. A fence may end a line of prose or code. A fence with a language
    directly after an opening fence replaces it. A fence with a language inside a block closes it too.
    """
    found: list[_Block] = []
    block: _Block | None = None
    for line in text.split("\n"):
        fence = _fence(line)
        if block is None:
            block = _opened(fence) if fence is not None else None
        elif fence is None or not block.ends_at(fence):
            block.lines.append(block.dedented(line))
        else:
            if not fence.alone:
                block.lines.append(block.dedented(fence.before))
            found.append(block)
            block = _opened(fence) if block.reopened_by(fence) else None
    if block is not None:
        found.append(block)
    return [(each.language, "\n".join(each.lines)) for each in found]


def without_fences(text: str) -> str:
    """The text without the lines that are fences and nothing else."""
    return "\n".join(line for line in text.split("\n") if not ((fence := _fence(line)) and fence.alone))


@dataclass(frozen=True)
class _Fence:
    """A line that ends in a fence: the text before it, its mark, and the text after it."""

    before: str
    mark: str
    info: str

    @property
    def alone(self) -> bool:
        """Whether only indentation, or the marker of a list or a quotation, comes before it."""
        return _MARGIN.fullmatch(self.before.strip()) is not None

    @property
    def names_a_language(self) -> bool:
        """Whether the text after it can be a language, not a sentence."""
        return bool(self.info) and (_ONE_WORD.fullmatch(self.info) is not None or self.info[0] == "{")


@dataclass
class _Block:
    mark: str
    indent: int
    language: str
    lines: list[str] = field(default_factory=list)

    @property
    def blank(self) -> bool:
        return not "".join(self.lines).strip()

    def ends_at(self, fence: _Fence) -> bool:
        same = fence.mark.startswith(self.mark)
        if self.blank and fence.alone:
            return same or bool(fence.info)
        return same and (fence.alone or not fence.info)

    def reopened_by(self, fence: _Fence) -> bool:
        return fence.alone and (fence.names_a_language or (self.blank and bool(fence.info)))

    def dedented(self, line: str) -> str:
        """The line without the indentation of the opening fence."""
        margin = len(line) - len(line.lstrip(" \t"))
        return line[min(margin, self.indent) :]


def _fence(line: str) -> _Fence | None:
    end = max(line.rfind("`"), line.rfind("~")) + 1
    before = line[:end].rstrip(line[end - 1]) if end else ""
    mark = line[len(before) : end]
    if len(mark) < _SHORTEST or mark in before:
        return None
    return _Fence(before, mark, line[end:].strip())


def _opened(fence: _Fence) -> _Block | None:
    """The block that a fence opens; None if the fence is inside a line of prose."""
    if not fence.alone and _ONE_WORD.fullmatch(fence.info) is None:
        return None
    language = _LANGUAGE.match(fence.info)
    return _Block(fence.mark, len(fence.before) if fence.alone else 0, language[1].lower() if language else "")
