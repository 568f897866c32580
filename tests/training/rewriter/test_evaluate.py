"""Rewriters measured question by question: kept as they are made, compared in pairs, shown side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reground.core.errors import ModelError
from reground.evaluation.runner import EvalSettings
from reground.evaluation.task import Example
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
from reground.models.scripted import ScriptedModel
from reground.training.rewriter.evaluate import (
    FOUND,
    QUESTION,
    Rewriter,
    measurable,
    measure_rewriter,
    record,
    rewritings_table,
    tables,
)
from reground.training.rewriter.reward import RANK, Said, without_reader
from tests.training.rewriter.test_reward import Library, method

EXAMPLES = [
    Example(id=f"q{number}", question=question, golden_answers=("Danube",))
    for number, question in enumerate(["river of Vienna", *(f"unknown {n}" for n in range(19))])
]
TASK = QuestionAnswering(name="rivers", primary="token F1", loaded=tuple(EXAMPLES))


GOOD = Said("river of Vienna")


async def measured(name: str, made: RewriteRetrieveRead, run: Path, *, limit: int | None = None) -> Rewriter:
    return await measure_rewriter(name, TASK, made, EvalSettings("rewrite_retrieve_read", "m", limit=limit), run)


async def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    rewriter = ScriptedModel(lambda messages, sampling: "river of Vienna")
    good = without_reader(method(rewriter=rewriter))
    first = await measured("good", good, tmp_path / "run", limit=17)
    again = await measured("good", good, tmp_path / "run")
    assert len(rewriter.calls) == len(EXAMPLES) == len(again.rows)
    assert {name: again.rows[name] for name in first.rows} == dict(first.rows)


async def test_rewriters_are_compared_in_pairs_and_shown_beside_the_question(tmp_path: Path) -> None:
    own = await measured(QUESTION, without_reader(method(mode="retrieve")), tmp_path / "own")
    better = await measured("good", without_reader(method(rewriter=GOOD)), tmp_path / "good")
    assert (own.interval("hit").mean, better.interval("hit").mean) == (pytest.approx(0.05), 1.0)
    assert better.interval(RANK).mean == 0.5
    metrics = measurable([own, better], FOUND)
    assert metrics == ["hit", RANK]
    data = record([own, better], metrics)
    assert data["good"]["hit against the question"]["mean"] == pytest.approx(0.95)
    assert data["good"]["hit against the question"]["p"] < 0.001
    assert data["good"]["rewritings"]["q3"] == "river of Vienna"
    means, differences = tables([own, better], metrics, "found")
    assert means.rows[0][-1] == "100%"
    assert differences.rows[0][:2] == ["good", QUESTION]
    assert differences.rows[0][2].startswith("+0.950 [+0.850, +1.000], p 0.000")
    shown = rewritings_table([own, better]).rows
    assert len(shown) == 20
    assert ["river of Vienna", "2", "river of Vienna", "2"] in shown
    assert ["unknown 0", "–", "river of Vienna", "2"] in shown
    away = replace(better, name="prompted gguf//models/small.gguf"), replace(better, name="runs/one/model")
    assert [row[0] for row in tables(away, metrics, "found")[0].rows] == ["prompted small.gguf", "model"]
    same = replace(better, name="runs/one/model"), replace(better, name="runs/two/model")
    assert [row[0] for row in tables(same, metrics, "found")[0].rows] == ["runs/one/model", "runs/two/model"]


async def test_a_rewriter_without_a_query_finds_nothing(tmp_path: Path) -> None:
    silent = await measured("silent", without_reader(method(rewriter=Said("none"))), tmp_path / "run")
    assert (silent.interval("hit").mean, silent.interval(RANK).mean) == (0, 0)
    assert {row.text for row in silent.rows.values()} == {""}


async def test_a_reader_answers_with_what_was_found(tmp_path: Path) -> None:
    reads = ScriptedModel(lambda messages, sampling: "Answer: Danube" if "Budapest" in messages[-1].content else "?")
    reader = RewriteRetrieveRead(model=reads, retriever=Library(), total=2, rewriter=GOOD)
    assert (await measured("good", reader, tmp_path / "one")).interval("exact match").mean == 1
    own = await measured(QUESTION, replace(reader, mode="retrieve"), tmp_path / "two")
    assert own.interval("exact match").mean == pytest.approx(1 / 20)
    broken = replace(reader, model=ScriptedModel(lambda messages, sampling: ModelError("not understood")))
    failed = await measured("good", broken, tmp_path / "three", limit=3)
    assert (failed.scores("exact match"), failed.interval(RANK).mean) == ({}, 0.5)
