"""Critics by name, chance, the first candidate."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

import reground.critics
from reground.core.critic import Critic
from reground.core.errors import ConfigurationError
from reground.core.pairs import Pair
from reground.core.run import Run
from reground.critics import KINDS, Critics, load, names, own_model
from reground.critics.first import FirstCritic
from reground.models.scripted import ScriptedModel

PAIRS = [Pair(context="c", candidate=text) for text in ("a", "b", "c", "d")]


def test_every_file_is_a_critic_by_its_name() -> None:
    files = {path.stem for path in Path(reground.critics.__file__).parent.glob("*.py") if path.stem != "__init__"}
    assert files <= set(names())
    assert {"prompted", "random", "first"} <= files
    assert all(importlib.util.find_spec(module) for module in names().values())


@pytest.mark.parametrize("spec", ["prompted", "prompted:rank", "prompted:pointwise", "random", "random:7", "first"])
def test_a_name_gives_a_critic_for_every_kind(spec: str) -> None:
    critics = load(spec, model=ScriptedModel([]))
    for kind in KINDS:
        assert isinstance(critics.of(kind), Critic)
        assert critics.of(kind).name.startswith(spec.partition(":")[0])


@pytest.mark.parametrize(
    ("spec", "bare", "model"),
    [
        ("prompted", "prompted", None),
        ("prompted:rank", "prompted:rank", None),
        ("prompted:openai/large", "prompted", "openai/large"),
        ("prompted:openai/large:8b", "prompted", "openai/large:8b"),
        ("prompted:rank:gguf/models/x.gguf", "prompted:rank", "gguf/models/x.gguf"),
        ("random:7", "random:7", None),
        ("first", "first", None),
    ],
)
def test_a_critic_may_name_the_model_that_judges(spec: str, bare: str, model: str | None) -> None:
    assert own_model(spec) == (bare, model)
    assert load(bare, model=ScriptedModel([]))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("promted", "there are prompted"),
        ("", "there are first, prompted, random"),
        ("prompted:best", "pointwise or rank"),
        ("prompted:openai/large", r"nobody has opened the model openai/large.*critics=load\('prompted:pointwise'"),
        ("random:x", "a seed, not 'x'"),
        ("first:2", "takes no detail"),
        ("../../etc", "no critic is called"),
    ],
)
def test_a_name_or_detail_that_does_not_fit_is_refused(spec: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load(spec, model=ScriptedModel([]))


async def test_the_first_is_best() -> None:
    scores = await FirstCritic().score(PAIRS, Run())
    assert list(scores) == sorted(scores, reverse=True)
    assert len(set(scores)) == len(PAIRS)


async def test_chance_is_the_same_again_and_another_with_another_seed_kind_or_context() -> None:
    def critic(spec: str, kind: str = "doc") -> Critic:
        return getattr(load(spec, model=ScriptedModel([])), kind)  # type: ignore[no-any-return]

    first = await critic("random").score(PAIRS, Run())
    assert await critic("random").score(PAIRS, Run()) == first
    assert await critic("random").score(list(reversed(PAIRS)), Run()) == list(reversed(first))
    assert await critic("random:1").score(PAIRS, Run()) != first
    assert await critic("random", "query").score(PAIRS, Run()) != first
    elsewhere = [pair.model_copy(update={"context": "d"}) for pair in PAIRS]
    assert await critic("random").score(elsewhere, Run()) != first
    assert all(0 <= score < 1 for score in first)


async def test_chance_is_fair() -> None:
    wins = [0, 0, 0]
    critic = load("random", model=ScriptedModel([])).subgoal
    for number in range(600):
        pairs = [Pair(context=str(number), candidate=text) for text in ("a", "b", "c")]
        scores = list(await critic.score(pairs, Run()))
        wins[scores.index(max(scores))] += 1
    assert all(150 < count < 250 for count in wins), wins


def test_the_four_critics_are_taken_as_they_are_and_nothing_else_is() -> None:
    adapter = TypeAdapter(Critics | None)
    critics = load("first", model=ScriptedModel([]))
    assert adapter.validate_python(critics) is critics
    with pytest.raises(ValidationError):
        adapter.validate_python("first")
