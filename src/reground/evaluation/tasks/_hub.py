"""Downloads question files from a model hub into the cache.

FlashRAG's collection has the question-answering sets in the same form as the local folders: {"id", "question",
"golden_answers", "metadata"}.
"""

from __future__ import annotations

from pathlib import Path

from reground.core.errors import DataError
from reground.core.paths import cache_dir
from reground.evaluation.data import WHERE
from reground.hub import PullError, download

FLASHRAG = "RUC-NLPIR/FlashRAG_datasets"


def hub_file(file: str, dataset: str = FLASHRAG) -> Path:
    """The local copy of a JSONL file of a hub data set, downloaded on first use.

    Raises DataError if the hub cannot be reached or has no such file.
    """
    path = cache_dir() / "data" / dataset / file
    try:
        download(f"datasets/{dataset}", file, path, begins=b"{")
    except PullError as error:
        raise DataError(f"{error}; {WHERE}, or try again later") from error
    return path
