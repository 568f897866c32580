"""Critics: who chooses for CR-Planner. The table `CRITICS` says which exist.

A critic module has `create(kind, *, model, detail) -> Critic`: `kind` says what it judges, `model` is the method's own,
`detail` is what the user wrote behind the colon (`prompted:rank`, `random:7`, a folder of weights). `create` is called
whenever a planner is set up, also to scale it or to show its settings, so it must be cheap. A critic loads what is
expensive, such as weights, at its first score and keeps it for all questions of the planner. One that calls a
model is an `AskingCritic`. A module whose critics may be asked of another model than the method's has `model_of(detail)
-> (detail, model)`: the detail without the model, and the model as `provider/model` or None. One whose critics are
made of files has `FILES = True`: the files may change while the name stays, so a run's identity holds the critics' own
names. Other packages add critics through the entry point group `reground.critics`.

One name stands for all four critics. `doc=trained:FOLDER,subgoal=prompted` names them one by one; those that are not
named are prompted.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import ConfigDict

from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.language import LanguageModel
from reground.core.run import Critic
from reground.core.user_code import Entry, called, check_parts, entries

CRITICS = {
    "first": "reground.critics.simple:FixedCritic",
    "fixed": "reground.critics.simple:FixedCritic",
    "prompted": "reground.critics.prompted",
    "random": "reground.critics.simple:RandomCritic",
    "trained": "reground.critics.trained",
}
"""Where each critic is: a module, or `module:object`, that has `create`."""

Kind = Literal["subgoal", "rationale", "query", "doc"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OTHERWISE = "prompted"
"""The critic of the kinds that a list of critics does not name."""

_EACH = re.compile(r"(?:^|,)([a-z_]+)=")


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


def grouped(keys: Iterable[Hashable]) -> dict[Any, list[int]]:
    """The places of equal keys, by the keys in their order."""
    groups: dict[Any, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return groups


def in_place(scores: Iterable[tuple[Sequence[int], Sequence[float]]]) -> list[float]:
    """The scores of groups of places, in the order of the places."""
    scored = {place: score for places, each in scores for place, score in zip(places, each, strict=True)}
    return [scored[place] for place in range(len(scored))]


@cache
def names() -> dict[str, Entry]:
    """Every critic by name."""
    return entries(CRITICS, __name__)


class _Spec(NamedTuple):
    """One critic's name: its module, what stands behind the colon, and of that what is no model, and the model."""

    module: Any
    detail: str
    rest: str
    model: str | None


def _parse(spec: str) -> dict[Kind, _Spec]:
    """What each kind's critic is: the same `name` or `name:detail` for all, or `kind=name:detail,...`.

    Raises ConfigurationError for a kind that there is not, or that is named twice, for an unknown name, and for a
    module without `create`.
    """
    specs = dict.fromkeys(KINDS, spec)
    if _EACH.match(spec):
        _, *parts = _EACH.split(spec)
        own = dict(zip(parts[::2], parts[1::2], strict=True))
        for name in parts[::2]:
            if name not in KINDS:
                raise ConfigurationError(f"no critic judges {name!r}; {did_you_mean(name, KINDS)}")
            if parts[::2].count(name) > 1:
                raise ConfigurationError(f"the critic for {name} is named twice in {spec!r}")
        specs = {kind: own.get(kind, OTHERWISE) for kind in KINDS}
    result: dict[Kind, _Spec] = {}
    for kind, each in specs.items():
        name, _, detail = each.partition(":")
        if name not in names():
            raise ConfigurationError(f"no critic is called {name!r}; {did_you_mean(name, names())}")
        module = names()[name].load()
        check_parts(module, f"critic {name}", "create")
        rest, model = module.model_of(detail) if hasattr(module, "model_of") else (detail, None)
        result[kind] = _Spec(module, detail, rest, model)
    return result


def load(spec: str, *, model: LanguageModel, own: Mapping[str, LanguageModel] | None = None) -> Critics:
    """All four critics by name: `name`, `name:detail` or `kind=name:detail,...`.

    own: the models that critics of this name are asked of instead of `model`, by their names (`own_models`).
    Raises ConfigurationError for an unknown name, a module that cannot be imported, or an invalid detail.
    """
    critics: dict[str, Critic] = {}
    for kind, each in _parse(spec).items():
        judge = (own or {}).get(each.model or "")
        detail = each.detail if judge is None else each.rest
        critics[kind] = called(each.module.create, kind, model=model if judge is None else judge, detail=detail)
        check_parts(critics[kind], "critic", "name", "score")
    return Critics(**critics)


def own_models(spec: str) -> tuple[str, ...]:
    """The models that a list of critics names for judging, each once, as `provider/model`. Raises as `load` does."""
    return tuple(dict.fromkeys(each.model for each in _parse(spec).values() if each.model is not None))


def of_files(spec: str) -> bool:
    """Whether a critic among those named is made of files. Raises as `load` does."""
    return any(getattr(each.module, "FILES", False) for each in _parse(spec).values())
