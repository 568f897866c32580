"""Finds the real data that some tests need; they skip, saying so, where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def data_folder() -> Path | None:
    """REGROUND_DATA, else the folder shared/data beside the checkout."""
    given = os.environ.get("REGROUND_DATA")
    folder = Path(given) if given else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def need_data(*parts: str) -> Path:
    """The path of a data file or folder; skips the test where it is absent."""
    folder = data_folder()
    if folder is None:
        pytest.skip("needs the benchmark data: set REGROUND_DATA to its folder")
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs {'/'.join(parts)} in the benchmark data folder")
    return path
