"""The small real models that some tests run, and what is said to models."""

from __future__ import annotations

from pathlib import Path

import pytest

from reground.core.language import Message, Sampling


def small_model(alias: str = "smollm2") -> Path:
    """A GGUF file, SmolLM2-135M-Instruct, pulled once by the project's own code; skips where it cannot be had."""
    pytest.importorskip("xllamacpp", reason="needs the extra [local]")
    from reground.core.errors import RegroundError
    from reground.models.pull import pull

    try:
        return pull(alias)
    except RegroundError as error:
        pytest.skip(f"needs the embedded model: {error}")


def says(*texts: str) -> list[Message]:
    """A conversation of one side."""
    return [Message(role="user", content=text) for text in texts]


def sampling(**given: object) -> Sampling:
    """A sampling with short replies."""
    return Sampling.model_validate({"max_tokens": 8, **given})
