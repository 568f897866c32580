"""Separates a reasoning model's thought from its answer."""

from __future__ import annotations

from reground.core.language import Reply, TokenLogprob

_TAGS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))


def separate(reply: Reply) -> Reply:
    """Move the thought from `text` to `reasoning`. Only the remaining tokens keep log-probabilities.

    A thought comes first, in <think> or [THINK]. Its opening tag may be missing, because some chat templates put it
    into the prompt. Its closing tag may be missing if the length limit cut it; then there is no text.
    """
    thoughts, text = _split(reply.text)
    if reply.reasoning is not None:
        thoughts.insert(0, reply.reasoning)
    if not thoughts:
        return reply
    tokens = reply.token_logprobs
    return reply.model_copy(
        update={
            "text": text,
            "reasoning": "\n\n".join(filter(None, (thought.strip() for thought in thoughts))),
            "token_logprobs": None if tokens is None else _tokens_of(text, tokens),
        }
    )


def _split(text: str) -> tuple[list[str], str]:
    """The thoughts at the beginning of a text, and the rest."""
    thoughts: list[str] = []
    at = _blank_until(text, 0)
    while tag := next((tag for tag in _TAGS if text.startswith(tag[0], at)), None):
        opening, closing = tag
        begin = at + len(opening)
        end = text.find(closing, begin)
        thoughts.append(text[begin:] if end < 0 else text[begin:end])
        at = len(text) if end < 0 else _blank_until(text, end + len(closing))
    if thoughts:
        return thoughts, text[at:]
    for opening, closing in _TAGS:
        end = text.find(closing)
        if end >= 0 and text.find(opening, 0, end) < 0:
            return [text[:end]], text[_blank_until(text, end + len(closing)) :]
    return [], text


def _blank_until(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _tokens_of(text: str, tokens: tuple[TokenLogprob, ...]) -> tuple[TokenLogprob, ...] | None:
    """The tokens that spell the text; None if they cannot be told from those of the thought."""
    said = "".join(token.token for token in tokens)
    if not text:
        return ()
    begin = len(said) - len(text)
    if not said.endswith(text):  # an end token may follow
        ends = [said.find(closing) + len(closing) for _, closing in _TAGS if closing in said]
        begin = _blank_until(said, min(ends)) if ends else -1
        if begin < 0 or not said.startswith(text, begin):
            return None
    kept, at = [], 0
    for token in tokens:
        low, high = max(begin - at, 0), min(begin + len(text) - at, len(token.token))
        at += len(token.token)
        if low < high:
            kept.append(token.model_copy(update={"token": token.token[low:high]}))
    return tuple(kept)
