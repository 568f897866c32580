"""The identity of a run: what has to be equal for two runs to be the same.

Questions, evaluations and tree collections all use it.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.app.signature import field_names
from reground.core.files import files_fingerprint, function_fingerprint
from reground.core.journal import fingerprint
from reground.models.options import weights_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from reground.core.evidence import Retriever
    from reground.core.language import LanguageModel
    from reground.core.method import Method
    from reground.models.options import ModelOptions

PARTS = frozenset({"model", "retriever", "sandbox", "rewriter", "form"})
"""The fields of a method that are parts, not settings."""
_OPENAI = "https://api.openai.com/v1"


def identity(
    name: str,
    method: Method,
    model: LanguageModel,
    options: ModelOptions,
    *,
    retriever: Retriever | None = None,
    rewriter: LanguageModel | None = None,
    judge: str | None = None,
) -> dict[str, Any]:
    """What identifies a run, apart from its questions: the parts and settings of the method called `name`.

    The keys are fields of `EvalSettings`. A part that the method does not use is left out, and `model_settings` leaves
    out default values.
    """
    places = field_names(type(method))
    helpers = {
        "judge": judge,
        "judge_weights": weights_of(judge or ""),
        "rewriter": rewriter.name if rewriter is not None and "rewriter" in places else None,
    }
    helpers["rewriter_weights"] = weights_of(helpers["rewriter"] or "")
    return {
        "method": name,
        "model": model.name,
        "retriever": retriever.name if retriever is not None and "retriever" in places else None,
        "method_settings": resolved(method) | _own_file(name),
        "model_settings": model_settings(options, model) | {role: who for role, who in helpers.items() if who},
    }


def resolved(method: Method) -> dict[str, JsonValue]:
    """All settings that a method's answers depend on, as plain data, including defaults.

    Prompts and demonstrations are fingerprints.
    """
    settings: dict[str, JsonValue] = {}
    for name in sorted(field_names(type(method))):
        value = getattr(method, name)
        if name in {"prompts", "demonstrations"}:
            settings[name] = fingerprint(name, repr(value))
        elif name not in PARTS:
            settings[name] = plain(value)
    return settings


def plain(value: object) -> Any:
    """Convert a value to JSON data. A part, such as a model, becomes its name; any other object becomes its fields."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: object) -> object:
    if isinstance(name := getattr(value, "name", None), str):
        return name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    model_dump = getattr(value, "model_dump", None)
    if model_dump is not None:
        return model_dump(mode="json")
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if callable(value) and not isinstance(value, type):
        return f"{getattr(value, '__qualname__', type(value).__qualname__)}-{function_fingerprint(value)}"
    return getattr(value, "__qualname__", None) or type(value).__qualname__


def _own_file(method: str) -> dict[str, JsonValue]:
    """The fingerprint of the user's own method file, because a changed file is a different method."""
    return {"file": files_fingerprint(Path(method))} if method.endswith(".py") else {}


def model_settings(options: ModelOptions, model: object = None) -> dict[str, str]:
    """The options that change a model's replies, without those at their defaults.

    The place of the API key is left out, and so are the user, password and query of a base URL.
    """
    found = {
        "base_url": getattr(model, "served_at", None) or _shown(options.base_url),
        "adapter": options.adapter,
        "adapter_files": None if options.adapter is None else files_fingerprint(options.adapter),
        "weights": weights_of(getattr(model, "name", "")),
        "context": options.context,
        "dtype": None if options.dtype == "auto" else options.dtype,
    }
    if options.base_url is None and found["base_url"] == _OPENAI:
        del found["base_url"]
    return {name: str(value) for name, value in found.items() if value is not None}


def _shown(url: str | None) -> str | None:
    """A URL without its possibly secret parts: user, password and query."""
    if url is None:
        return None
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}".rstrip("/")
