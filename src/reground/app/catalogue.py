"""Methods and models by name: what exists, which settings they have, and how they are built when they are used.

The tables of `reground.methods` and `reground.models` say which exist. Other packages add their own with entry points
in the groups of these names. Each entry point names a module that defines the same name (`METHOD` or `create`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import re
import typing
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reground.app.identity import PARTS
from reground.app.signature import meanings
from reground.core.answers import AnswerForm
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, RegroundError, did_you_mean
from reground.core.evidence import Retriever
from reground.core.language import LanguageModel
from reground.core.method import Method
from reground.core.programs import Sandbox
from reground.core.user_code import Entry, entries, load_file
from reground.methods import METHODS
from reground.models import LOCAL_SERVERS, PAID, PROVIDERS
from reground.models.options import Listing, ModelOptions
from reground.models.pull import ALIASES
from reground.models.wrappers import wrap


@cache
def methods() -> dict[str, Entry]:
    """Every method by name, in alphabetical order."""
    return entries(METHODS, "reground.methods")


@cache
def providers() -> dict[str, Entry]:
    """Every model provider by name."""
    return entries(PROVIDERS, "reground.models")


@dataclass(frozen=True)
class _Listed:
    """What a method's name stands for. name: as it is listed. settings: those of its preset."""

    name: str
    cls: type[Method]
    presets: Mapping[str, Mapping[str, object]]
    settings: Mapping[str, object]


def _listed(name: str) -> _Listed:
    """The method of `method`, of `method+preset` or of the user's own .py file, which is run once however often it is
    asked for. A hyphen may stand for an underscore.

    Raises ConfigurationError, with similar names as a hint.
    """
    if name.endswith(".py"):
        file = Path(name).absolute()
        return _of_file(name, file, file.stat().st_mtime_ns if file.is_file() else 0)
    method, _, preset = name.partition("+")
    method = _underscored(method, methods())
    if method not in methods():
        raise ConfigurationError(f"no method is called {method!r}; {did_you_mean(method, methods())}")
    return _of_module(name, method, preset, methods()[method].load())


@cache
def _of_file(name: str, file: Path, changed: int) -> _Listed:
    return _of_module(name, name, "", load_file(file, "method"))


def _of_module(name: str, method: str, preset: str, loaded: Any) -> _Listed:
    """loaded: the module that names the class in METHOD, or the class itself; presets are in its PRESETS."""
    presets = {"paper": {}, **getattr(loaded, "PRESETS", {})}
    preset = _underscored(preset, presets)
    if preset and preset not in presets:
        raise ConfigurationError(f"{method} has no preset {preset!r}; {did_you_mean(preset, presets)}")
    cls = loaded if isinstance(loaded, type) else getattr(loaded, "METHOD", None)
    if not isinstance(cls, type):
        raise ConfigurationError(f"{name} names no class in METHOD")
    return _Listed("+".join(filter(None, (method, preset))), cls, presets, presets[preset] if preset else {})


def _underscored(name: str, known: Container[str]) -> str:
    other = name.replace("-", "_")
    return other if name not in known and other in known else name


def named(name: str) -> str:
    """The method's name as it is listed, e.g. search_agent for search-agent. Raises ConfigurationError."""
    return _listed(name).name


def presets(name: str) -> Mapping[str, Mapping[str, object]]:
    """A method's presets. "paper" stands for the defaults; a module adds others in PRESETS."""
    return _listed(name).presets


def preset_settings(name: str) -> Mapping[str, object]:
    """The settings of `method+preset`; {} for a name without a preset. Raises ConfigurationError for an unknown one."""
    return _listed(name).settings


def method_class(name: str) -> type[Method]:
    """The class of a method. Raises ConfigurationError, with similar names as a hint."""
    return _listed(name).cls


def needs(name: str) -> frozenset[str]:
    """Which of retriever and sandbox the method requires."""
    required = {f.name for f in _fields(name) if _default(f) is dataclasses.MISSING}
    return frozenset(required & {"retriever", "sandbox"})


def fields_of(name: str) -> frozenset[str]:
    """The names of a method's fields, both parts and settings."""
    return frozenset(f.name for f in _fields(name))


def _fields(name: str) -> tuple[dataclasses.Field[Any], ...]:
    cls: Any = method_class(name)
    if not dataclasses.is_dataclass(cls):
        raise ConfigurationError(f"{cls.__module__}.{cls.__name__} is not a dataclass, so it has no settings to read")
    return dataclasses.fields(cls)


def build_method(
    name: str,
    *,
    model: LanguageModel,
    retriever: Retriever | None = None,
    sandbox: Sandbox | None = None,
    rewriter: LanguageModel | None = None,
    form: AnswerForm | None = None,
    settings: Mapping[str, object] | None = None,
) -> Method:
    """Build a method. `settings` are fields of the method and override the preset; strings are converted.

    Raises ConfigurationError if a required part is missing, or if a setting is unknown or has an invalid value.
    """
    cls, fields = method_class(name), fields_of(name)
    parts = {"model": model, "retriever": retriever, "sandbox": sandbox, "rewriter": rewriter, "form": form}
    missing = sorted(part for part in needs(name) if parts[part] is None)
    if missing:
        how = {"retriever": "documents: give --corpus DIR", "sandbox": "a sandbox for generated programs"}
        raise ConfigurationError(f"the method {name} needs {' and '.join(how[part] for part in missing)}")
    given = {key: part for key, part in parts.items() if key in fields and part is not None}
    return cls(**given, **_read_settings(name, cls, {**preset_settings(name), **(settings or {})}, fields - PARTS))


def check_settings(name: str, settings: Mapping[str, object]) -> None:
    """Refuse unknown settings and values of another kind before anything is opened. Raises ConfigurationError.

    What a method itself requires of its settings, it says when it is built.
    """
    given = {key: value for key, value in settings.items() if key != "critics"}
    _read_settings(name, method_class(name), given, fields_of(name) - PARTS)


def setting_defaults(name: str) -> dict[str, object]:
    """A method's settings with their defaults, or with the preset's values if one is named.

    Prompts and other objects are left out.
    """
    defaults = {f.name: _default(f) for f in _fields(name) if f.name not in PARTS | {"critics", "prompts"}}
    return {key: value for key, value in {**defaults, **preset_settings(name)}.items() if _is_plain(value)}


def setting_meanings(name: str) -> dict[str, str]:
    """The description of each setting of a method, from the method's source."""
    words = meanings(method_class(name))
    return {key: words[key] for key in setting_defaults(name) if key in words}


def _default(field: dataclasses.Field[Any]) -> Any:
    """A field's default; MISSING for a required field."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _read_settings(
    name: str, cls: type[Method], settings: Mapping[str, object], known: frozenset[str]
) -> dict[str, object]:
    hints = typing.get_type_hints(cls)
    read: dict[str, object] = {}
    for key, value in settings.items():
        if key not in known:
            raise ConfigurationError(f"the method {name} has no setting {key!r}; {did_you_mean(key, known)}")
        if key == "prompts" and not dataclasses.is_dataclass(value):
            read[key] = _prompts(name, cls, value)
            continue
        adapter = TypeAdapter(hints[key])
        if isinstance(value, str) and value.lower() in {"none", "null"} and _takes_none(adapter):
            value = None
        try:
            read[key] = adapter.validate_python(value)
        except ValidationError as error:
            why = error.errors()[0]["msg"]
            raise ConfigurationError(f"the setting {key} of {name} cannot be {value!r}: {why}") from None
        _check_bounds(name, key, read[key])
    return read


_MOST_TOKENS, _MOST_COUNT, _MOST_TEMPERATURE = 10_000_000, 10_000, 100.0
_LENGTHS = ("tokens", "words", "word_budget", "lookahead")


def _check_bounds(name: str, key: str, value: object) -> None:
    """Refuse a value so large that no run could end. Each kind of setting has one upper bound; its name tells the kind.

    The method itself checks the lower bound. Raises ConfigurationError.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    most = _MOST_TOKENS if key.endswith(_LENGTHS) else _MOST_COUNT
    if key.endswith("temperature") and not 0 <= value <= _MOST_TEMPERATURE:
        why = f"it must be 0 or more, and at most {_MOST_TEMPERATURE:g}"
    elif isinstance(value, int) and value > most:
        why = f"it must be at most {most}"
    else:
        return
    raise ConfigurationError(f"the setting {key} of {name} cannot be {value!r}: {why}")


def _prompts(name: str, cls: type[Any], given: object) -> object:
    """The method's prompts, with the given templates in place of its own."""
    (field,) = (f for f in dataclasses.fields(cls) if f.name == "prompts")
    own = _default(field)
    known = [f.name for f in dataclasses.fields(own)]
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise ConfigurationError(
            f"the prompts of {name} are templates by name ({', '.join(known)}), not {given!r}: "
            f"--set 'prompts={{{known[0]} = \"...\"}}'"
        )
    for key in given:
        if key not in known:
            raise ConfigurationError(f"the method {name} has no prompt {key!r}; {did_you_mean(key, known)}")
    return dataclasses.replace(own, **given)


def _takes_none(adapter: TypeAdapter[Any]) -> bool:
    try:
        adapter.validate_python(None)
    except ValueError:
        return False
    return True


def provider_module(spec: str) -> tuple[Any, str]:
    """What has the provider's `create`, and the model's name. Raises ConfigurationError with similar names."""
    provider, slash, model = spec.partition("/")
    if provider == "scripted":
        raise ConfigurationError(
            "the scripted model is for tests: build reground.models.scripted.ScriptedModel in Python"
        )
    entry = providers().get(provider)
    if entry is None:
        raise ConfigurationError(_no_provider(spec))
    if not slash or not model:
        raise ConfigurationError(f"a model is named provider/model, for example {provider}/<model>; got {spec!r}")
    return entry.load(), model


def _no_provider(spec: str) -> str:
    """The error message for a model's name that begins with no known provider."""
    provider, slash, _ = spec.partition("/")
    if slash and difflib.get_close_matches(provider, providers(), n=1, cutoff=0.75):
        return f"no model provider is called {provider!r}; {did_you_mean(provider, providers())}"
    if spec.lower() in ALIASES or spec.endswith(".gguf"):
        right = ["gguf"]
    elif found := re.match(r"(?:gpt|chatgpt|o\d|text|(claude)|(gemini))\b", spec):
        right = ["anthropic" if found[1] else "gemini" if found[2] else "openai"]
    elif slash:
        right = ["hf", "openai"]
    else:
        right = ["ollama", "openai"]
    meant = " or ".join(f"{each}/{spec}" for each in right)
    return f"a model is named provider/model: did you mean {meant}? Providers are {', '.join(providers())}"


def load_model(spec: str, options: ModelOptions | None = None) -> LanguageModel:
    """Load the model `provider/model`, wrapped with limits, retries and, if set, the cache."""
    options = options if options is not None else ModelOptions()
    module, model = provider_module(spec)
    adapter: LanguageModel = module.create(model, options)
    return wrap(adapter, options)


def load_rewriter(spec: str, options: ModelOptions | None = None) -> LanguageModel:
    """Load a helper model (a rewriter or a critic) with the main model's options, but without its adapter."""
    options = options if options is not None else ModelOptions()
    price = options.price if spec.partition("/")[0] in PAID else None
    return load_model(spec, dataclasses.replace(options, adapter=None, price=price))


def check_rewriter(rewriter: object, names: Sequence[str]) -> None:
    """Refuse a rewriter that no method would use, before any cost arises."""
    if rewriter is not None and not any("rewriter" in fields_of(name) for name in names):
        raise ConfigurationError(
            f"a rewriter is for methods such as rewrite_retrieve_read; {', '.join(names)} would not use it"
        )


def check_price(spec: str, options: ModelOptions | None, budget: Budget | None) -> None:
    """Refuse a budget in USD for a model without a known price, before any cost arises."""
    if budget is None or budget.usd is None or spec.partition("/")[0] not in PAID:
        return
    if options is None or options.price is None:
        raise ConfigurationError("a budget in USD needs the model's price: give it with --price PROMPT,COMPLETION")


async def model_listings(options: ModelOptions, only: Sequence[str] | None = None) -> dict[str, list[Listing]]:
    """The models of every provider: which ones can be used here, and why the others cannot. All are asked at once.

    only: the providers' names, to ask no others.
    """
    names = [name for name in providers() if only is None or name in only]
    found = await asyncio.gather(*(_listings(name, options) for name in names))
    return dict(zip(names, found, strict=True))


async def _listings(name: str, options: ModelOptions) -> list[Listing]:
    try:
        module, _ = provider_module(f"{name}/<model>")
        available = getattr(module, "available", None)
        return await available(options) if available is not None else []
    except RegroundError as error:  # one provider's wrong setting says nothing about the others
        return [Listing(f"{name}/<model>", False, str(error))]


async def found_servers() -> list[Listing]:
    """The models of servers that answer on this machine's usual ports, or where OLLAMA_HOST says. Takes under a second.

    Nothing else is asked, and no key is sent to a server whose address the user did not give.
    """
    found = await model_listings(ModelOptions(), only=LOCAL_SERVERS)
    return [each for listings in found.values() for each in listings if each.usable]
