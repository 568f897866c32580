"""Critics: who chooses for CR-Planner. A file here is its own registration, as with methods.

A critic module has `create(kind, *, model, detail) -> Critic`: `kind` says what it judges, `model` is the method's own,
`detail` is what the user wrote behind the colon (`prompted:rank`, `random:7`, a folder of weights). `create` is called
whenever a planner is set up, also to scale it or to show its settings, so it must be cheap. A critic loads what is
expensive, such as weights, at its first score and keeps it for all questions of the planner. One that calls a
model is an `AskingCritic`. A module whose critics may be asked of another model than the method's has `model_of(detail)
-> (detail, model)`: the detail without the model, and the model as `provider/model` or None. Other packages add critics
through the entry point group `reground.critics`.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import ClassVar, Literal

from pydantic import ConfigDict

from reground.core.critic import Critic
from reground.core.errors import ConfigurationError
from reground.core.language import LanguageModel

Kind = Literal["subgoal", "rationale", "query", "doc"]
KINDS: tuple[Kind, ...] = ("subgoal", "rationale", "query", "doc")


@dataclass(frozen=True, kw_only=True)
class Critics:
    """The four critics of CR-Planner (equation 2): g^g for sub-goals, g^e for rationales, queries and documents."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    subgoal: Critic
    rationale: Critic
    query: Critic
    doc: Critic

    def of(self, kind: Kind) -> Critic:
        """The critic for a kind of choice."""
        critic: Critic = getattr(self, kind)
        return critic


@cache
def names() -> dict[str, str]:
    """Every critic's name and the module behind it."""
    here = {
        found.name: f"{__name__}.{found.name}"
        for found in pkgutil.iter_modules(__path__)
        if not found.name.startswith("_")
    }
    return here | {point.name: point.value for point in entry_points(group=__name__)}


def load(spec: str, *, model: LanguageModel) -> Critics:
    """All four critics of one kind by name, `name` or `name:detail`.

    Raises ConfigurationError for an unknown name, a module that cannot be imported, or an invalid detail.
    """
    name, _, detail = spec.partition(":")
    create = _module(name).create
    return Critics(**{kind: create(kind, model=model, detail=detail) for kind in KINDS})


def own_model(spec: str) -> tuple[str, str | None]:
    """Split a critic's name into the name without a model, and the model as `provider/model` or None.

    Raises ConfigurationError as `load` does.
    """
    name, _, detail = spec.partition(":")
    model_of = getattr(_module(name), "model_of", None)
    rest, model = (detail, None) if model_of is None else model_of(detail)
    return f"{name}:{rest}" if rest else name, model


def _module(name: str) -> ModuleType:
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or sorted(known)
        raise ConfigurationError(f"no critic is called {name!r}; there are {', '.join(near)}")
    try:
        module = importlib.import_module(known[name])
        _ = module.create
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"the critic {name} ({known[name]}) cannot be used: {error}") from error
    return module
