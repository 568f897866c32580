"""Text from outside is data: how it is made harmless and how it is fenced.

A llama.cpp server, like most, turns the text `<|im_end|>` inside a message into the control token
of that name. A passage could so end its own turn and speak as the system. `neutralise` breaks every
such token with a space, which a reader hardly sees and a tokenizer never joins again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reground.core.evidence import Passage
from reground.core.language import Message, Reply

_CONTROL = re.compile(
    r"<(?=\|)"  # <|im_start|>, <|eot_id|>, <|endoftext|>, ...
    r"|<(?=｜)"  # the full-width bars of DeepSeek
    r"|\|(?=>)"
    r"|｜(?=>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|mask|start_of_turn|end_of_turn|start_of_image|unused\d+)>)"
    r"|<(?=</?SYS>>)"
    r"|<(?=/?(?:tool_call|tool_response|think|image|reponame|repo_name|filename|file_sep|gh_stars|fim_\w+|issue_\w+"
    r"|jupyter_\w+|empty_output|commit_\w+)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|IMG|PREFIX|MIDDLE|SUFFIX)\])",
    re.IGNORECASE,
)
_FENCE = re.compile(r"<(?=\s*/?\s*passage\b)", re.IGNORECASE)
_OPENED = re.compile(r'^<passage number="\d+"', re.MULTILINE)
_VALUE = r"""(?:"[^"\n]{0,400}"|'[^'\n]{0,400}'|[^\s<>"']{0,40})"""
_TAG = re.compile(
    rf"<(/?)passage(?:\s{{1,9}}\w{{1,20}}={_VALUE}){{0,4}}\s{{0,9}}>"
    r"|<(/?)pass(?:a(?:g(?:e\b[^>\n]{0,400})?)?)?\Z"  # cut by the length limit
    r"|<(/?)passage\b",
    re.IGNORECASE,
)
_PASSES = 8


def neutralise(text: str, extra: Iterable[str] = ()) -> str:
    """Break control tokens in `text`; `extra` are a model's own special tokens, matched exactly.

    Applying it twice changes nothing more.
    """
    if "<" in text or "[" in text or "|" in text or "｜" in text:
        text = _CONTROL.sub(r"\g<0> ", text)
    for token in extra:
        if len(token) > 1 and token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def clip(text: str, tokens: int) -> str:
    """The first `tokens` tokens' worth of text, at four characters a token, cut at white space."""
    limit = 4 * tokens
    if len(text) <= limit:
        return text
    cut = text.rfind(" ", limit // 2, limit)
    return text[: cut if cut > 0 else limit].rstrip() + " ..."


def fence(passages: Sequence[Passage], *, markers: Sequence[int] | None = None, tokens: int = 2000) -> str:
    """Passages as a prompt shows them: numbered, delimited, cut to `tokens` tokens each, control tokens broken."""
    numbers = markers if markers is not None else range(1, len(passages) + 1)
    blocks = []
    for number, passage in zip(numbers, passages, strict=True):
        title = " ".join(_harmless(passage.title).split()).replace('"', "'")
        head = f'<passage number="{number}" title="{title}">' if title else f'<passage number="{number}">'
        blocks.append(f"{head}\n{clip(_harmless(passage.text), tokens).strip()}\n</passage>")
    return "\n".join(blocks)


def unfence(replies: Sequence[Reply], messages: Sequence[Message]) -> tuple[Reply, ...]:
    """Replies without the fences that models copy from their prompt, and without what stands inside them.

    A passage in a reply repeats the prompt or is made up. Where nothing else is left, only the tags go, because some models
    wrap their answer in them. Replies to messages that show no passage stay as they are: there a tag is the model's own.
    """
    fenced = any(_OPENED.search(message.content) for message in messages)
    return tuple(_unfenced(reply) if fenced else reply for reply in replies)


def _unfenced(reply: Reply) -> Reply:
    for _ in range(_PASSES):  # taking a tag out can join the halves of another one
        if not _TAG.search(reply.text):
            return reply
        without = reply.only(_outside(reply.text, passages=True))
        some = any(char.isalnum() for char in without.text)
        reply = without if some else reply.only(_outside(reply.text, passages=False))
    found = _TAG.search(reply.text)
    return reply.upto(found.start()) if found else reply


def _outside(text: str, *, passages: bool) -> list[tuple[int, int]]:
    """The ranges outside the tags; `passages`: outside the passages, one without an end reaching to the end of the text."""
    ranges, start, inside = [], 0, False
    for tag in _TAG.finditer(text):
        if not inside:
            ranges.append((start, tag.start()))
        inside = passages and not any(tag.groups())
        start = tag.end()
    return ranges if inside else [*ranges, (start, len(text))]


def _harmless(text: str) -> str:
    """Neutralised, and unable to close the fence that it stands in."""
    return _FENCE.sub("< ", neutralise(text))
