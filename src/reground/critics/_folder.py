"""What a folder of a trained critic says of itself: critic.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from reground.core.errors import ConfigurationError, DataError
from reground.core.language import Number, Value
from reground.core.paths import expanded
from reground.critics import Kind
from reground.critics._texts import TEMPLATE

FORMAT: Literal[1] = 1
FILE = "critic.json"

Engine = Literal["encoder", "embedder", "lm"]
"""A cross-encoder or an embedder of sentence-transformers, or a decoder of transformers with a score head."""


class Manifest(Value):
    """critic.json.

    base: the model that was fitted. kinds: the sub-folder with the weights of each kind; several may share one.
    max_length: the most tokens that are read. passage_tokens: where documents are cut before that.
    template: the words and rules of the texts (`_texts.TEMPLATE`). weights: the SHA-256 of each sub-folder's weights.
    data: a fingerprint of the pairs, those held out among them. mix: for kinds where that helps, what the score of the
    text and each of `_features.FEATURES` count; None where nobody asked.
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
