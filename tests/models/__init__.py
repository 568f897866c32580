"""Finds the small real models that some tests run."""

from __future__ import annotations

from pathlib import Path

import pytest


def small_model(alias: str = "smollm2") -> Path:
    """A GGUF file, SmolLM2-135M-Instruct, pulled once by the project's own code; skips where it cannot be had."""
    pytest.importorskip("xllamacpp", reason="needs the extra [local]")
    from reground.core.errors import RegroundError
    from reground.models.pull import pull

    try:
        return pull(alias)
    except RegroundError as error:
        pytest.skip(f"needs the embedded model: {error}")
