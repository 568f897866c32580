"""A reasoning model's thought: separated from the answer, and given room beyond the answer's length limit.

Methods limit their replies to what the text needs: a query, a sentence, a verdict. A thought would use that up. What a
model needs is learnt from its replies; a model that shows no thoughts never gets any room.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence

from reground.core.code_blocks import code_blocks
from reground.core.language import LanguageModel, Reply, Sampling, tokens_of, tokens_within

_THINKING = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflect(?:ion)?|scratch_?pad|monologue|deliberation|cot)"
_NAME = rf"(?:[a-z]{{1,20}}[_:.-]){{0,3}}?{_THINKING}(?:[_:.-][a-z]{{1,20}}){{0,2}}"
"""A tag's name: a word for thinking, perhaps with others, as in seed:think."""
_BEGIN, _END = r"(?:(?:begin|start)(?:_of)?_)?", r"(?:/\s?|end(?:_of)?_)"
_LEFT, _RIGHT = r"(?:<[|｜]?|\[|◁)\s?", r"\s?(?:[|｜]?>|\]|▷)"
_CLOSING = rf"{_LEFT}{_END}{{name}}{_RIGHT}"
_START, _CHANNEL, _MESSAGE, _STOP = (
    rf"<\s?\|\s?{token}\s?\|\s?>" for token in ("start", "channel", "message", "(?:end|return|call)")
)
_FINAL = rf"(?:{_STOP}\s?)?(?:{_START}\s?)?assistant(?:\s?{_CHANNEL}\s?|\n)?final(?:.{{{{0,60}}}}?{_MESSAGE})?"


# How thoughts are marked: the opening, the closing (where {name} is the opening's), and whether an opening alone shows
# a thought: otherwise its closing has to follow, unless the reply was cut.
_FORMS = tuple(
    (re.compile(rf"\s*{opening}", re.IGNORECASE), closing, sure)
    for opening, closing, sure in (
        (rf"(?:<[|｜]?|◁)\s?{_BEGIN}(?!end_)(?P<name>{_NAME})\s?(?:[|｜]?>|▷)", _CLOSING, True),
        (rf"\[\s?(?P<name>{_NAME})\s?\]", _CLOSING, False),  # a table of TOML begins like this
        (rf"(?:{_START}\s?assistant\s?)?{_CHANNEL}\s?(?:analysis|commentary).{{0,60}}?{_MESSAGE}", _FINAL, True),
        # the same where a server leaves out the control tokens
        (rf"(?-i:analysis)(?:{_MESSAGE}|(?=[^\s.,:;)]))", _FINAL, False),
        # two control tokens that mirror each other, as Gemma's and Apertus' do
        (r"<\|(?P<name>[a-z]{1,20})>(?:thought|analysis)\s", r"<{name}\|>", False),
        (r"<\|(?P<name>[a-z]{1,20})_prefix\|>", r"<\|{name}_suffix\|>", False),
        # a vocabulary's spare tokens
        (r"<unused\d{1,4}>(?:thought\s)?", r"<unused\d+>", False),
        ("Here is my thought process:", r"\nHere is my response:", False),
    )
)
_MAY_OPEN = re.compile(r"(?:[<◁]|\[(?!\d)).{0,63}|analysis|Here is my [a-z :]{0,17}", re.DOTALL)
_LONE_CLOSING = re.compile(
    r"(?=[<\[◁])"  # what all begin with: it makes the search in a reply thirty times as fast
    rf"(?:{_CLOSING.format(name=f'(?P<name>{_NAME})')}"
    rf"|(?:{_STOP}\s?)?(?:{_START}\s?assistant\s?)?(?P<channel>{_CHANNEL})\s?final.{{0,60}}?{_MESSAGE})",
    re.IGNORECASE,
)
_ANY_CLOSING = re.compile(rf"{_CLOSING.format(name=_NAME)}|{_LEFT}{_THINKING}[_:.-]?end{_RIGHT}", re.IGNORECASE)
_ANSWER = re.compile(rf"\s*(?:{_LEFT}{_BEGIN}(?P<name>answer|response|solution|output){_RIGHT}\s*)?", re.IGNORECASE)
_QUOTES = re.compile(r"[\"'`“‘「(][\"'`”’」)]")
_SENTENCE_ENDS = ".!?…。！？"
_MOST_BEFORE = 40


def separate(reply: Reply) -> Reply:
    """Move the thoughts from `text` to `reasoning`. Only the remaining tokens keep log-probabilities.

    Thoughts come first: in tags that are named after thinking, or in the forms of gpt-oss and Granite. The opening may
    be missing, because some chat templates put it into the prompt. The closing may be missing if the length limit cut
    it; then there is no text. Tags around the whole answer go too.
    """
    is_cut, alone = reply.finish_reason == "length", not reply.reasoning
    thoughts, begin, end = _split(reply.text, is_cut=is_cut, alone=alone)
    if reply.reasoning is not None:
        thoughts.insert(0, reply.reasoning)
    if not thoughts:
        return reply
    text, tokens = reply.text[begin:end], reply.token_logprobs
    if tokens is not None:  # those that spell the text; None if they cannot be told from those of the thought
        spelled = "".join(token.token for token in tokens)
        begin = len(spelled) - len(text)
        if not spelled.endswith(text):  # a tag or an end token may follow
            _, begin, _ = _split(spelled, is_cut=is_cut, alone=True)
        is_found = spelled.startswith(text, begin)
        tokens = tokens_within(tokens, [(begin, begin + len(text))]) if is_found else None
    reasoning = "\n\n".join(filter(None, (thought.strip() for thought in thoughts)))
    return reply.model_copy(update={"text": text, "reasoning": reasoning, "token_logprobs": tokens})


def so_far(reply: Reply, *, thinks: bool) -> Reply:
    """A reply while it is written, without text while that may be a thought. thinks: whether the model usually does."""
    apart = separate(reply.model_copy(update={"finish_reason": "length"}))
    is_open = apart.reasoning is None and (thinks or _MAY_OPEN.fullmatch(apart.text.lstrip()))
    return apart.model_copy(update={"text": "", "reasoning": apart.text}) if is_open else apart


def _split(text: str, *, is_cut: bool, alone: bool) -> tuple[list[str], int, int]:
    """The thoughts at the beginning of a text, and where the rest begins and ends.

    alone: whether a closing may stand without its opening.
    """
    thoughts, at = [], 0
    while (thought := _thought(text, at, is_cut=is_cut)) is not None:
        begin, end, at = thought
        thoughts.append(text[begin:end])
    if not thoughts and alone and (closing := _lone_closing(text)) is not None:
        thoughts, at = [text[: closing.start()]], closing.end()
    return (thoughts, *_answer(text, at)) if thoughts else ([], 0, len(text))


def _thought(text: str, at: int, *, is_cut: bool) -> tuple[int, int, int] | None:
    """Where the thought that follows at `at` begins and ends, and where its closing ends; None if none does."""
    for opening, form, sure in _FORMS:
        if (begins := opening.match(text, at)) is None:
            continue
        name = re.escape(begins.groupdict().get("name", ""))
        closing = _first(re.compile(form.format(name=name), re.IGNORECASE), text, begins.end())
        if closing is None and sure and not is_cut:  # the model may have ended it by another name
            closing = _first(_ANY_CLOSING, text, begins.end())
        if closing is not None:
            return begins.end(), closing.start(), closing.end()
        if sure or is_cut:
            return begins.end(), len(text), len(text)
    return None


def _first(tag: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
    """The first of these tags that is not quoted, for a thought may speak of them; else the first."""
    first: re.Match[str] | None = None
    for match in tag.finditer(text, at):
        if not _is_quoted(text, match):
            return match
        first = first or match
    return first


def _is_quoted(text: str, tag: re.Match[str]) -> bool:
    around = text[max(0, tag.start() - 1) : tag.start()] + text[tag.end() : tag.end() + 1]
    return _QUOTES.fullmatch(around) is not None


def _lone_closing(text: str) -> re.Match[str] | None:
    """The closing of a thought whose opening stands in the prompt; None where the text only speaks of such a tag."""
    closing = _first(_LONE_CLOSING, text, 0)
    if closing is None:
        return None
    opening = _CHANNEL if closing["channel"] else rf"{_LEFT}{_BEGIN}{re.escape(closing['name'])}{_RIGHT}"
    opened = re.compile(opening, re.IGNORECASE).search(text, 0, closing.start())
    is_paired = opened is not None and not _begins_late(text, opened)
    is_shown = any(closing[0] in body for _, body in code_blocks(text))
    return None if is_paired or is_shown or _is_mentioned(text, closing) else closing


def _begins_late(text: str, opening: re.Match[str]) -> bool:
    """Whether a thought begins here although a word or two stand before it, such as a greeting."""
    before = text[: opening.start()]
    announces = before.rstrip().endswith(":")  # an example
    has_line = before.endswith("\n") or text[opening.end() :].startswith("\n")
    return len(before) <= _MOST_BEFORE and has_line and not announces and not set("<`\"'") & set(before)


def _is_mentioned(text: str, tag: re.Match[str]) -> bool:
    """Whether a tag is a word of a sentence, not the end of the text before it."""
    before, after = text[: tag.start()], text[tag.end() :]
    line, following = before.rpartition("\n")[2], after.lstrip(" \t")[:1]
    if before and not line.strip():
        return False
    if line.count('"') % 2 or line.count("`") % 2 or _is_quoted(text, tag):
        return True
    if after.startswith((",", ".", ";", ":", ")")):
        return True
    in_words = not before or (line[-1].isspace() and line.rstrip()[-1] not in _SENTENCE_ENDS)
    return in_words and following.isalpha() and not following.isupper()


def _answer(text: str, at: int) -> tuple[int, int]:
    """Where the answer after the thoughts begins and ends, without tags around the whole of it."""
    opening = _ANSWER.match(text, at)
    begin, end = at if opening is None else opening.end(), len(text)
    if stop := re.search(rf"{_STOP}\s*\Z", text[begin:], re.IGNORECASE):
        end = begin + stop.start()
    if opening is None or opening["name"] is None:
        return begin, end
    closing = re.compile(_CLOSING.format(name=opening["name"]), re.IGNORECASE).search(text, begin)
    if closing is not None and text[closing.end() :].strip():
        return at + len(text[at:]) - len(text[at:].lstrip()), end
    end = end if closing is None else closing.start()
    return begin, begin + len(text[begin:end].rstrip())


LEAST, MOST = 256, 16384
FIRST, TIMES = 4096, 15
"""The second call gets this many tokens, or this many times its limit, beyond the limit."""
_rooms: dict[int, int] = {}
"""What has been learnt, by the id of each model that lives."""


def is_all_thought(reply: Reply) -> bool:
    """Whether a reply has no text beside its thought. Of a hidden thought only the cut is seen."""
    if reply.reasoning is not None:
        return not reply.text.strip()
    return reply.finish_reason == "length" and not reply.text


def lacks_room(reply: Reply, sampling: Sampling) -> bool:
    """Whether a reply ended in its thought, or before its text could have as many tokens as the sampling allows.

    The length limit may have cut it, or a stop string in the thought. Where a model that thinks shows no end of the
    thought, all may be thought, because the opening stood in the prompt.
    """
    if reply.finish_reason != "length":
        return bool(sampling.stop) and reply.finish_reason == "stop" and is_all_thought(reply)
    if is_all_thought(reply):
        return True
    return tokens_of(reply.text) < sampling.max_tokens if reply.reasoning else reply.room > 0


def ended_at(reply: Reply, stop: Sequence[str]) -> Reply:
    """The reply up to the first stop string in its text, as a server ends it."""
    ends = [at for at in (reply.text.find(string) for string in stop) if at >= 0]
    return reply.upto(min(ends)).model_copy(update={"finish_reason": "stop"}) if ends else reply


def room_of(model: LanguageModel) -> int:
    """The tokens that a model gets beyond a call's limit, for its thought: 0 until one has been seen."""
    return _rooms.get(id(model), 0)


def learn(model: LanguageModel, replies: Sequence[Reply]) -> None:
    """Remember how much room a model's thoughts need, as long as the model lives.

    It is twice the longest thought, as a power of two. Of a hidden thought only the room that it got is known.
    """
    thought = max((tokens_of(reply.reasoning) for reply in replies if reply.reasoning), default=0)
    wrote = any(reply.text or reply.usage.completion for reply in replies)
    largest = max((reply.room for reply in replies), default=0) if wrote else 0
    room = min(MOST, max(LEAST, 1 << (2 * thought).bit_length()) if thought else largest)
    if room <= room_of(model):
        return
    if id(model) not in _rooms:
        try:
            weakref.finalize(model, _rooms.pop, id(model), None).atexit = False
        except TypeError:  # nobody would tell when another model gets its id
            return
    _rooms[id(model)] = room
