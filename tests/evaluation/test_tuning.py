from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from reground.core.answers import Answer
from reground.core.budget import Budget
from reground.core.errors import CapabilityError, DataError
from reground.core.run import Run
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.runner import EvalSettings
from reground.evaluation.scaling import cost
from reground.evaluation.tuning import CHOICES, Candidate, Tuning, planned, read_tuning, tune
from reground.models.scripted import ScriptedModel
from tests.evaluation.fakes import Chain, SumTask, adds

CELL = Cell(method="reader", tokens=400)


@dataclass(frozen=True)
class Reader(Chain):
    """More than two passages confuse it."""

    k: int = 3

    def sizes(self) -> list[Reader]:
        return [replace(self, k=k) for k in (1, 2, 4, 8)]

    async def solve(self, question: str, run: Run, /) -> Answer:
        answer = await super().solve(question + " passage" * self.k, run)
        return answer if self.k <= 2 else Answer(text="Answer: confused")


@dataclass(frozen=True)
class Unable(Reader):
    async def solve(self, question: str, run: Run, /) -> Answer:
        raise CapabilityError("the model gives no log-probabilities")


def candidates(method: Reader, price: float = 1.0) -> list[Candidate]:
    """The default and the other sizes. price: by how much the dry run is wrong."""
    return [
        Candidate(
            Configured(
                one, EvalSettings("reader", "scripted", method_settings={"k": one.k}, budget=Budget(tokens=500))
            ),
            round(price * cost(one)),
        )
        for one in (method, *method.sizes())
    ]


async def test_the_best_size_is_chosen_and_among_equals_the_cheapest(tmp_path: Path) -> None:
    method = Reader(ScriptedModel(adds))
    chosen = await tune(SumTask(6), {CELL: candidates(method)}, tmp_path, questions=4)
    assert chosen == {CELL: 1}  # the first is the default
    found = Tuning.model_validate_json((tmp_path / CHOICES).read_text())
    (choice,) = found.choices
    assert [(trial.settings["k"], trial.mean) for trial in choice.trials] == [(1, 1), (2, 1), (3, 0), (4, 0), (8, 0)]
    assert choice.trials[0].tokens < choice.trials[1].tokens
    assert (choice.questions, choice.chosen) == (4, 0)
    assert choice.describe() == (
        "reader@400 has k=1: the best of 5 sizes on 4 other questions (1.000, 1.000, 0.000, 0.000, 0.000)."
    )


@pytest.mark.parametrize(("price", "tried"), [(1.0, 5), (30.0, 5), (0.5, 5)])
async def test_what_a_size_used_corrects_the_dry_run(tmp_path: Path, price: float, tried: int) -> None:
    """However wrong the dry run is, the sizes that stay under the limit are tried."""
    await tune(SumTask(6), {CELL: candidates(Reader(ScriptedModel(adds)), price)}, tmp_path, questions=4)
    (choice,) = Tuning.model_validate_json((tmp_path / CHOICES).read_text()).choices
    assert len(choice.trials) == tried


async def test_the_sizes_still_to_be_tried_are_told_as_they_become_known(tmp_path: Path) -> None:
    """The dry run expects too much, so the first size shows that all of them fit; one that cannot run has no others."""
    told: list[tuple[str, list[int]]] = []
    unable = Cell(method="unable", tokens=400)
    several = {CELL: candidates(Reader(ScriptedModel(adds)), 30.0), unable: candidates(Unable(ScriptedModel([])))}
    await tune(
        SumTask(6), several, tmp_path, questions=2,
        on_plan=lambda cell, sizes: told.append((cell.method, list(sizes))),
    )  # fmt: skip
    assert told[0] == ("reader", planned(CELL, several[CELL])) == ("reader", [1, 0])
    assert [each for each in told if each[0] == "reader"][-1] == ("reader", [1, 2, 0, 3, 4])
    assert told[-1] == ("unable", [])


async def test_a_size_that_costs_much_more_than_expected_is_the_last(tmp_path: Path) -> None:
    several = [replace(each, expected=1) for each in candidates(Reader(ScriptedModel(adds)))]
    tight = Cell(method="reader", tokens=12)  # four passages take 13
    told: list[list[int]] = []
    chosen = await tune(
        SumTask(6), {tight: several}, tmp_path, questions=2, on_plan=lambda cell, sizes: told.append([*sizes])
    )
    (choice,) = Tuning.model_validate_json((tmp_path / CHOICES).read_text()).choices
    assert [trial.settings["k"] for trial in choice.trials] == [3, 1, 2, 4]
    assert told[-1] == [0, 1, 2, 3]
    assert chosen == {tight: 1}


async def test_of_sizes_that_would_go_over_the_limit_only_the_smallest_and_the_methods_own_are_tried(
    tmp_path: Path,
) -> None:
    tight = Cell(method="reader", tokens=1)
    chosen = await tune(SumTask(6), {tight: candidates(Reader(ScriptedModel(adds)))}, tmp_path, questions=4)
    (choice,) = Tuning.model_validate_json((tmp_path / CHOICES).read_text()).choices
    assert [trial.settings["k"] for trial in choice.trials] == [1, 3]
    assert chosen == {tight: 1}


def test_a_size_that_the_limit_ended_early_makes_no_larger_one_fit() -> None:
    own, *others = candidates(Reader(ScriptedModel([])))
    several = [
        replace(own, expected=9000),
        *(replace(each, expected=1000 * each.configured.method.k) for each in others),
    ]
    cell = Cell(method="reader", tokens=2500)
    assert planned(cell, several) == [1, 2, 0]
    assert planned(cell, several, used=0.9, tried=[1, 2, 0]) == [1, 2, 0]


async def test_tuning_goes_on_where_it_was_and_pays_nothing_twice(tmp_path: Path) -> None:
    await tune(SumTask(6), {CELL: candidates(Reader(ScriptedModel(adds)))}, tmp_path, questions=4)
    silent = ScriptedModel([])
    chosen = await tune(SumTask(6), {CELL: candidates(Reader(silent))}, tmp_path, questions=4)
    assert chosen == {CELL: 1}
    assert silent.calls == []


async def test_one_candidate_needs_no_questions_and_one_that_cannot_run_is_left_to_the_comparison(
    tmp_path: Path,
) -> None:
    silent = ScriptedModel([])
    only = candidates(Reader(silent))[:1]
    unable = Cell(method="unable", tokens=400)
    chosen = await tune(SumTask(6), {CELL: only, unable: candidates(Unable(silent))}, tmp_path, questions=4)
    assert chosen == {CELL: 0, unable: 0}
    assert silent.calls == []


async def test_choices_for_other_cells_are_kept_and_a_broken_file_is_named(tmp_path: Path) -> None:
    other = Cell(method="reader", tokens=160)
    for cell in (CELL, other):
        await tune(SumTask(6), {cell: candidates(Reader(ScriptedModel(adds)))}, tmp_path, questions=2)
    tuning = read_tuning(tmp_path)
    assert tuning is not None
    assert [choice.cell for choice in tuning.choices] == [CELL, other]
    (tmp_path / CHOICES).write_text("{")
    with pytest.raises(DataError, match=r"tuning\.json"):
        read_tuning(tmp_path)
