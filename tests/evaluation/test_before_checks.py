"""The answer before a method's checks is scored beside the final one, and the spread is over runs of the method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reground.core.answers import TEXT, Answer
from reground.core.method import solve
from reground.core.run import Run
from reground.core.trajectory import BEFORE_CHECKS, NoteStep
from reground.evaluation.report import build_reports
from reground.evaluation.results import Record, RunConfig, summarise
from reground.evaluation.runner import EARLIER, EvalSettings, before_checks, evaluate, scores_with_earlier
from reground.evaluation.task import Example, Score
from reground.evaluation.tasks.longform import Judge, JudgedTask
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.methods.search_agent import SearchAgent
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.evaluation.fakes import SumTask
from tests.evaluation.trajectories import answered

EXAMPLE = Example(id="q", question="Where was he born?", golden_answers=("Ghent",))
TASK = QuestionAnswering("bamboogle", "cover-EM", (EXAMPLE,))


def noted(text: str) -> NoteStep:
    return NoteStep(span="", ordinal=0, name=BEFORE_CHECKS, data={"text": text})


async def test_a_revision_that_helps_and_one_that_hurts_are_both_seen() -> None:
    """Table 4 of ReST meets ReAct: the same trajectories, scored at the answer step."""
    helped = await scores_with_earlier(TASK, EXAMPLE, answered("In Ghent.", noted("In Bruges.")), None)
    assert (helped["cover-EM"].value, helped["before checks: cover-EM"].value) == (1.0, 0.0)
    hurt = await scores_with_earlier(TASK, EXAMPLE, answered("In Bruges.", noted("In Ghent.")), None)
    assert (hurt["cover-EM"].value, hurt["before checks: cover-EM"].value) == (0.0, 1.0)


async def test_a_trajectory_without_checks_has_no_such_metric() -> None:
    assert set(await scores_with_earlier(TASK, EXAMPLE, answered("In Ghent."), None)) == set(TASK.metrics)
    assert before_checks(answered(None, noted("In Ghent."))) is None


async def test_an_answer_that_the_checks_left_alone_is_judged_once() -> None:
    model = ScriptedModel(["# so\nimplied = True"])

    async def open_run(example, trajectory):
        return Run()

    task = JudgedTask(task=TASK, judge=Judge(model=model), open_run=open_run)
    found = await scores_with_earlier(task, EXAMPLE, answered("In Ghent.", noted("In Ghent.")), None)
    assert found["auto-eval"] == found["before checks: auto-eval"] == Score(value=1.0)
    assert len(model.calls) == 1


async def test_the_search_agents_trajectories_hold_both_answers() -> None:
    replies = [
        'Terminate(thoughts="t")',
        'Answer(thoughts="t", answer="In Bruges.")',
        'Revise_Answer(revised_answer="In Ghent.")',
        "Check_Answer(passed=True)",
    ]
    agent = SearchAgent(model=ScriptedModel(replies), retriever=ScriptedRetriever([]), samples=1, form=TEXT)
    solved = await solve(agent, EXAMPLE.question, Run(), id="q", name="search_agent")
    found = await scores_with_earlier(TASK, EXAMPLE, solved.trajectory, None)
    assert (found["cover-EM"].value, found["before checks: cover-EM"].value) == (1.0, 0.0)


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


async def test_a_single_run_has_no_std(tmp_path: Path) -> None:
    settings = EvalSettings(method="guess", model="none", concurrency=1)
    result = await evaluate(SumTask(2), Guesser({0: set()}), settings, tmp_path / "run")
    assert (result.summary.metrics["exact match"].by_repeat, result.summary.metrics["exact match"].std) == ((), None)


def test_programs_before_the_checks_leave_pass_at_k_alone() -> None:
    """Metrics whose names begin with "pass" are verdicts that pass@k is computed from."""
    config = RunConfig(task="t", data="d", primary="pass", form="program", method="m", model="m", repeats=2)
    scores = {"pass": Score(value=1.0), f"{EARLIER}pass": Score(value=0.0)}
    records = [Record(id=f"q~{repeat}", example="q", repeat=repeat, scores=scores) for repeat in range(2)]
    metrics = summarise(config, records, expected=2).metrics
    assert (metrics["pass@2"].mean, metrics[f"{EARLIER}pass"].mean) == (1.0, 0.0)
