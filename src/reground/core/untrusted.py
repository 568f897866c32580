"""Makes text from outside harmless, and fences passages in prompts.

A llama.cpp server, like most, turns the text `<|im_end|>` inside a message into the control token of that name. With it
a passage could end its turn and speak as the system. `neutralise` breaks every such token with a space, which readers
hardly notice and tokenizers never join.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import starmap

from reground.core.evidence import Passage, unbracketed
from reground.core.language import Message, Reply

_NAMES = (
    "bos|eos|pad|unk|mask|cls|sep|sop|eop|eod|eot|eoh|eoa|eosys|eom|bom|sos|think|thinking|image|filename|escape|pause"
    "|reponame|functions?|toolcalls?|pr|code_interpreter|code_to_intermediate|intermediate_to_code|empty_output|2mass"
    r"|beginning_of_sentence|\w{1,40}_(?:bos|eos|eot|eod|pad|unk|sep|cls|mask|start|end|begin|token|image|audio|video)"
)
_FAMILIES = (
    "start|end|begin|unused|reserved|extra|special|tokens?|tools?|function|fim|repo|file|jupyter|issue|commit|pr|gh|img|image"
    "|audio|video|vision|speech|tts|ref|box|quad|mask|pad|placeholder|seed|minimax|longcat|ctx|arg|im"
)
"""The first words of names such as <start_of_turn>, <extra_id_7> and <seed:eos>."""

_SQUARE = (
    "INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_[A-Z]+|IMG(?:_[A-Z]+)?|PREFIX|MIDDLE|SUFFIX|THINK|ARGS|CALL_ID|MODEL_SETTINGS"
    "|[gs]?MASK|CLS|SEP|PAD|UNK|BOS|EOS|EOT|EOD|SOS|AUDIO|BEGIN_[A-Z_]+|END_[A-Z_]+|TRANSCRIBE|STREAMING_[A-Z]+|REPEAT|NEXT"
    r"|S2S|NLU|NLG|SPECIAL_\w{1,20}|UNUSED_\w{1,20}|extra_id_\d{1,6}|unused_?\d{1,6}|reserved_?\d{1,6}|@BOS@|multimodal"
)
_CONTROL = re.compile(
    r"<(?=[|｜])"  # <|im_start|>, <|eot_id|>, and the full-width bars of DeepSeek
    r"|\|(?<=\w\|)(?=>)|｜(?<=\w｜)(?=>)|<(?=/?(?-i:s|PRE|SUF|MID|EOT|S2S)>)"
    rf"|<(?=/?(?:{_NAMES})>)"
    rf"|<(?=/?(?:{_FAMILIES})(?:[_:][\w:]{{1,60}}|\d{{1,6}})>)"  # <start_of_turn>, <tool_call>, <unused7>, <seed:eos>
    r"|<(?=/?(?-i:[A-Z]{1,20}(?:_[A-Z\d]{1,20}){1,6})>)"  # <FILL_ME>, <BOS_TOKEN>: no HTML element has an underscore
    r"|<(?=(?:loc|seg)\d{3,4}>)"  # those of PaliGemma
    r"|<(?=</?SYS>>)"
    rf"|\[(?!\d)(?=/?(?:{_SQUARE})\])"  # no name begins with a digit, as citation markers do
    r"|\[(?=\|/?[\w ]{1,60}\|\])"  # [|user|] of EXAONE
    r"|\[(?=e~\[)|\](?=~!?[a-z][\[\]])|\](?=![a-z]~?[\[\]])|\](?=<\][\w ]{1,60}\[>\[)"  # those of MiniMax
    r"|>(?=>[A-Z_]{1,20}<<)"  # >>QUESTION<< of Falcon
    r"|\|(?=\|\|[A-Z_]{1,40}\|\|\|)",  # |||EMAIL_ADDRESS||| of OLMo
    re.IGNORECASE,
)
_MARKS = "<>[]|｜"


def _looks_like(letter: str, more: str) -> str:
    """A class of the characters that look like a letter: its full-width, mathematical and circled forms, and `more`."""
    ranges = (range(0x2100, 0x2150), range(0x24B6, 0x24EA), range(0xFF21, 0xFF5B), range(0x1D400, 0x1D6A4))
    alike = (chr(code) for codes in ranges for code in codes)
    forms = "".join(each for each in alike if unicodedata.normalize("NFKC", each).casefold() == letter)
    return f"[{letter}{more}{forms}]"


_UNSEEN = (
    r"[\s\x00-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u20d0-\u20ff\u2800\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]*+"
)
_SPELLED = _UNSEEN.join(
    starmap(_looks_like, zip("passage", ("рρᴘϱ", "аɑαᴀ", "ѕꜱʂ", "ѕꜱʂ", "аɑαᴀ", "ɡցɢ", "е℮ҽᴇε"), strict=True))
)
_FENCE = re.compile(rf"[<＜﹤‹〈⟨˂❮❬ᐸ≺〈](?! )(?={_UNSEEN}[/／⁄∕⧸╱⟋]?{_UNSEEN}{_SPELLED}(?!\w))", re.IGNORECASE)
"""Text that looks like the fence: with other brackets, similar letters, or invisible characters."""

_OPENS, _CLOSES = '<passage number="', "\n</passage>"
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
    if any(mark in text for mark in _MARKS):
        text = _CONTROL.sub(r"\g<0> ", text)
    for token in extra:
        if len(token) > 1 and token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def clip(text: str, tokens: int) -> str:
    """The first `tokens` tokens of the text, at four characters per token, cut at white space."""
    limit = 4 * tokens
    if len(text) <= limit:
        return text
    end = text.rfind(" ", limit // 2, limit)
    return text[: end if end > 0 else limit].rstrip() + " ..."


def fence(passages: Sequence[Passage], *, markers: Sequence[int] | None = None, tokens: int = 2000) -> str:
    """Passages for a prompt: numbered, delimited, cut to `tokens` tokens each, with control tokens broken.

    References such as [2] become (2): in an answer they would cite passage 2.
    """
    numbers = markers if markers is not None else range(1, len(passages) + 1)
    blocks = []
    for number, passage in zip(numbers, passages, strict=True):
        title = " ".join(harmless(passage.title).split()).replace('"', "'")
        head = f'<passage number="{number}" title="{title}">' if title else f'<passage number="{number}">'
        text = unbracketed(clip(harmless(passage.text), tokens)).strip()
        blocks.append(f"{head}\n{text}\n</passage>")
    return "\n".join(blocks)


def fenced(prompt: str) -> list[tuple[str, str]]:
    """The passages of a prompt that `fence` made, as titles and texts."""
    passages = []
    for piece in prompt.split(_CLOSES)[:-1]:
        head, _, text = piece.rpartition(_OPENS)[2].partition("\n")
        passages.append((head.partition(' title="')[2].rpartition('">')[0], text))
    return passages


def without_fenced(prompt: str) -> str:
    """A prompt without the passages that `fence` made."""
    *pieces, rest = prompt.split(_CLOSES)
    return "".join([*(piece.rpartition(_OPENS)[0] for piece in pieces), rest])


def unfence(replies: Sequence[Reply], messages: Sequence[Message]) -> tuple[Reply, ...]:
    """Remove passages that models copy from their prompt, with their fences.

    A passage in a reply repeats the prompt or is made up. If nothing else is left, only the tags are removed, because
    some models wrap their answer in them. Replies to prompts without passages stay unchanged.
    """
    tagged = any("<" in reply.text for reply in replies)
    if not (tagged and any(_OPENED.search(message.content) for message in messages)):
        return tuple(replies)
    return tuple(map(_unfenced, replies))


def _unfenced(reply: Reply) -> Reply:
    for _ in range(_PASSES):  # taking a tag out can join the halves of another one
        if not _TAG.search(reply.text):
            return reply
        without = reply.only(_outside(reply.text, passages=True))
        some = any(char.isalnum() for char in without.text)
        reply = without if some else reply.only(_outside(reply.text, passages=False))
    tag = _TAG.search(reply.text)
    return reply.upto(tag.start()) if tag else reply


def _outside(text: str, *, passages: bool) -> list[tuple[int, int]]:
    """The ranges outside the tags or, with `passages`, outside the passages. An unclosed one reaches to the end."""
    ranges, start, inside = [], 0, False
    for tag in _TAG.finditer(text):
        if not inside:
            ranges.append((start, tag.start()))
        inside = passages and not any(tag.groups())
        start = tag.end()
    return ranges if inside else [*ranges, (start, len(text))]


def harmless(text: str) -> str:
    """The text neutralised, and unable to open or close a fence: for passages, and for what a client sends as text."""
    return _FENCE.sub(r"\g<0> ", neutralise(text))
