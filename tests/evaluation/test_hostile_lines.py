"""Benchmark lines that are JSON and no questions: one DataError that names the file and the line, nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reground.core.errors import DataError
from reground.core.evidence import Passage
from reground.evaluation.questions import part
from reground.evaluation.results import read_records
from reground.evaluation.runner import EvalSettings, evaluate
from reground.evaluation.tasks import load_task
from reground.methods.search_agent import SearchAgent
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.evaluation.benchmark_files import FILES, names, write

HUMANEVAL, MBPP, PLUS = "humaneval/HumanEval.jsonl", "mbpp/mbpp.jsonl", "mbpp/MbppPlus-OriginFmt.jsonl"
CLASSEVAL, USACO = "classeval/ClassEval_data.jsonl", "usaco/problems.jsonl"
QUESTIONS, MMLU, THEOREMS = "bamboogle/questions.jsonl", "mmlu/test.jsonl", "theoremqa/test.jsonl"


def test_every_task_can_be_loaded_from_the_valid_files(tmp_path: Path) -> None:
    write(tmp_path)
    assert [name for name in names(tmp_path) if not load_task(name, tmp_path).examples()] == []


@pytest.mark.parametrize(
    ("task", "file", "fields", "says"),
    [
        ("bamboogle", QUESTIONS, {"golden_answers": ...}, "'golden_answers' is missing"),
        ("bamboogle", QUESTIONS, {"golden_answers": []}, "golden_answers is unusable"),
        ("bamboogle", QUESTIONS, {"golden_answers": [{"a": 1}]}, "golden_answers.0 is unusable"),
        ("mmlu", MMLU, {"subject": "alchemy"}, "no subject 'alchemy'"),
        ("mmlu", MMLU, {"choices": ["one"]}, "choices is unusable"),
        ("theoremqa", THEOREMS, {"answer": 1.5, "answer_type": "complex"}, "unknown answer type 'complex'"),
        ("theoremqa", THEOREMS, {"answer": "1.5", "answer_type": "float"}, "is no float"),
        ("gsm_hard", "gsm_hard/gsmhardv2.jsonl", {"target": "many"}, "the answer 'many' is not a number"),
        ("usaco", USACO, {"id": "u2", "cases": []}, "the field cases is unusable"),
        ("usaco", USACO, {}, "of an earlier problem"),
        ("scifact", "scifact/qrels.jsonl", {"score": "high"}, "score is unusable"),
        ("bright:{}/bright", "bright/examples.jsonl", {"gold_ids": "g"}, "gold_ids is unusable"),
        ("humaneval", HUMANEVAL, {"prompt": ...}, "'prompt' is missing"),
        ("humaneval", HUMANEVAL, {"entry_point": "thrice"}, "thrice"),
        ("mbpp", MBPP, {"code": "def f(:\n"}, "code"),
        ("mbpp", MBPP, {"test_list": ["assert ("]}, "test"),
        ("mbpp_plus", PLUS, {"code": "(" * 500}, "code"),
        ("classeval", CLASSEVAL, {"methods_info": [{}]}, "methods_info.0.method_name"),
        ("classeval", CLASSEVAL, {"solution_code": "class Pair:\n"}, "solution_code"),
        ("classeval_method", CLASSEVAL, {"class_name": "Other"}, "Other"),
    ],
)
def test_the_line_and_the_field_are_named(
    task: str, file: str, fields: dict[str, object], says: str, tmp_path: Path
) -> None:
    write(tmp_path)
    path, line = tmp_path / file, len(FILES[file]) + 1
    record: dict[str, Any] = {**FILES[file][0], **fields}
    with path.open("a") as out:
        out.write(json.dumps({name: value for name, value in record.items() if value is not ...}) + "\n")
    with pytest.raises(DataError) as caught:
        load_task(task.format(tmp_path), tmp_path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert says in str(caught.value)


async def test_half_a_character_in_a_question_is_repaired(tmp_path: Path) -> None:
    """Texts that were cut in the middle of an emoji hold one; JSON can say it, and UTF-8 cannot."""
    line = {"id": "a\ud83d", "question": "Who? \ud83d", "answer": "She \ud83d", "metadata": {"kind\ud83d": "\ud83d"}}
    (tmp_path / "own.jsonl").write_text(json.dumps(line) + "\n")
    task = load_task(f"questions:{tmp_path / 'own.jsonl'}", tmp_path)
    (example,) = task.examples()
    assert (example.id, example.question, example.golden_answers) == ("a\ufffd", "Who? \ufffd", ("She \ufffd",))
    assert len(part([example], training=True)) + len(part([example], training=False)) == 1
    library = ScriptedRetriever([Passage(id="p", title="", text="It was she.")])
    agent = SearchAgent(model=ScriptedModel(lambda messages, sampling: "no"), retriever=library, exemplars="rotated")
    found = await evaluate(task, agent, EvalSettings("search_agent", "scripted"), tmp_path / "run")
    assert [(record.id, record.failure) for record in found.records] == [("a\ufffd~0", None)]
    assert [record.id for record in read_records(tmp_path / "run" / "scores.jsonl")] == ["a\ufffd~0"]
