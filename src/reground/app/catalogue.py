"""Methods and models by name: what exists, which settings they have, and how they are built when they are used.

The tables of `reground.methods` and `reground.models` say which exist. Other packages add their own with entry points
in the groups of these names. Each entry point names a module that defines the same name (`METHOD` or `create`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import inspect
import re
import typing
from collections.abc import Container, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reground.app.options import meanings
from reground.core.answers import AnswerForm
from reground.core.budget import MOST_COUNT, Budget
from reground.core.errors import ConfigurationError, RegroundError, did_you_mean
from reground.core.evidence import Retriever
from reground.core.files import expanded
from reground.core.language import LanguageModel, storable_text
from reground.core.programs import Sandbox
from reground.core.run import Method
from reground.core.user_code import Entry, called, check_parts, entries, load_file, origin
from reground.methods import METHODS
from reground.models import LOCAL_SERVERS, PAID, PROVIDERS
from reground.models.options import Listing, ModelOptions
from reground.models.pull import ALIASES
from reground.models.wrappers import wrap

PARTS = frozenset({"model", "retriever", "sandbox", "rewriter", "form"})
"""The fields of a method that are parts, not settings."""
_MOST_TOKENS, _MOST_COUNT, _MOST_TEMPERATURE = 10_000_000, 10_000, 100.0
"""Upper bounds of settings: with more, no run could end."""
_LENGTHS = ("tokens", "words", "word_budget", "lookahead")
"""How the names of settings end that count tokens or words."""


@cache
def methods() -> dict[str, Entry]:
    """Every method by name, in alphabetical order."""
    return entries(METHODS, "reground.methods")


@cache
def providers() -> dict[str, Entry]:
    """Every model provider by name."""
    return entries(PROVIDERS, "reground.models")


@dataclass(frozen=True)
class Listed:
    """A method as it is listed.

    name: with its preset, e.g. cr_planner+ranking. presets: the settings of each; "paper" stands for the defaults.
    preset: the settings of the one that the name has; {} for a name without.
    """

    name: str
    cls: type[Method]
    presets: Mapping[str, Mapping[str, object]]
    preset: Mapping[str, object]

    @cached_property
    def defaults_of_fields(self) -> dict[str, Any]:
        """Every field, a part or a setting, with its default; MISSING for what must be given."""
        cls: Any = self.cls
        if not dataclasses.is_dataclass(cls):
            raise ConfigurationError(
                f"{cls.__module__}.{cls.__name__} is not a dataclass, so it has no settings to read"
            )
        return {
            each.name: each.default if each.default_factory is MISSING else each.default_factory()
            for each in dataclasses.fields(cls)
        }

    @property
    def fields(self) -> frozenset[str]:
        """The names of its fields, both parts and settings."""
        return frozenset(self.defaults_of_fields)

    @property
    def needs(self) -> frozenset[str]:
        """Which of retriever and sandbox it requires."""
        return frozenset(name for name in ("retriever", "sandbox") if self.defaults_of_fields.get(name, 0) is MISSING)

    @property
    def defaults(self) -> dict[str, object]:
        """Its settings with their defaults, or with the preset's values. Prompts and other objects are left out."""
        values = {**self.defaults_of_fields, **self.preset}
        return {
            key: value
            for key, value in values.items()
            if key not in PARTS | {"critics", "prompts"} and value is not MISSING and _is_plain(value)
        }

    @property
    def meanings(self) -> dict[str, str]:
        """The description of each setting, from the method's source."""
        texts = meanings(self.cls)
        return {key: texts[key] for key in self.defaults if key in texts}

    def read(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Settings as the fields' types have them; strings are converted. Raises ConfigurationError.

        What the method itself requires of its settings, it says when it is built.
        """
        hints, names = typing.get_type_hints(self.cls), self.fields - PARTS
        values: dict[str, object] = {}
        for key, value in settings.items():
            if key not in names:
                raise ConfigurationError(f"the method {self.name} has no setting {key!r}; {did_you_mean(key, names)}")
            if key == "prompts" and not dataclasses.is_dataclass(value):
                values[key] = self._prompts(value)
                continue
            adapter = TypeAdapter(hints[key])
            if isinstance(value, str):
                is_none = value.lower() in {"none", "null"} and type(None) in typing.get_args(hints[key])
                value = None if is_none else storable_text(value)
            try:
                values[key] = adapter.validate_python(value)
                why = _out_of_bounds(key, values[key])
            except ValidationError as error:
                why = error.errors()[0]["msg"]
            if why is not None:
                raise ConfigurationError(f"the setting {key} of {self.name} cannot be {value!r}: {why}")
        given = {*PARTS, "critics", *self.preset, *settings}
        if lacking := [key for key, value in self.defaults_of_fields.items() if value is MISSING and key not in given]:
            parts = ", ".join(sorted(PARTS))
            raise ConfigurationError(
                f"{origin(self.cls)}: the field {lacking[0]} has no default and is none of {parts}"
            )
        return values

    def _prompts(self, templates: object) -> object:
        """The method's prompts, with the given templates in place of its own."""
        own = self.defaults_of_fields["prompts"]
        names = [each.name for each in dataclasses.fields(own)]
        if not isinstance(templates, Mapping) or not all(isinstance(text, str) for text in templates.values()):
            raise ConfigurationError(
                f"the prompts of {self.name} are templates by name ({', '.join(names)}), not {templates!r}: "
                f"--set 'prompts={{{names[0]} = \"...\"}}'"
            )
        for key in templates:
            if key not in names:
                raise ConfigurationError(f"the method {self.name} has no prompt {key!r}; {did_you_mean(key, names)}")
        return dataclasses.replace(own, **templates)


def method(name: str) -> Listed:
    """The method of `method`, of `method+preset` or of the user's own .py file, which is run once however often it is
    asked for. A hyphen may stand for an underscore.

    Raises ConfigurationError, with similar names as a hint.
    """
    if name.endswith(".py"):
        file = expanded(name).absolute()
        return _of_file(name, file, file.stat().st_mtime_ns if file.is_file() else 0)
    own, _, preset = name.partition("+")
    own = _underscored(own, methods())
    if own not in methods():
        raise ConfigurationError(f"no method is called {own!r}; {did_you_mean(own, methods())}")
    return _of_module(own, preset, methods()[own].load())


@cache
def _of_file(name: str, file: Path, changed: int) -> Listed:
    return _of_module(name, "", load_file(file, "method"))


def _of_module(name: str, preset: str, loaded: Any) -> Listed:
    """loaded: the module that names the class in METHOD, or the class itself; presets are in its PRESETS."""
    presets = {"paper": {}, **getattr(loaded, "PRESETS", {})}
    preset = _underscored(preset, presets)
    if preset and preset not in presets:
        raise ConfigurationError(f"{name} has no preset {preset!r}; {did_you_mean(preset, presets)}")
    cls = loaded if isinstance(loaded, type) else getattr(loaded, "METHOD", None)
    if not isinstance(cls, type):
        raise ConfigurationError(f"{name} names no class in METHOD")
    check_parts(cls, "method", "solve")
    return Listed(f"{name}+{preset}" if preset else name, cls, presets, presets.get(preset, {}))


def _underscored(name: str, names: Container[str]) -> str:
    other = name.replace("-", "_")
    return other if name not in names and other in names else name


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
    listed = method(name)
    parts = {"model": model, "retriever": retriever, "sandbox": sandbox, "rewriter": rewriter, "form": form}
    missing = sorted(part for part in listed.needs if parts[part] is None)
    if missing:
        how = {"retriever": "documents: give --corpus DIR", "sandbox": "a sandbox for generated programs"}
        raise ConfigurationError(f"the method {name} needs {' and '.join(how[part] for part in missing)}")
    arguments = {key: part for key, part in parts.items() if key in listed.fields and part is not None}
    return listed.cls(**arguments, **listed.read({**listed.preset, **(settings or {})}))


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _out_of_bounds(key: str, value: object) -> str | None:
    """Why no run could end with such a value. The method itself checks the lower bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if key.endswith("temperature"):
        fits = 0 <= value <= _MOST_TEMPERATURE
        return None if fits else f"it must be 0 or more, and at most {_MOST_TEMPERATURE:g}"
    most = MOST_COUNT if isinstance(value, float) else _MOST_TOKENS if key.endswith(_LENGTHS) else _MOST_COUNT
    return None if -most <= value <= most else f"it must be a number of at most {most}"


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
    elif match := re.match(r"(?:gpt|chatgpt|o\d|text|(claude)|(gemini))\b", spec):
        right = ["anthropic" if match[1] else "gemini" if match[2] else "openai"]
    else:
        right = ["hf" if slash else "ollama", "openai"]
    suggestion = " or ".join(f"{each}/{spec}" for each in right)
    return f"a model is named provider/model: did you mean {suggestion}? Providers are {', '.join(providers())}"


def load_model(spec: str, options: ModelOptions | None = None, *, helper: bool = False) -> LanguageModel:
    """Load the model `provider/model`, wrapped with limits, retries and, if set, the cache.

    helper: whether it is a rewriter or a critic, which has the main model's options, but not its adapter.
    """
    options = options if options is not None else ModelOptions()
    module, model = provider_module(spec)
    if helper:
        price = options.price if spec.partition("/")[0] in PAID else None
        options = dataclasses.replace(options, adapter=None, price=price)
    check_parts(module, "model provider", "create")
    adapter = called(module.create, model, options)
    if inspect.iscoroutine(adapter):
        adapter.close()
    check_parts(adapter, f"model, as {origin(module)} is to create", "name", "generate")
    return wrap(adapter, options)


def check_budget(spec: str, options: ModelOptions | None, budget: Budget | None) -> None:
    """Refuse a budget that allows no answer, and what `check_price` refuses."""
    if budget is not None and (nothing := [name for name, limit in budget if limit == 0]):
        raise ConfigurationError(f"a budget of 0 {nothing[0]} allows no answer: give more, or leave it out")
    check_price(spec, options, budget)


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

    async def listings(name: str) -> list[Listing]:
        try:
            module, _ = provider_module(f"{name}/<model>")
            available = getattr(module, "available", None)
            return await available(options) if available is not None else []
        except RegroundError as error:  # one provider's wrong setting says nothing about the others
            return [Listing(f"{name}/<model>", False, str(error))]

    names = [name for name in providers() if only is None or name in only]
    return dict(zip(names, await asyncio.gather(*map(listings, names)), strict=True))


async def found_servers() -> list[Listing]:
    """The models of servers that answer on this machine's usual ports, or where OLLAMA_HOST says. Takes under a second.

    Nothing else is asked, and no key is sent to a server whose address the user did not give.
    """
    servers = await model_listings(ModelOptions(), only=LOCAL_SERVERS)
    return [each for listings in servers.values() for each in listings if each.usable]
