"""A tokenizer of whole words, for models with random weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def word_tokenizer(
    words: Iterable[str], *, begin: str = "", end: str | None = None, blanks: bool = False, **special: Any
) -> Any:
    """Each word is a token, with its place as its id; others are <unk>, which is among the words.

    begin, end: the words that begin and end each text. blanks: whether only blanks part words, and not punctuation.
    special: tokens by their roles, such as pad_token.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    known = {word: number for number, word in enumerate(words)}
    bare = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    bare.pre_tokenizer = pre_tokenizers.Split(" ", "removed") if blanks else pre_tokenizers.Whitespace()
    if end is not None:
        marks = [(mark, known[mark]) for mark in filter(None, (begin, end))]
        bare.post_processor = processors.TemplateProcessing(single=f"{begin} $A {end}".strip(), special_tokens=marks)
        special |= {"bos_token": begin} if begin else {}
        special["eos_token"] = end
    return PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="<unk>", **special)
