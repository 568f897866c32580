from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from reground.core.answers import ABSTENTION, PHRASE, Answer
from reground.core.budget import Budget
from reground.core.errors import AuthenticationError, ConfigurationError, DataError, ModelError, SandboxUnavailable
from reground.core.evidence import Passage
from reground.core.journal import MemoryJournal
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.run import Run
from reground.core.trajectory import BEFORE_CHECKS, NoteStep, read_trajectories
from reground.evaluation.report import build_reports
from reground.evaluation.results import read_records, read_run
from reground.evaluation.runner import EARLIER, FAITHFULNESS, EvalSettings, Progress, all_scores, choose, evaluate
from reground.evaluation.task import Example, Score, Task, hidden_documents
from reground.evaluation.tasks.longform import Judge, JudgedTask
from reground.evaluation.tasks.qa import QuestionAnswering, Unanswerable
from reground.methods.baselines import RAG
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.evaluation.fakes import Chain, SumTask, adds
from tests.evaluation.trajectories import answered

SETTINGS = EvalSettings(method="chain", model="scripted", limit=None, concurrency=3)


def settings(**changed: object) -> EvalSettings:
    return EvalSettings(**{**vars(SETTINGS), **changed})


async def test_every_question_and_repeat_has_a_trajectory_and_a_record(tmp_path: Path) -> None:
    model = ScriptedModel(adds)
    result = await evaluate(SumTask(5), Chain(model), settings(repeats=2), tmp_path / "run")
    expected = {f"q{i}~{r}" for i in range(5) for r in range(2)}
    assert {r.id for r in result.records} == expected
    assert {t.id for t in read_trajectories(tmp_path / "run" / "trajectories.jsonl")} == expected
    assert {r.id for r in read_records(tmp_path / "run" / "scores.jsonl")} == expected
    assert result.summary.finished
    assert result.summary.metrics["exact match"].mean == 1.0
    assert result.summary.same_repeats == 5
    assert result.summary.usage.calls == len(model.calls) == 10
    stored = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert stored["metrics"]["exact match"]["scored"] == 10
    assert result.records[0].metadata.keys() == {"parity"}


async def test_a_failed_question_is_counted_and_bounds_the_mean(tmp_path: Path) -> None:
    def script(messages: list[Message], sampling: Sampling) -> str | Exception:
        return ModelError("overloaded") if "1 + 1" in messages[-1].content else adds(messages, sampling)

    task = SumTask(4, unscored=frozenset({"q2"}))
    result = await evaluate(task, Chain(ScriptedModel(script)), SETTINGS, tmp_path / "run")
    metric = result.summary.metrics["exact match"]
    assert (metric.mean, metric.scored, metric.unscored, metric.failed, metric.bound) == (1.0, 2, 1, 1, 2 / 3)
    assert (result.summary.failed, result.summary.failures) == (1, {"ModelError": 1})
    assert "q1~0" not in task.scored
    (failed,) = [r for r in result.records if r.failure is not None]
    assert (failed.id, failed.failure.message, failed.scores) == ("q1~0", "overloaded", {})


async def test_retry_failed_runs_only_what_failed_and_keeps_what_was_paid(tmp_path: Path) -> None:
    def script(messages: list[Message], sampling: Sampling) -> str | Exception:
        return ModelError("overloaded") if "1 + 1 step 2" in messages[-1].content else adds(messages, sampling)

    first = await evaluate(SumTask(3), Chain(ScriptedModel(script), steps=3), SETTINGS, tmp_path / "run")
    assert first.summary.failed == 1
    kept = await evaluate(SumTask(3), Chain(ScriptedModel([]), steps=3), SETTINGS, tmp_path / "run")
    assert kept.summary.failed == 1
    healed = ScriptedModel(adds)
    result = await evaluate(SumTask(3), Chain(healed, steps=3), settings(retry_failed=True), tmp_path / "run")
    assert healed.prompts == ["what is 1 + 1 step 2"]
    assert result.summary.failed == 0
    assert result.summary.metrics["exact match"].mean == 1.0
    assert Counter(t.id for t in read_trajectories(tmp_path / "run" / "trajectories.jsonl")) == {
        "q0~0": 1,
        "q1~0": 1,
        "q2~0": 1,
    }


@pytest.mark.parametrize("error", [AuthenticationError("bad key"), SandboxUnavailable("no bubblewrap")])
async def test_what_is_wrong_with_the_run_stops_it_and_marks_nothing_failed(tmp_path: Path, error: Exception) -> None:
    def script(messages: list[Message], sampling: Sampling) -> str | Exception:
        return error if "3 + 3" in messages[-1].content else adds(messages, sampling)

    with pytest.raises(type(error)):
        await evaluate(SumTask(6), Chain(ScriptedModel(script)), settings(concurrency=1), tmp_path / "run")
    records = list(read_records(tmp_path / "run" / "scores.jsonl"))
    assert 0 < len(records) < 6
    assert all(record.failure is None for record in records)
    assert not json.loads((tmp_path / "run" / "summary.json").read_text())["finished"]
    result = await evaluate(SumTask(6), Chain(ScriptedModel(adds)), SETTINGS, tmp_path / "run")
    assert result.summary.finished


async def test_a_broken_scorer_leaves_answers_unscored_until_it_is_mended(tmp_path: Path) -> None:
    broken = await evaluate(SumTask(3, broken=True), Chain(ScriptedModel(adds)), SETTINGS, tmp_path / "run")
    metric = broken.summary.metrics["exact match"]
    assert (metric.mean, metric.scored, metric.unscored, metric.failed) == (None, 0, 3, 0)
    assert {r.scoring for r in broken.records} == {"ValueError: the scorer is broken"}
    mended = await evaluate(SumTask(3), Chain(ScriptedModel([])), SETTINGS, tmp_path / "run")
    assert mended.summary.metrics["exact match"].mean == 1.0


async def test_rescore_scores_all_again_without_a_call(tmp_path: Path) -> None:
    await evaluate(SumTask(4), Chain(ScriptedModel(adds)), SETTINGS, tmp_path / "run")
    task = SumTask(4, unscored=frozenset({"q0"}))
    other = SumTask(4)
    result = await evaluate(other, Chain(ScriptedModel([])), settings(rescore=True, concurrency=3), tmp_path / "run")
    assert sorted(other.scored) == [f"q{i}~0" for i in range(4)]
    assert result.summary.metrics["exact match"].scored == 4
    with pytest.raises(ConfigurationError, match="data was"):
        await evaluate(task, Chain(ScriptedModel([])), settings(rescore=True), tmp_path / "run")


async def test_the_budget_is_kept_and_the_best_answer_is_scored(tmp_path: Path) -> None:
    result = await evaluate(
        SumTask(2), Chain(ScriptedModel(adds), steps=9), settings(budget=Budget(calls=2)), tmp_path / "run"
    )
    assert result.summary.stopped == {"calls": 2}
    assert result.summary.failed == 0
    assert result.summary.metrics["exact match"].mean == 1.0
    assert result.summary.usage.calls == 4


async def test_a_question_whose_last_reply_was_cut_at_its_length_limit_is_counted(tmp_path: Path) -> None:
    def says(messages: list[Message], sampling: Sampling) -> Reply:
        number = len(cut)
        cut.append(number)
        return Reply(text=adds(messages, sampling), finish_reason="length" if number in {1, 3, 4} else "stop")

    cut: list[int] = []
    result = await evaluate(SumTask(3), Chain(ScriptedModel(says), steps=2), settings(concurrency=1), tmp_path / "run")
    assert [record.cut for record in result.records] == [True, True, False]
    assert result.summary.cut == 2


async def test_limit_and_repeats_may_grow_and_pay_only_for_what_is_new(tmp_path: Path) -> None:
    first = await evaluate(SumTask(8), Chain(ScriptedModel(adds)), settings(limit=3), tmp_path / "run")
    model = ScriptedModel(adds)
    grown = await evaluate(SumTask(8), Chain(model), settings(limit=5, repeats=2), tmp_path / "run")
    assert len(model.calls) == 5 * 2 - 3
    assert {r.id for r in first.records} < {r.id for r in grown.records}
    with pytest.raises(ConfigurationError, match="limit was 5, now 4"):
        await evaluate(SumTask(8), Chain(model), settings(limit=4, repeats=2), tmp_path / "run")


async def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    reached = asyncio.Event()

    class Stuck(ScriptedModel):
        async def generate(self, messages, sampling, /):
            if "step 2" in messages[-1].content:
                reached.set()
                await asyncio.Event().wait()
            return await super().generate(messages, sampling)

    running = asyncio.create_task(
        evaluate(SumTask(4), Chain(Stuck(adds), steps=3), settings(concurrency=1), tmp_path / "run")
    )
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    model = ScriptedModel(adds)
    result = await evaluate(SumTask(4), Chain(model, steps=3), SETTINGS, tmp_path / "run")
    assert result.summary.finished
    assert len(model.calls) == 4 * 3 - 2


async def test_progress_adds_up_and_ends_with_everything_done(tmp_path: Path) -> None:
    seen: list[Progress] = []
    await evaluate(SumTask(5), Chain(ScriptedModel(adds), steps=2), SETTINGS, tmp_path / "run", observer=seen.append)
    assert seen[0].left is None
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert (seen[-1].done, seen[-1].total, seen[-1].left) == (5, 5, 0.0)
    again: list[Progress] = []
    await evaluate(SumTask(5), Chain(ScriptedModel([]), steps=2), SETTINGS, tmp_path / "run", observer=again.append)
    assert (again[-1].resumed, again[-1].done, again[-1].paid) == (5, 5, Usage())
    assert seen[-1].usage == seen[-1].paid
    assert seen[-1].paid.calls == 10


async def test_repeats_differ_in_their_seeds_and_the_same_run_has_the_same(tmp_path: Path) -> None:
    async def seeds(out: str, **changed: object) -> dict[str, set[int | None]]:
        model = ScriptedModel(lambda messages, sampling: str(sampling.seed))
        warm = Chain(model, sampling=Sampling(temperature=1.0))
        await evaluate(SumTask(2), warm, settings(repeats=2, **changed), tmp_path / out)
        by_message: dict[str, set[int | None]] = {}
        for messages, sampling in model.calls:
            by_message.setdefault(messages[-1].content, set()).add(sampling.seed)
        return by_message

    first = await seeds("first")
    assert [len(drawn) for drawn in first.values()] == [2, 2]
    assert first == await seeds("again", concurrency=1)
    assert not set.union(*first.values()) & set.union(*(await seeds("other", seed=1)).values())


def test_questions_are_chosen_by_seed_and_a_larger_limit_keeps_those_of_a_smaller() -> None:
    task = SumTask(50)
    few, more = choose(task, settings(limit=10)), choose(task, settings(limit=20))
    assert more[:10] == few
    assert choose(task, settings(limit=10, seed=1)) != few
    assert sorted(e.id for e in choose(task, SETTINGS)) == sorted(e.id for e in task.examples())


async def test_bad_settings_and_bad_data_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    class Twins(SumTask):
        def examples(self) -> list[Example]:
            return [Example(id="a", question="x"), Example(id="a", question="y")]

    with pytest.raises(DataError, match="two examples have the id 'a'"):
        await evaluate(Twins(), Chain(ScriptedModel([])), SETTINGS, tmp_path / "run")
    with pytest.raises(DataError, match="no examples"):
        await evaluate(SumTask(0), Chain(ScriptedModel([])), SETTINGS, tmp_path / "run")
    with pytest.raises(ConfigurationError, match="at least 1"):
        await evaluate(SumTask(), Chain(ScriptedModel([])), settings(repeats=0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


EXAMPLE = Example(id="q", question="Where was he born?", golden_answers=("Ghent",))
TASK = QuestionAnswering("bamboogle", "cover-EM", (EXAMPLE,))


def noted(text: str) -> NoteStep:
    return NoteStep(span="", ordinal=0, name=BEFORE_CHECKS, data={"text": text})


async def test_a_revision_that_helps_and_one_that_hurts_are_both_seen() -> None:
    """Table 4 of ReST meets ReAct: the same trajectories, scored at the answer step."""
    helped = await all_scores(TASK, EXAMPLE, answered("In Ghent.", noted("In Bruges.")), None)
    assert (helped["cover-EM"].value, helped["before checks: cover-EM"].value) == (1.0, 0.0)
    hurt = await all_scores(TASK, EXAMPLE, answered("In Bruges.", noted("In Ghent.")), None)
    assert (hurt["cover-EM"].value, hurt["before checks: cover-EM"].value) == (0.0, 1.0)
    assert f"{EARLIER}cover-EM" not in await all_scores(TASK, EXAMPLE, answered("In Ghent."), None)


async def test_an_answer_that_the_checks_left_alone_is_judged_once() -> None:
    model = ScriptedModel(["# so\nimplied = True"])

    task = JudgedTask(task=TASK, judge=Judge(model=model), journal=MemoryJournal)
    found = await all_scores(task, EXAMPLE, answered("In Ghent.", noted("In Ghent.")), None)
    assert found["auto-eval"] == found["before checks: auto-eval"] == Score(value=1.0)
    assert len(model.calls) == 1


class Guesser:
    """Answers the sums of its own run rightly as far as it is told: which questions, by run."""

    def __init__(self, right: Mapping[int, set[str]]) -> None:
        self.right = right
        self.asked: dict[str, int] = {}

    async def solve(self, question: str, run: Run, /) -> Answer:
        repeat = self.asked.get(question, 0)
        self.asked[question] = repeat + 1
        run.note(BEFORE_CHECKS, text="Answer: none")
        number = question.split()[-1]
        return Answer(text=f"Answer: {2 * int(number) if number in self.right[repeat] else 'none'}")


async def test_mean_and_std_are_over_runs_of_the_method(tmp_path: Path) -> None:
    """Three runs over four questions with 1, 2 and 3 right answers: 0.5 on average, 0.25 between runs."""
    method = Guesser({0: {"0"}, 1: {"0", "1"}, 2: {"0", "1", "2"}})
    settings = EvalSettings(method="guess", model="none", repeats=3, concurrency=1)
    result = await evaluate(SumTask(4), method, settings, tmp_path / "run")
    metric = result.summary.metrics["exact match"]
    assert metric.by_repeat == (0.25, 0.5, 0.75)
    assert (metric.mean, metric.std) == (0.5, pytest.approx(0.25))
    before = result.summary.metrics["before checks: exact match"]
    assert (before.by_repeat, before.std) == ((0.0, 0.0, 0.0), 0.0)
    (report,) = build_reports([tmp_path / "run"])
    every = report.tables[1]
    assert (every.headers[6], every.rows[0][6]) == ("std of repeats", "0.250")


FOUND = [
    Passage(id="hotpot-1", title="Danube", text="The Danube is 2850 km long."),
    Passage(id="hotpot-2", title="Seine", text="The Seine is 775 km long."),
]
RIVERS = (
    Example(
        id="a", question="How long is the Danube?", golden_answers=("2850 km",), metadata={"gold_ids": ["hotpot-1"]}
    ),
    Example(id="b", question="How long is the Rhine?", golden_answers=("1230 km",)),
)


async def scores(task: Task, reply: str, out: Path) -> dict[str, float | None]:
    method = RAG(model=ScriptedModel(lambda messages, sampling: reply), retriever=ScriptedRetriever(FOUND), form=PHRASE)
    await evaluate(task, method, EvalSettings("rag", "scripted", ids="a"), out)
    (record,) = read_run(out).records().values()
    return {name: score.value for name, score in record.scores.items()}


@pytest.mark.parametrize(
    ("reply", "faithful", "right"),
    [("Answer: 2850 km", 1.0, 1.0), ("Answer: 3000 km", 0.0, 0.0), (ABSTENTION, None, 0.0)],
)
async def test_faithfulness_stands_beside_the_tasks_own_metrics(
    reply: str, faithful: float | None, right: float, tmp_path: Path
) -> None:
    found = await scores(QuestionAnswering("rivers", "token F1", RIVERS), reply, tmp_path / "out")
    assert (found[FAITHFULNESS], found["exact match"]) == (faithful, right)
    assert found["abstained"] == float(reply == ABSTENTION)


async def test_where_the_gold_passages_are_taken_away_it_is_right_to_abstain(tmp_path: Path) -> None:
    task = Unanswerable("rivers_unanswerable", "abstained", RIVERS)
    (example,) = task.examples()
    assert example.id == "a", "the gold passages of the other are unknown"
    assert hidden_documents(task, example) == {"hotpot-1"}
    assert (await scores(task, ABSTENTION, tmp_path / "one"))["abstained"] == 1.0
    assert (await scores(task, "Answer: 2850 km", tmp_path / "two"))["abstained"] == 0.0
