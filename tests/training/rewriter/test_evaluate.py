"""Rewriters measured question by question: kept as they are made, compared in pairs, shown side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")

from reground.core.errors import ModelError
from reground.evaluation.task import Example
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
from reground.models.scripted import ScriptedModel
from reground.training.rewriter.evaluate import (
    FOUND,
    QUESTION,
    difference_table,
    measurable,
    measure_rewriter,
    prompted,
    record,
    rewritings_table,
    table,
)
from reground.training.rewriter.reward import RANK, PipelineReward, without_reader
from tests.training.rewriter.test_reward import PAGES, Library, method

EXAMPLES = [
    Example(id=f"q{number}", question=question, golden_answers=("Danube",))
    for number, question in enumerate(["river of Vienna", *(f"unknown {n}" for n in range(19))])
]
TASK = QuestionAnswering(name="rivers", primary="token F1", loaded=tuple(EXAMPLES))


def reward(reader: RewriteRetrieveRead | None = None) -> PipelineReward:
    return PipelineReward(without_reader(method()) if reader is None else reader, TASK, {})


def good(asked: list[str]):
    async def write(examples):
        asked.extend(example.id for example in examples)
        return ["river of Vienna"] * len(examples)

    return write


async def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    asked: list[str] = []
    kept = tmp_path / "kept.jsonl"
    first = await measure_rewriter("good", EXAMPLES[:17], good(asked), reward(), kept)
    whole = kept.read_bytes()
    kept.write_bytes(whole + whole[:40])  # a kill in the middle of a line
    told: list[int] = []
    again = await measure_rewriter("good", EXAMPLES, good(asked), reward(), kept, on_question=told.append)
    assert asked == [example.id for example in EXAMPLES]
    assert told == [20]
    assert {name: again.rows[name] for name in first.rows} == dict(first.rows)
    silent = await measure_rewriter("good", EXAMPLES[:3], good(asked), reward(), kept)
    assert list(silent.rows) == ["q0", "q1", "q2"]
    assert len(asked) == 20


async def test_rewriters_are_compared_in_pairs_and_shown_beside_the_question(tmp_path: Path) -> None:
    own = await measure_rewriter(QUESTION, EXAMPLES, None, reward(), tmp_path / "own.jsonl")
    better = await measure_rewriter("good", EXAMPLES, good([]), reward(), tmp_path / "good.jsonl")
    assert (own.interval("hit").mean, better.interval("hit").mean) == (pytest.approx(0.05), 1.0)
    assert better.interval(RANK).mean == 0.5
    metrics = measurable([own, better], FOUND)
    assert metrics == ["hit", RANK]
    said = record([own, better], metrics)
    assert said["good"]["hit against the question"]["mean"] == pytest.approx(0.95)
    assert said["good"]["hit against the question"]["p"] < 0.001
    assert said["good"]["rewritings"]["q3"] == "river of Vienna"
    (line,) = difference_table([own, better], metrics).rows
    assert line[:2] == ["good", QUESTION]
    assert line[2].startswith("+0.950 [+0.850, +1.000], p 0.000")
    assert table([own, better], metrics, "found").rows[0][-1] == "100%"
    shown = rewritings_table([own, better]).rows
    assert len(shown) == 20
    away = replace(better, name="prompted gguf//models/small.gguf"), replace(better, name="runs/one/model")
    assert [row[0] for row in table(away, metrics, "found").rows] == ["prompted small.gguf", "model"]
    same = replace(better, name="runs/one/model"), replace(better, name="runs/two/model")
    assert [row[0] for row in table(same, metrics, "found").rows] == ["runs/one/model", "runs/two/model"]
    assert shown[0] == ["river of Vienna", "2", "river of Vienna", "2"]
    assert shown[1] == ["unknown 0", "–", "river of Vienna", "2"]


async def test_a_prompted_model_is_a_rewriter_without_a_reader(tmp_path: Path) -> None:
    model = ScriptedModel(lambda messages, sampling: "The river has to be known.\nQueries: river of Vienna; Cologne")
    write = prompted(method(), model, TASK)
    found = await measure_rewriter("prompted", EXAMPLES[:2], write, reward(), tmp_path / "kept.jsonl")
    assert found.rows["q1"].queries == ("river of Vienna", "Cologne")
    assert len(model.calls) == 2
    assert "search engine" in model.prompts[0]


async def test_a_reader_answers_with_what_was_found(tmp_path: Path) -> None:
    reads = ScriptedModel(lambda messages, sampling: "Answer: Danube" if "Budapest" in messages[-1].content else "?")
    reader = RewriteRetrieveRead(model=reads, retriever=Library(), total=2)
    found = await measure_rewriter("good", EXAMPLES[:3], good([]), reward(reader), tmp_path / "one.jsonl")
    own = await measure_rewriter(QUESTION, EXAMPLES[:3], None, reward(reader), tmp_path / "two.jsonl")
    assert found.interval("exact match").mean == 1
    broken = ScriptedModel(lambda messages, sampling: ModelError("not understood"))
    failing = RewriteRetrieveRead(model=broken, retriever=Library(), total=2)
    failed = await measure_rewriter("good", EXAMPLES[:3], good([]), reward(failing), tmp_path / "three.jsonl")
    assert (failed.scores("exact match"), failed.interval(RANK).mean) == ({}, 0.5)
    assert not (tmp_path / "three.jsonl").exists(), "they are tried again"
    assert own.interval("exact match").mean == pytest.approx(1 / 3)
    assert "river of Vienna" in PAGES
