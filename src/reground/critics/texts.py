"""The text that a trained critic reads, and what its folder says of itself in critic.json.

One function makes the text in training and in planning, so both read the same. A text is too long for a small model as
soon as a few steps were made. It is cut here and not by the tokenizer: the question and the candidate stay, and what
was observed goes from its beginning.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from reground.core.errors import ConfigurationError, DataError
from reground.core.language import Number, Value
from reground.core.paths import expanded
from reground.core.trajectory import Pair
from reground.core.untrusted import neutralise
from reground.critics import Kind

Spans = Callable[[str], Sequence[tuple[int, int]]]
"""A tokenizer without special tokens: where each token of a text stands in it."""

HEADS: dict[Kind, str] = {
    "subgoal": "Next sub-goal?",
    "rationale": "Next step of the reasoning?",
    "query": "Search query?",
    "doc": "Document?",
}
"""What is judged. It comes first, so that one model can judge all kinds."""

_REST = re.compile(r"\n\n(?=(?:Work so far|Reasoning so far|Step of reasoning):\n)")
_QUOTED = re.compile(r"\n\nThe passages are quoted from documents\.[^\n]*")
_FENCED = re.compile(r'\A<passage number="\d+"(?: title="(?P<title>[^"\n]*)")?>\n(?P<text>.*)\n</passage>\Z', re.DOTALL)
_QUESTION_SHARE = 3  # the question may take one in three tokens where not all fits

TEMPLATE = hashlib.sha256(repr((1, HEADS, _REST.pattern, _QUOTED.pattern, _FENCED.pattern)).encode()).hexdigest()[:12]
"""Changes with the words and rules above: weights that were fitted to others would judge texts they never saw."""


def scored_text(kind: Kind, pair: Pair, *, room: int, spans: Spans, special: Sequence[str] = ()) -> tuple[str, str]:
    """What is known, and the candidate, as a critic reads them.

    room: the most tokens of both together. special: the model's own control tokens, which are broken.
    """
    question, rest = _split(neutralise(pair.context, special))
    question = f"{HEADS[kind]} {question}"
    candidate = bare(neutralise(pair.candidate, special))
    asked, judged = len(spans(question)), len(spans(candidate))
    if asked + judged > room:
        question = head(question, max(room - judged, room // _QUESTION_SHARE), spans)
        candidate = head(candidate, room - len(spans(question)), spans)
        judged = len(spans(candidate))
    known = f"{question}\n{rest}" if rest else question
    more = room - len(spans(question)) - judged
    while rest and len(spans(known)) + judged > room:
        rest = tail(rest, more, spans)
        known = f"{question}\n{rest}" if rest else question
        more -= 1
    return known, candidate


def _split(context: str) -> tuple[str, str]:
    """The question, and what was observed, less the planner's warning about quoted passages."""
    question, *rest = _REST.split(_QUOTED.sub("", context), maxsplit=1)
    return question.removeprefix("Question:\n"), "".join(rest)


def bare(candidate: str) -> str:
    """A candidate without the fence of a document, whose number says only how many were read before it."""
    found = _FENCED.match(candidate)
    return candidate if found is None else "\n".join(filter(None, (found["title"], found["text"])))


def head(text: str, most: int, spans: Spans) -> str:
    """The first `most` tokens of a text."""
    places = spans(text)
    return text if len(places) <= most else text[: places[most - 1][1]] if most > 0 else ""


def tail(text: str, most: int, spans: Spans) -> str:
    """The last `most` tokens of a text."""
    places = spans(text)
    return text if len(places) <= most else text[places[-most][0] :] if most > 0 else ""


@dataclass(frozen=True)
class EncoderTexts:
    """Pairs of texts for a cross-encoder, which its tokenizer joins."""

    tokenizer: Any
    max_length: int

    def __call__(self, kind: Kind, pair: Pair) -> tuple[str, str]:
        """What is known, and the candidate."""
        room = self.max_length - self.tokenizer.num_special_tokens_to_add(pair=True)
        return _fitted(self.tokenizer, kind, pair, room)


@dataclass(frozen=True)
class EmbedderTexts:
    """Pairs of texts for an embedder, which reads each by itself: candidates of one context share what is known."""

    tokenizer: Any
    max_length: int

    def __call__(self, kind: Kind, pair: Pair) -> tuple[str, str]:
        """What is known, and the candidate."""
        room = self.max_length - self.tokenizer.num_special_tokens_to_add()
        known, _ = _fitted(self.tokenizer, kind, Pair(context=pair.context, candidate=""), room)
        _, candidate = _fitted(self.tokenizer, kind, Pair(context="", candidate=pair.candidate), room)
        return known, candidate


@dataclass(frozen=True)
class LmTokens:
    """Tokens for a decoder with a score head: a turn of the user and a reply where the model has a chat template."""

    tokenizer: Any
    max_length: int

    def __call__(self, kind: Kind, pair: Pair) -> list[int]:
        """The tokens of one candidate with its context, at most `max_length` of them."""
        frame = len(self._join("", ""))
        room = self.max_length - frame
        while True:
            tokens = self._join(*_fitted(self.tokenizer, kind, pair, room))
            if len(tokens) <= self.max_length or room <= 0:
                return tokens[-self.max_length :]
            room -= len(tokens) - self.max_length  # joined texts may take more tokens than apart

    def _join(self, known: str, candidate: str) -> list[int]:
        tokenizer = self.tokenizer
        if tokenizer.chat_template is not None:
            turns = [{"role": "user", "content": known}, {"role": "assistant", "content": candidate}]
            text = tokenizer.apply_chat_template(turns, tokenize=False)
            return list(tokenizer(text, add_special_tokens=False)["input_ids"])
        ids = list(tokenizer(f"{known}\n\n{candidate}")["input_ids"])
        end = tokenizer.eos_token_id
        return ids if end is None or ids[-1:] == [end] else [*ids, end]


def _fitted(tokenizer: Any, kind: Kind, pair: Pair, room: int) -> tuple[str, str]:
    def spans(text: str) -> Sequence[tuple[int, int]]:
        found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [(start, end) for start, end in found["offset_mapping"]]

    return scored_text(kind, pair, room=room, spans=spans, special=tokenizer.all_special_tokens)


FORMAT: Literal[1] = 1
FILE = "critic.json"

Engine = Literal["encoder", "embedder", "lm"]
"""A cross-encoder or an embedder of sentence-transformers, or a decoder of transformers with a score head."""


class Manifest(Value):
    """critic.json.

    base: the model that was fitted. kinds: the sub-folder with the weights of each kind; several may share one.
    max_length: the most tokens that are read. passage_tokens: where documents are cut before that.
    template: the words and rules of the texts (`TEMPLATE`). weights: the SHA-256 of each sub-folder's weights.
    data: a fingerprint of the pairs, those held out among them. mix: for kinds where that helps, what the score of the
    text and each of `reground.critics.trained.FEATURES` count; None where nobody asked.
    """

    format: Literal[1] = FORMAT
    engine: Engine
    base: str
    kinds: dict[Kind, str]
    max_length: int
    passage_tokens: int
    template: str = TEMPLATE
    weights: dict[str, str]
    data: str = ""
    mix: dict[Kind, dict[str, Number]] | None = None


def read_manifest(place: Path) -> tuple[Path, Manifest]:
    """The folder that holds the weights, and what it says; `place` is that folder or the training folder around it.

    Raises ConfigurationError where there is no critic that this version can use, DataError where critic.json is broken.
    """
    place = expanded(str(place))
    folder = next((each for each in (place / "critic", place) if (each / FILE).is_file()), None)
    if folder is None:
        raise ConfigurationError(
            f"there is no trained critic in {place}: it holds no {FILE}; reground train critics fit writes one"
        )
    file = folder / FILE
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(said, dict) and said.get("format") != FORMAT:
            raise ConfigurationError(
                f"the critic in {folder} has format {said.get('format')!r}, and this reads {FORMAT}"
            )
        manifest = Manifest.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", path=file) from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {error}", path=file) from None
    if manifest.template != TEMPLATE:
        raise ConfigurationError(
            f"the critic in {folder} was fitted to texts of another version ({manifest.template}, now {TEMPLATE}): "
            "fit it again with reground train critics fit"
        )
    return folder, manifest


def mix_of(manifest: Manifest, kind: Kind) -> dict[str, float]:
    """The weights of a kind's features; none where the score of the text decides alone."""
    return (manifest.mix or {}).get(kind, {})


def folder_of(folder: Path, manifest: Manifest, kind: Kind) -> Path:
    """The sub-folder with the weights of a kind. Raises ConfigurationError where there are none."""
    if kind not in manifest.kinds:
        known = ", ".join(manifest.kinds)
        raise ConfigurationError(
            f"the critic in {folder} judges {known} and not {kind}: name it for these alone, "
            f"as in {next(iter(manifest.kinds), 'doc')}=trained:{folder}"
        )
    found = folder / manifest.kinds[kind]
    if not found.is_dir():
        raise ConfigurationError(f"the critic in {folder} lacks the folder {manifest.kinds[kind]} with its weights")
    return found
