"""The benchmarks' own files, and our worked examples, which are in one fence, right, and nothing that they ask."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reground.core.answers import PAL, PROGRAM, AnswerForm, Demonstration
from reground.core.errors import DataError
from reground.core.programs import Program
from reground.evaluation.data import demonstrations, worked
from reground.evaluation.metrics.numbers import within
from reground.evaluation.tasks import load_task, qa
from reground.evaluation.tasks.code import FROM_DOCSTRING, FROM_TESTS
from reground.evaluation.tasks.mathematics import PROGRAM_DEMONSTRATIONS, WRITTEN_DEMONSTRATIONS
from reground.methods.shared.prompts import general, response
from tests.data import need_data
from tests.evaluation.trajectories import answered
from tests.sandbox.needed import some_sandbox

COUNTS = {
    "hotpotqa": {"hotpotqa": 194, "hotpotqa_train": 600},
    "2wikimultihopqa": {"2wikimultihopqa": 573},
    "ambignq": {"ambignq": 5856},
    "bamboogle": {"bamboogle": 125},
    "bamtwoogle": {"bamtwoogle": 100},
    "musique": {"musique": 100},
    "nq_open": {"nq_open": 2655, "nq_open_dev": 8757, "nq_open_test": 3610},
    "popqa": {"popqa": 557, "popqa_train": 143, "popqa_all": 10507, "popqa_all_train": 2561},
    "strategyqa": {"strategyqa": 229, "strategyqa_train": 2061},
    "triviaqa": {"triviaqa": 11313, "triviaqa_dev": 8837},
    "mmlu": {
        "mmlu": 14042,
        "mmlu_stem": 3018,
        "mmlu_humanities": 4705,
        "mmlu_social_sciences": 3077,
        "mmlu_other": 3242,
    },
    "agieval": {
        **{"agieval": 2844, "gaokao": 844, "gaokao_biology": 210, "gaokao_chemistry": 207, "gaokao_chinese": 246},
        **{"gaokao_english": 306, "gaokao_geography": 199, "gaokao_history": 235, "gaokao_mathqa": 351},
        **{"gaokao_physics": 200, "jec_qa": 2000, "jec_qa_ca": 1000, "jec_qa_kd": 1000},
    },
    "gsm8k": {"gsm8k_cot": 1319},
    "gsm_hard": {"gsm_hard_cot": 1319},
    "theoremqa": {"theoremqa": 747, "theoremqa_pictures": 800},
}


@pytest.mark.parametrize(
    ("folder", "name", "count"), [(folder, *task) for folder, tasks in COUNTS.items() for task in tasks.items()]
)
async def test_a_task_has_its_questions_and_a_gold_answer_scores_full(folder: str, name: str, count: int) -> None:
    task = load_task(name, need_data(folder).parent)
    examples = task.examples()
    assert len(examples) == count == len({example.id for example in examples})
    unlabelled = [example.id for example in examples if not example.golden_answers]
    assert unlabelled == (["jec-qa-kd-0211"] if name in ("agieval", "jec_qa", "jec_qa_kd") else [])
    some = [each for each in examples if each.golden_answers and re.search(r"\w{3}", each.golden_answers[0])]
    tried = some[:1] if isinstance(task, qa.QuestionAnswering) else examples[:: 1 if folder == "theoremqa" else 30]
    for example in tried:
        if example.golden_answers:
            gold = example.golden_answers[0]
            said = ", ".join(gold) if folder in ("mmlu", "agieval") else gold
            found = await task.score(example, answered(f"Answer: {said}"), None)
            assert found[task.primary].value == 1.0, example
    own = {shot.question.casefold() for shot in task.demonstrations()}
    assert own
    assert not own & {example.question.casefold() for example in examples}


def words(text: str) -> frozenset[str]:
    common = "write function python program that find returns given from with does docstring says this have answer"
    return frozenset(re.findall(r"\w{4,}", text.casefold())) - set(common.split())


CODE = ("humaneval", "mbpp", "mbpp_plus")


@pytest.mark.parametrize(
    ("examples", "names", "share"),
    [
        ([each["asked"] for each in worked("program")], CODE, 0.6),
        ([each.question for each in general(PROGRAM)], CODE, 0.6),
        ([each.question.split("\n")[0] for each in demonstrations("theorem")], ("theoremqa",), 0.6),
        ([each.question for each in (*qa.MULTI_HOP, *qa.SINGLE_HOP, *qa.YES_NO)], tuple(qa.TASKS), 0.79),
    ],
)
def test_no_worked_problem_is_close_to_one_of_a_benchmark(
    examples: list[str], names: tuple[str, ...], share: float
) -> None:
    root = need_data("bamboogle").parent
    compared = 0
    for name in names:
        try:
            problems = load_task(name, root).examples()
        except DataError:  # not all files are here
            continue
        for theirs in (words(problem.question) for problem in problems):
            assert all(len(theirs & ours) <= share * len(ours) for ours in map(words, examples)), theirs
        compared += len(problems)
    assert compared


PROGRAMS = [
    *((each, PROGRAM) for each in (*FROM_DOCSTRING, *FROM_TESTS, *general(PROGRAM))),
    *((each, PAL) for each in (*PROGRAM_DEMONSTRATIONS, *general(PAL))),
]


@pytest.mark.parametrize(("example", "form"), PROGRAMS)
def test_a_program_is_shown_in_one_fence_and_read_back_whole(example: Demonstration, form: AnswerForm) -> None:
    said = response(example, form)
    assert said.count("```") == 2
    assert form.extract(said) == example.answer.strip()


@pytest.mark.parametrize("solved", worked("program"), ids=lambda solved: solved["signature"])
async def test_a_worked_program_satisfies_its_tests(solved: dict[str, Any]) -> None:
    source, name = f"def {solved['signature']}:\n{solved['body']}", solved["signature"].partition("(")[0]
    program = Program(source=source, tests="\n".join(solved["tests"]), exports=(name,))
    ran = await some_sandbox().execute(program)
    assert ran.passed, ran.detail


async def test_a_worked_sum_is_the_same_by_program_and_in_writing() -> None:
    for program, written in zip(PROGRAM_DEMONSTRATIONS, WRITTEN_DEMONSTRATIONS, strict=True):
        ran = await some_sandbox().execute(Program(source=program.answer, returns="solution()"))
        assert within(ran.value, float(written.answer)), program
