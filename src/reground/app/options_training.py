"""The options of training, each defined once (see `app.options`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Export:
    """The options of `train export`."""

    source: str = field(metadata={"argument": True})
    """The model: a folder with an adapter or whole weights, a hub's repository, or a GGUF file."""

    out: Path = field(metadata={"short": "-o"})
    """A folder, or a file whose name ends in .gguf."""

    adapter: bool = False
    """Write the LoRA adapter alone, a small GGUF file for gguf/ with --adapter."""

    like: str | None = None
    """A GGUF file or alias of the same base model, for a GGUF file."""

    precision: Literal["q8_0", "f16"] = "q8_0"
    """The precision of the matrices in a GGUF file."""
