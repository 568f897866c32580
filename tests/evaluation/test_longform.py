import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import TEXT
from reground.core.errors import DataError, ParseError
from reground.core.journal import MemoryJournal
from reground.core.run import Run
from reground.evaluation.task import Example, Task, hidden_documents
from reground.evaluation.tasks.longform import Judge, JudgedTask, judge_prompt, parse_mark, parse_verdict, read_labels
from reground.evaluation.tasks.qa import QuestionAnswering, Unanswerable
from reground.models.scripted import ScriptedModel
from tests.evaluation.trajectories import answered, write_jsonl

YES, NO = "# it says so\nimplied = True", "# it does not\nimplied = False"


@pytest.mark.parametrize(
    ("parse", "reply", "value"),
    [
        (parse_verdict, YES, True),
        (parse_verdict, NO, False),
        (parse_verdict, "```python\n# so\nimplied = True  # surely\n```", True),
        (parse_verdict, "implied: bool = False", False),
        (parse_verdict, "It names another river. Therefore, `implied = False`.", False),
        (parse_verdict, "implied = True\n\nquestion = 'Another?'\nimplied = False", True),
        (parse_mark, "# good\nmark = 5", 1.0),
        (parse_mark, "```python\n# so\nmark: int = 3  # fair\n```", 0.5),
        (parse_mark, "mark = 1\nmark = 5", 0.0),
    ],
)
def test_a_judgement_is_read(parse: Callable[[str], float], reply: str, value: float) -> None:
    assert parse(reply) == value


VERDICTS = (
    "", "True", "either `implied = True` or `implied = False`", "implied = yes", "implied = 1", "implied =",
    "implied = __import__('os')", "implied = " + "(" * 500,
)  # fmt: skip
MARKS = ("", "5", "mark = 6", "mark = 0", "mark = 4.5", "mark = five", "mark = 1 + 1")


@pytest.mark.parametrize(
    ("parse", "reply"), [*((parse_verdict, each) for each in VERDICTS), *((parse_mark, each) for each in MARKS)]
)
def test_anything_else_is_refused_and_never_run(parse: Callable[[str], float], reply: str) -> None:
    with pytest.raises(ParseError):
        parse(reply)


@given(st.text(max_size=80), st.text(max_size=80))
def test_an_answer_cannot_speak_as_the_judge(question: str, answer: str) -> None:
    """Whatever an answer holds, what is judged stays Python whose literals are ours to read back."""
    *worked, asked = judge_prompt(question, answer + "<|im_end|>", "gold")
    body = ast.parse(asked.content.partition("\n\n")[2]).body
    names = [n.targets[0].id for n in body if isinstance(n, ast.Assign)]  # type: ignore[attr-defined]
    assert names == ["question", "answer", "reference"]
    assert "<|im_end|>" not in asked.content
    assert [turn.role for turn in worked] == ["user", "assistant"] * 5 and asked.role == "user"
    assert [parse_verdict(turn.content) for turn in worked[1::2]] == [True, False, True, False, False]


async def test_an_unreadable_rating_is_asked_for_once_more_and_not_greedily() -> None:
    model = ScriptedModel(["I would say yes", YES])
    assert await Judge(model=model).rate("Q?", "gold", "An answer.", Run()) == 1.0
    assert [(sampling.n, sampling.temperature) for _, sampling in model.calls] == [(1, 0.0), (1, 0.5)]
    assert "answer = 'An answer.'" in model.prompts[0]
    assert await Judge(model=ScriptedModel(["x", "x"])).rate("Q?", "gold", "a", Run()) is None


def test_a_judged_task_hides_what_the_task_hides() -> None:
    """Otherwise a run with a judge finds the gold passages that the same run without one must not find."""
    example = Example(id="1", question="Q?", golden_answers=("Ghent",), metadata={"gold_ids": ["d-1", "d-2"]})
    inner = Unanswerable("hotpotqa_unanswerable", "abstained", (example,))

    for task in (inner, QuestionAnswering("hotpotqa", "token F1", (example,))):
        judged = JudgedTask(task=task, judge=Judge(model=ScriptedModel([])), journal=MemoryJournal)
        assert hidden_documents(judged, example) == hidden_documents(task, example)
    assert hidden_documents(inner, example) == {"d-1", "d-2"}


def test_several_labels_of_one_answer_are_averaged(tmp_path: Path) -> None:
    records = [
        {"id": "a", "rating": 5},
        {"id": "a", "rating": 4},
        {"id": "b", "rating": True},
        {"id": "c", "rating": 2.5},
        {"id": "other", "rating": 0},
    ]
    labels = read_labels(write_jsonl(tmp_path / "labels.jsonl", records))
    assert labels == {"a": 4.5, "b": 1.0, "c": 2.5, "other": 0.0}
    path = write_jsonl(tmp_path / "labels.jsonl", [*records, {"id": "a", "rating": "good"}])
    with pytest.raises(DataError, match=rf"{path}:6: the field rating is unusable"):
        read_labels(path)


async def test_a_judged_task_adds_the_judge_to_the_tasks_own_metrics() -> None:
    example = Example(id="1", question="Q?", golden_answers=("Ghent",))
    inner = QuestionAnswering("bamboogle", "cover-EM", (example,))
    model = ScriptedModel([YES, "x", "x"])

    task = JudgedTask(task=inner, judge=Judge(model=model), journal=MemoryJournal)
    assert isinstance(task, Task)
    assert (task.name, task.form, task.primary) == ("bamboogle", TEXT, "auto-eval")
    assert (task.examples(), task.demonstrations(), task.solutions()) == ((example,), (), ["Q?"])
    found = await task.score(example, answered("It is Ghent."), None)
    assert (found["auto-eval"].value, found["cover-EM"].value) == (1.0, 1.0)
    unread = await task.score(example, answered("It is Ghent."), None)
    assert (unread["auto-eval"].value, unread["auto-eval"].why) == (None, "no rating of the judge could be read")
    assert (await task.score(example, answered("  "), None))["auto-eval"].why == "there is no answer"


async def test_criteria_stand_in_for_a_reference() -> None:
    model = ScriptedModel(["no mark", "# fair\nmark = 4"])
    found = await Judge(model=model).rate("Tell a life.", (), "He lived.", Run(), criteria="accuracy: it is true")
    assert found == 0.75
    assert "accuracy: it is true" in model.prompts[0]
    assert "reference" not in model.prompts[0]
