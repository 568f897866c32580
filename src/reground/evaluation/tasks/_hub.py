"""Question files from a model hub, kept in the cache once they are here.

HF_ENDPOINT names the hub. FlashRAG's collection holds the question-answering sets in the form that the local
folders have: {"id", "question", "golden_answers", "metadata"}.
"""

from __future__ import annotations

import os
import shutil
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from reground.core.errors import ConfigurationError, DataError
from reground.core.places import cache_dir
from reground.evaluation.data import WHERE

FLASHRAG = "RUC-NLPIR/FlashRAG_datasets"
_TIMEOUT = 30.0  # seconds without a byte


def hub_file(file: str, dataset: str = FLASHRAG) -> Path:
    """The local copy of a JSONL file of a hub data set; fetched on first use.

    Raises DataError, saying what to do instead, where the hub cannot be reached or has no such file.
    """
    path = cache_dir() / "data" / dataset / file
    if path.exists():
        return path
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if urlsplit(endpoint).scheme not in {"http", "https"}:
        raise ConfigurationError(f"HF_ENDPOINT must be an http or https address, not {endpoint!r}")
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _fetch(f"{endpoint}/datasets/{quote(dataset)}/resolve/main/{quote(file)}", part)
    except HTTPError as error:
        raise _refusal(f"{endpoint} answered {error.code} for {dataset}:{file}") from error
    except (OSError, HTTPException) as error:
        raise _refusal(f"{endpoint} could not be reached: {getattr(error, 'reason', None) or error}") from error
    if part.open("rb").read(1) != b"{":
        part.unlink()
        raise _refusal(f"{endpoint} sent something that is no JSONL for {dataset}:{file}")
    part.replace(path)
    return path


def _refusal(why: str) -> DataError:
    return DataError(f"{why}; {WHERE}, or try again later")


def _fetch(url: str, part: Path) -> None:
    request = Request(url, headers={"User-Agent": "reground"})  # noqa: S310  (the scheme was checked)
    with urlopen(request, timeout=_TIMEOUT) as response, part.open("wb") as out:  # noqa: S310
        shutil.copyfileobj(response, out)
        length = response.headers.get("Content-Length")
        if length is not None and out.tell() != int(length):
            raise HTTPException(f"the connection ended after {out.tell()} of {length} bytes")
