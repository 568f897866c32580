"""Converts what a Python caller may pass for convenience: a number, a function, a list of texts."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reground.app.meanings import field_names
from reground.core.answers import FORMS, AnswerForm
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, DataError, did_you_mean
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel
from reground.core.paths import expanded, indexes_dir

if TYPE_CHECKING:
    from reground.models.options import ModelOptions


T = TypeVar("T")


def as_budget(given: object) -> Budget | None:
    """Convert to a Budget: a whole number means tokens, a mapping names limits. Otherwise raises ConfigurationError."""
    if given is None or isinstance(given, Budget):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return Budget(tokens=given)
    if isinstance(given, Mapping):
        return from_mapping(Budget, given, "budget")
    raise ConfigurationError(
        f"a budget is a number of tokens or Budget(tokens=..., calls=..., seconds=..., usd=...), not {given!r}"
    )


def as_form(given: str | None) -> AnswerForm | None:
    """The answer form of this name. Raises ConfigurationError for an unknown one."""
    if given is not None and given not in FORMS:
        raise ConfigurationError(f"no answer form is called {given!r}; {did_you_mean(given, FORMS)}")
    return None if given is None else FORMS[given]


def as_options(given: object) -> ModelOptions | None:
    """Convert a mapping to ModelOptions. Raises ConfigurationError for anything else."""
    from reground.models.options import ModelOptions

    if given is None or isinstance(given, ModelOptions):
        return given
    if isinstance(given, Mapping):
        return from_mapping(ModelOptions, given, "model_options")
    raise ConfigurationError(f"model_options are reground.models.options.ModelOptions(...), not {given!r}")


def from_mapping(kind: type[T], given: Mapping[Any, Any], what: str) -> T:
    """Build a dataclass or a pydantic model from named values, ignoring None. Raises ConfigurationError."""
    known = field_names(kind)
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{what} has no {key!r}; {did_you_mean(str(key), known)}")
    named = {key: value for key, value in given.items() if value is not None}
    try:
        return kind(**named)
    except (TypeError, ValueError) as error:
        reasons = getattr(error, "errors", None)
        why = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in reasons()) if reasons is not None else str(error)
        raise ConfigurationError(f"{what} cannot be {named!r}: {why}") from None


def as_model(given: object, options: ModelOptions | None) -> str | LanguageModel:
    """Return a model's name or a language model; wrap a function from prompt to reply. Raises ConfigurationError."""
    from reground.models.function import FunctionModel

    if isinstance(given, str | LanguageModel):
        return given
    if callable(given) and not isinstance(given, type):
        return FunctionModel(given, price=None if options is None else options.price)
    raise ConfigurationError(
        "a model is 'provider/model', a function from prompt to reply, "
        f"or an object with a name and generate(), not {given!r}"
    )


async def as_corpus(given: object) -> str | Path | Retriever | None:
    """Return a path or a retriever unchanged; write a list of texts, passages and paths to one file in the cache.

    Raises ConfigurationError for anything else, and DataError for a path that does not exist.
    """
    if given is None or isinstance(given, str | Path | Retriever):
        return given
    if not isinstance(given, Sequence) or isinstance(given, bytes):
        raise ConfigurationError(
            f"a corpus is a path, a retriever, or a list of texts, passages and paths, not {type(given).__name__}"
        )
    if len(given) == 1 and (path := _path(given[0])) is not None:
        return path
    return await asyncio.to_thread(_gather, given)


def _gather(given: Sequence[object]) -> Path:
    records = [record for number, each in enumerate(given, start=1) for record in _records(number, each)]
    if not records:
        raise DataError("the corpus is an empty list: give texts, passages or paths")
    content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    data = content.encode("utf-8", "replace")
    path = indexes_dir() / f"given-{hashlib.blake2b(data, digest_size=8).hexdigest()}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{id(records)}.part")
        part.write_bytes(data)
        part.replace(path)
    return path


def _records(number: int, each: object) -> Iterator[dict[str, str | None]]:
    if isinstance(each, Passage):
        yield {"id": each.id, "title": each.title, "text": each.text, "url": each.url}
    elif (path := _path(each)) is not None:
        yield from _documents(path)
    elif isinstance(each, str):
        yield {"id": f"text-{number}", "title": "", "text": each, "url": None}
    else:
        raise ConfigurationError(
            f"item {number} of the corpus is not a text, a passage or a path but {type(each).__name__}"
        )


def _path(each: object) -> Path | None:
    """The item as a path; None for a text. One word with a slash or a known suffix counts as a path."""
    if isinstance(each, Path):
        return expanded(each)
    if not isinstance(each, str) or any(c.isspace() for c in each) or len(each) > 1000:
        return None
    path = expanded(each)
    return (
        path
        if path.exists() or "/" in each or path.suffix.lower() in {".md", ".txt", ".pdf", ".html", ".jsonl"}
        else None
    )


def _documents(path: Path) -> Iterator[dict[str, str | None]]:
    from reground.retrieval.documents import read_documents
    from reground.retrieval.scan import find_files

    for file in find_files(path):
        for document in read_documents(file):
            name = f"{path.name}/{document.id}" if path.is_dir() else document.id
            yield {"id": name, "title": document.title, "text": document.text, "url": document.url}
