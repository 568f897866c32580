from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from reground.core.answers import Answer
from reground.core.budget import Budget
from reground.core.errors import CapabilityError, ConfigurationError, DataError
from reground.core.language import LanguageModel, Sampling, Usage
from reground.core.run import Run
from reground.evaluation.compare import Cell, Configured, budget_label, cells_of, compare, parse_budgets, read_plan
from reground.evaluation.report import build_reports
from reground.evaluation.results import Record
from reground.evaluation.runner import EvalSettings
from reground.evaluation.scaling import estimate, scaled, total
from reground.models.scripted import ScriptedModel
from tests.evaluation.fakes import Chain, SumTask, adds

SHORT = Sampling(max_tokens=16)


@dataclass(frozen=True)
class Rounds(Chain):
    """A chain that can be shorter."""

    steps: int = 8
    sampling: Sampling | None = SHORT

    def sizes(self) -> list[Rounds]:
        return [replace(self, steps=steps) for steps in range(1, 9)]


class NeedsLogprobs(Chain):
    async def solve(self, question: str, run: Run, /) -> Answer:
        raise CapabilityError("the model gives no log-probabilities")


METHODS = {"chain": Chain, "rounds": Rounds, "logprobs": NeedsLogprobs}


def ready(cells: Sequence[Cell], model: LanguageModel, seed: int = 0) -> dict[Cell, Configured]:
    settings = EvalSettings(method="", model="scripted", limit=None, seed=seed)
    return {
        cell: Configured(
            scaled(METHODS[cell.method](model), cell.tokens),
            replace(settings, method=cell.method, budget=Budget(tokens=cell.tokens)),
        )
        for cell in cells
    }


async def test_every_method_runs_at_every_budget_and_is_scaled_to_it(tmp_path: Path) -> None:
    cells = cells_of(["chain", "rounds"], parse_budgets("100,40"))
    seen: list[tuple[int, int]] = []
    result = await compare(
        SumTask(3), ready(cells, ScriptedModel(adds)), tmp_path, baseline="chain",
        observer=lambda index, progress: seen.append((index, progress.done)),
    )  # fmt: skip
    assert list(result.runs) == ["chain@40", "rounds@40", "chain@100", "rounds@100"]
    calls = {label: run.summary.usage.calls / 3 for label, run in result.runs.items()}
    assert (calls["chain@40"], calls["chain@100"]) == (1, 1)
    assert calls["rounds@40"] < calls["rounds@100"]
    assert all(record.usage.tokens <= 100 for run in result.runs.values() for record in run.records)
    assert seen[-1] == (3, 3)
    (report,) = build_reports([tmp_path])
    assert report.baseline == "chain"
    assert [row.comparison is not None for row in report.rows] == [False, True, False, True]


async def test_a_finished_comparison_calls_nothing_and_may_be_extended(tmp_path: Path) -> None:
    cells = cells_of(["chain"], [100])
    await compare(SumTask(3), ready(cells, ScriptedModel(adds)), tmp_path, baseline="chain")
    silent = ScriptedModel([])
    await compare(SumTask(3), ready(cells, silent), tmp_path, baseline="chain")
    assert silent.calls == []
    more = cells_of(["chain", "rounds"], [200])
    await compare(SumTask(3), ready(more, ScriptedModel(adds)), tmp_path, baseline="chain")
    plan = read_plan(tmp_path)
    assert plan is not None
    assert [cell.label for cell in plan.cells] == ["chain@100", "chain@200", "rounds@200"]


async def test_a_method_that_cannot_run_here_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    cells = cells_of(["logprobs", "chain"], [100])
    result = await compare(SumTask(2), ready(cells, ScriptedModel(adds)), tmp_path, baseline="chain")
    assert list(result.runs) == ["chain@100"]
    assert [(r.cell.method, r.why) for r in result.refused] == [("logprobs", "the model gives no log-probabilities")]
    (report,) = build_reports([tmp_path])
    assert "logprobs@100 was not run: the model gives no log-probabilities" in report.notes


async def test_another_configuration_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    cells = cells_of(["chain", "rounds"], [100])
    await compare(SumTask(2), ready(cells[1:], ScriptedModel(adds)), tmp_path, baseline="rounds")
    model = ScriptedModel(adds)

    with pytest.raises(ConfigurationError, match="seed was 0, now 5"):
        await compare(SumTask(2), ready(cells, model, seed=5), tmp_path, baseline="chain")
    assert model.calls == []
    with pytest.raises(ConfigurationError, match="compares methods on sums, not on products"):
        await compare(
            SumTask(2, name="products"), ready(cells_of(["chain"], [7]), model), tmp_path, baseline="chain"
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("1k,2k, 4K", [1000, 2000, 4000]), ("500", [500]), ("1.5k,none", [1500, None]), ("2m,2000k", [2_000_000])],
)
def test_budgets_are_read(text: str, tokens: list[int | None]) -> None:
    assert parse_budgets(text) == tokens


@pytest.mark.parametrize("text", ["", "4kb", "-1k", "0", "1k,,2k"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="a budget is a number of tokens"):
        parse_budgets(text)


def test_methods_that_would_share_a_folder_are_refused() -> None:
    assert [cell.label for cell in cells_of(["a/mine.py", "rag", "rag"], [None])] == ["mine@none", "rag@none"]
    for names in (["a/mine.py", "b/mine.py"], ["rag", "my/rag.py"]):
        with pytest.raises(ConfigurationError, match=f"{names[0]} and {names[1]} would have the same folder"):
            cells_of(names, [None, 1000])


@pytest.mark.parametrize(
    ("tokens", "label"), [(4000, "4k"), (1500, "1.5k"), (4096, "4096"), (500, "500"), (2_000_000, "2m"), (None, "none")]
)
def test_labels_can_be_read_back(tokens: int | None, label: str) -> None:
    assert budget_label(tokens) == label
    assert parse_budgets(label) == [tokens]


def test_a_broken_plan_is_named(tmp_path: Path) -> None:
    assert read_plan(tmp_path) is None
    (tmp_path / "compare.json").write_text('{\n"task": ')
    with pytest.raises(DataError, match=r"compare\.json: .*Invalid JSON.* at line 2"):
        read_plan(tmp_path)
    (tmp_path / "compare.json").write_text('{"task": "sums"}')
    with pytest.raises(DataError, match=r"compare\.json: baseline: Field required"):
        read_plan(tmp_path)


def usd(prompt: int, cached: int, completion: int) -> float:
    return (prompt - cached) * 1e-6 + completion * 3e-6


def test_without_measurements_a_dry_run_makes_the_estimate() -> None:
    examples, dry = SumTask(10).examples(), Usage(calls=2, prompt=300, completion=100)
    found = estimate("x", examples, repeats=2, budget=1000, records=[], usual=dry, usd=usd, speed=50)
    assert (found.runs, found.tokens, found.most_tokens, found.measured) == (20, 8_000, 20_000, 0)
    assert (found.usd, found.most_usd) == (pytest.approx(0.012), pytest.approx(0.06))
    assert found.seconds == 160
    cut = estimate("x", examples, repeats=2, budget=200, records=[], usual=dry)
    assert cut.tokens == cut.most_tokens == 4_000, "no more than the budget"
    unbounded = estimate("x", examples, repeats=1, budget=None, records=[], usual=dry)
    assert (unbounded.tokens, unbounded.most_tokens, unbounded.usd, unbounded.seconds) == (4_000, None, None, None)
    unknown = estimate("x", examples, repeats=1, budget=100, records=[], usd=usd, speed=1)
    assert (unknown.tokens, unknown.most_tokens, unknown.usd, unknown.seconds) == (None, 1_000, None, None)


def test_measured_questions_make_the_estimate() -> None:
    usage = Usage(calls=1, prompt=80, cached=30, completion=20)
    done = [Record(id=f"q{i}~0", example=f"q{i}", repeat=0, usage=usage, seconds=4.0) for i in range(4)]
    found = estimate("x", SumTask(10).examples(), repeats=1, budget=1000, records=done, usd=usd, concurrency=2)
    assert (found.runs, found.tokens, found.most_tokens, found.measured) == (6, 600, 6_000, 4)
    assert found.usd == pytest.approx(6 * 110e-6)
    assert found.seconds == 12.0
    assert estimate("x", SumTask(4).examples(), repeats=1, budget=900, records=done).tokens == 0


def test_a_total_knows_no_more_than_its_parts() -> None:
    examples, dry = SumTask(2).examples(), Usage(prompt=50, completion=50)
    bounded = estimate("a", examples, repeats=1, budget=100, records=[], usual=dry, usd=usd, speed=1)
    unbounded = estimate("b", examples, repeats=1, budget=None, records=[], usual=dry, usd=usd, speed=1)
    assert total([bounded, bounded]).most_tokens == 400
    both = total([bounded, unbounded])
    assert (both.tokens, both.most_tokens, both.most_usd, both.runs) == (400, None, None, 4)
    assert both.usd == pytest.approx(bounded.usd + unbounded.usd)
