"""The plan of the loop: its stages in order, and the choice among a fit's passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError
from reground.training.agent.loop import (
    UNRANKED,
    Agent,
    Choose,
    Fit,
    Grow,
    Measure,
    Mix,
    Plan,
    Rank,
    described,
    keep,
    kept,
)
from reground.training.agent.rank import MIXTURE
from reground.training.sft import epoch_place, epochs_of

OUT = Path("out")


def plan(**changed) -> Plan:
    given = {"out": OUT, "teacher": "openai/large", "bases": ["own/medium", "small"]}
    return Plan(**{**given, "validated": False, "untrained": False, "control": False, **changed})


def test_every_generation_fits_all_bases_afresh_and_the_first_grows_the_next() -> None:
    stages = [stage for stage in plan(repeats=4).stages() if not isinstance(stage, Measure)]
    one, two = OUT / "gen1", OUT / "gen2"
    assert stages == [
        Grow(one, Agent("openai/large"), 1),
        Rank(one),
        Mix(one, MIXTURE, "ranking"),
        Fit(one, MIXTURE, "own/medium", "medium"),
        Fit(one, MIXTURE, "small", "small"),
        Grow(two, Agent(f"hf/{one}/medium", 0), 4),
        Rank(two),
        Mix(two, MIXTURE, "ranking"),
        Fit(two, MIXTURE, "own/medium", "medium"),
        Fit(two, MIXTURE, "small", "small"),
    ]


def test_every_agent_is_measured_on_the_same_questions() -> None:
    measured = [stage for stage in plan(generations=1, untrained=True).stages() if isinstance(stage, Measure)]
    assert [(stage.size, stage.data, stage.agent.shots) for stage in measured] == [
        ("teacher", "prompted", None),
        ("medium", "untrained", 0),
        ("medium", "untrained, one example", 1),
        ("small", "untrained", 0),
        ("small", "untrained, one example", 1),
        ("medium", "generation 1", 0),
        ("small", "generation 1", 0),
    ]
    assert {stage.split for stage in measured} == {"test"}
    assert len({stage.run for stage in measured}) == len(measured), "each has a run of its own"


def test_the_control_has_as_many_unranked_steps_for_the_smallest() -> None:
    stages = list(plan(generations=1, control=True).stages())
    folder = OUT / "gen1"
    assert Mix(folder, UNRANKED, "chance", like=MIXTURE) in stages
    assert [stage for stage in stages if isinstance(stage, Fit)][-1] == Fit(folder, UNRANKED, "small", "small-unranked")
    last = stages[-1]
    assert isinstance(last, Measure)
    assert last.data == "generation 1, unranked"


def test_a_fit_is_chosen_on_the_validation_questions_and_then_tested() -> None:
    stages = list(plan(generations=1, bases=["small"], ranked=False, validated=True).stages())
    assert not any(isinstance(stage, Rank) for stage in stages)
    fit, choose, test = stages[-3:]
    assert isinstance(fit, Fit)
    assert isinstance(choose, Choose)
    assert choose.measure.split == "validation"
    assert isinstance(test, Measure)
    assert test.split == "test"
    assert all(described(stage) for stage in stages)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"bases": [""]}, "at least one base"),
        ({"bases": ["a/small", "b/small"]}, "two bases have the same name"),
        ({"tested": False}, "nothing would be measured"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_says_why(changed, why) -> None:
    with pytest.raises(ConfigurationError, match=why):
        plan(**changed)


def test_the_earliest_best_pass_is_kept_and_the_others_go(tmp_path: Path) -> None:
    measure = Measure(1, "generation 1", "small", Agent("hf/small", 0), "validation")
    stage = Choose(tmp_path, "small", measure)
    place = tmp_path / "small"
    for folder, text in [(place, "last"), *((epoch_place(place, n), f"pass {n}") for n in (1, 2, 3))]:
        folder.mkdir()
        (folder / "weights").write_text(text)
    assert len(epochs_of(stage.folder / stage.name)) == 3
    assert kept(stage) is None
    assert keep([0.1, 0.5, 0.5], stage) == 2
    assert (place / "weights").read_text() == "pass 2"
    assert kept(stage) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small", "small.json"]
    assert json.loads((tmp_path / "small.json").read_text()) == {"epoch": 2, "scores": [0.1, 0.5, 0.5]}


def test_an_interrupted_choice_is_made_again(tmp_path: Path) -> None:
    stage = Choose(tmp_path, "small", Measure(1, "generation 1", "small", Agent("hf/small", 0), "validation"))
    epoch_place(tmp_path / "small", 1).mkdir()
    (tmp_path / "small.json").write_text('{"epoch": 1, "scores": [0.5]}')
    assert kept(stage) is None


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_choice_stands_where_its_other_models_were_being_removed(left: int, tmp_path: Path) -> None:
    stage = Choose(tmp_path, "small", Measure(1, "generation 1", "small", Agent("hf/small", 0), "validation"))
    (tmp_path / "small").mkdir()
    for number in range(1, left + 1):  # of three; the best was the last, and went first
        epoch_place(tmp_path / "small", number).mkdir()
    (tmp_path / ".small.gone").mkdir()
    (tmp_path / "small.json").write_text('{"epoch": 3, "scores": [0.1, 0.2, 0.9]}')
    assert kept(stage) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small", "small.json"]
