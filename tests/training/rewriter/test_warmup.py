"""Pseudo data for the warm-up, made of two ordinary runs, and the questions that are left for PPO."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reground.core.errors import DataError
from reground.evaluation.runner import EvalSettings, evaluate
from reground.evaluation.task import Example
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.models.scripted import ScriptedModel
from reground.training.rewriter.warmup import demonstration, divided, question_ids, warmup_rows
from reground.training.rows import write_rows
from reground.training.settings import WarmUp
from tests.training.rewriter.test_reward import Library, method

REWRITINGS = {"Which river is in Vienna?": "river of Vienna", "Which one is in Cologne?": "Seine", "Paris": "Paris"}
ANSWERS = {"Which river is in Vienna?": "Danube", "Which one is in Cologne?": "Rhine", "Paris": "Seine"}
EXAMPLES = tuple(
    Example(id=f"q{number}", question=question, golden_answers=(answer,))
    for number, (question, answer) in enumerate(ANSWERS.items())
)
TASK = QuestionAnswering(name="rivers_train", primary="token F1", loaded=EXAMPLES)


def says(messages, sampling) -> str:
    """Rewrites a question by the table; as the reader it knows Vienna's alone."""
    asked = messages[-1].content
    question = next(each for each in ANSWERS if asked.rpartition("\n\nQuestion: ")[2].startswith(each))
    if "search engine" in asked:
        return f"Queries: {REWRITINGS[question]}"
    return "Answer: Danube" if "Vienna" in question else "Answer: unknown"


@pytest.fixture
async def runs(tmp_path: Path) -> tuple[Path, Path]:
    model = ScriptedModel(says)
    for mode in ("rewrite", "retrieve"):
        made = replace(method(), model=model, retriever=Library(), mode=mode)
        await evaluate(TASK, made, EvalSettings(f"rewrite_retrieve_read+{mode}", "scripted"), tmp_path / mode)
    return tmp_path / "rewrite", tmp_path / "retrieve"


@pytest.mark.parametrize(
    ("proof", "rewritings", "copies"),
    [("answer", {"q0": "river of Vienna"}, {"q0"}), ("passages", {"q0": "river of Vienna"}, {"q2"})],
)
async def test_what_led_to_the_answer_is_kept(runs, proof, rewritings, copies) -> None:
    kept = warmup_rows(*runs, WarmUp(proof=proof, copies=0.5))
    said = {row.question: row.messages[1].content for row in kept.rows if row.messages[1].content not in ANSWERS}
    assert said == rewritings
    assert {row.question for row in kept.rows if row.messages[1].content in ANSWERS} == copies
    assert (len(kept.rows), kept.copies) == (2, 1)
    assert kept.dropped == {"wrong": 1, "its own question": 1}
    assert kept.rows[0].messages[0].content.startswith("rewrite a better search query: ")


async def test_the_same_seed_gives_the_same_rows_and_copies_keep_their_share(runs) -> None:
    settings = WarmUp(proof="either", copies=0.3)
    first = warmup_rows(*runs, settings)
    assert first.rows == warmup_rows(*runs, settings).rows
    assert first.copies == 0  # 0.3 / 0.7 of one rewriting
    assert warmup_rows(runs[0], None, settings).copies == 0


async def test_without_a_rewriting_that_led_anywhere(runs, tmp_path: Path) -> None:
    empty = tmp_path / "wrong"
    task = QuestionAnswering(name="rivers_train", primary="token F1", loaded=EXAMPLES[1:2])
    await evaluate(
        task, replace(method(), model=ScriptedModel(says)), EvalSettings("rewrite_retrieve_read", "s"), empty
    )
    with pytest.raises(DataError, match="no rewriting here led to the answer"):
        warmup_rows(empty, None, WarmUp())


DRAWN = [Example(id=f"q{number}", question=f"What is {number}?") for number in range(8)]


@pytest.mark.parametrize(
    ("known", "validation", "few"),
    [
        (set(), ["q0", "q1", "q2"], 0),
        ({"q0", "q1", "q3"}, ["q2", "q4", "q5"], 0),
        ({"q0", "q1", "q2", "q3", "q4", "q6", "q7"}, ["q5", "q6", "q7"], 2),
        ({each.id for each in DRAWN}, ["q5", "q6", "q7"], 3),
    ],
)
def test_validation_is_on_questions_that_the_warm_up_did_not_learn_from(
    known: set[str], validation: list[str], few: int
) -> None:
    parts = divided(DRAWN, validation=3, limit=None, earlier=known)
    assert [example.id for example in parts.validation] == validation
    assert [example.id for example in parts.learning] == [each.id for each in DRAWN if each.id not in validation]
    assert parts.overlap == few
    assert ("none of which was in the warm-up's data" in str(parts)) == (not few)
    assert divided(DRAWN, validation=3, limit=2, earlier=known).learning == parts.learning[:2]


def test_what_the_warm_up_learnt_from_stands_in_its_rows(tmp_path: Path) -> None:
    rows = tmp_path / "warmup.jsonl"
    assert question_ids(rows) == set()
    write_rows(rows, [demonstration("q3", "What is 3?", "3"), demonstration("q5", "What is 5?", "5")])
    assert question_ids(rows) == {"q3", "q5"}
