"""Vectors as embedders give them: rows of length one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reground.core.errors import ModelError

if TYPE_CHECKING:
    import numpy as np

    Vectors = np.ndarray[Any, np.dtype[np.float32]]


def unit(rows: Any) -> Vectors:
    """Rows scaled to length one. Raises ModelError for what are no vectors of numbers."""
    import numpy as np

    try:
        vectors = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):
        vectors = np.empty(0, dtype=np.float32)
    if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
        raise ModelError("the embedder gave something other than vectors of numbers")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return unit
