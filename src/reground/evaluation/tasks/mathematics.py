"""Problems with a number as the answer: GSM8K, GSM-Hard and TheoremQA.

GSM8K (Cobbe et al. 2021) and GSM-Hard (Gao et al. 2023) are answered by program (PAL) or in writing.

TheoremQA (Chen et al. 2023) has typed answers, compared as in the benchmark: fractional numbers within 4 % of the gold,
whole numbers after rounding, lists item by item after sorting, truth values and option letters exactly. An answer that
cannot be read as the required type is wrong. Questions that need a picture are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from reground.core.answers import NUMBER, PAL, AnswerForm, Demonstration, extract_phrase
from reground.core.errors import DataError
from reground.core.programs import Limits, Program, Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import data_path, demonstrations, fields, numbered_records, read_values, worked
from reground.evaluation.metrics.numbers import as_number, read_quantities, read_quantity, same_number, within
from reground.evaluation.task import NO_ANSWER, NO_SANDBOX, Example, Loaded, Score, Task, answer_of

LIMITS = Limits(seconds=10.0, memory_mib=512)
WRITTEN_DEMONSTRATIONS = tuple(
    Demonstration(question=each["question"], reasoning=each["reasoning"], answer=each["answer"])
    for each in worked("word_problem")
)
PROGRAM_DEMONSTRATIONS = tuple(
    Demonstration(question=each["question"], answer=f"def solution():\n{each['program']}")
    for each in worked("word_problem")
)


@dataclass(frozen=True)
class WordProblems(Loaded):
    """Word problems with one number as the answer, by a function solution() (PAL) or on an "Answer:" line (NUMBER)."""

    form: AnswerForm = PAL

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Accuracy: whether the number is less than 1e-3 from the target."""
        answer, target = answer_of(trajectory), as_number(example.golden_answers[0])
        assert target is not None  # checked when the task was loaded
        if self.form is not PAL:
            right = same_number(extract_phrase(answer), target) or within(self.form.extract(answer), target)
            return {"accuracy": Score(value=float(right), why=f"expected {target:g}")}
        if sandbox is None:
            return {"accuracy": NO_SANDBOX}
        program = Program(source=self.form.extract(answer), returns="solution()", limits=LIMITS)
        execution = await sandbox.execute(program)
        if not execution.passed:
            return {"accuracy": Score(value=0.0, why=f"{execution.verdict}: {execution.detail}")}
        why = f"expected {target:g}, got {execution.value!r}"[:500]
        return {"accuracy": Score(value=float(within(execution.value, target)), why=why)}


def _load_problems(root: Path, name: str) -> Task:
    """GSM8K's problems, or GSM-Hard's, which have no ids. Those of a name with `_cot` are answered in writing."""
    hard = name.startswith("gsm_hard")
    file = "train.jsonl" if name.endswith("_train") else "test.jsonl"
    path = data_path(root, "gsm_hard", "gsmhardv2.jsonl") if hard else data_path(root, "gsm8k", file)
    names = ("input", "target", "code") if hard else ("question", "final", "answer", "id")
    loaded, texts = [], []
    for line, record in numbered_records(path, names):
        question, gold, solution = (str(record[each]) for each in names[:3])
        if as_number(gold) is None:
            raise DataError(f"the answer {gold!r} is not a number", path=path, line=line)
        identity = f"gsm-hard-{line - 1:04d}" if hard else str(record["id"])
        loaded.append(Example(id=identity, question=question, golden_answers=(gold,)))
        texts.append(f"{question}\n{solution}")
    form, shots = (NUMBER, WRITTEN_DEMONSTRATIONS) if "_cot" in name else (PAL, PROGRAM_DEMONSTRATIONS)
    return WordProblems(name, "accuracy", tuple(loaded), shots, form=form, secret=tuple(texts))


THEOREM_TOLERANCE = 0.04
"""Relative tolerance of a number."""

_ANSWER_LINE = re.compile(r"(?im)^[ \t\r\xa0\u3000>*_#-]*+(?:final\s++)?+answer\s*+(?:is)?+\s*+[:：][\s*_]*+(\S.*)$")


def extract_typed(text: str) -> str:
    """The last "Answer:" line, unchanged, because square brackets are a list here, not a citation."""
    lines: list[str] = _ANSWER_LINE.findall(text)
    return lines[-1].strip().rstrip("*_`\"'.").lstrip("*_`\"'").strip() if lines else extract_phrase(text)


THEOREM_FORM = AnswerForm(
    "typed",
    "End with one line that starts with 'Answer:' and holds only the answer itself: a number without its unit, "
    "True or False, a list in square brackets, or an option's letter.",
    extract_typed,
)

_ASKED_FOR = {
    "bool": "True or False",
    "integer": "a whole number",
    "float": "a number",
    "list of integer": "a list of whole numbers",
    "list of float": "a list of numbers",
    "option": "the letter of an option",
}


@dataclass(frozen=True)
class TheoremQA(Loaded):
    """TheoremQA, loaded. shots: original questions, one of each frequent type."""

    form: AnswerForm = THEOREM_FORM

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Accuracy by the answer's type."""
        if trajectory.answer is None:
            return {"accuracy": NO_ANSWER}
        phrase = self.form.extract(trajectory.answer.text)
        kind = str(example.metadata["answer_type"])
        right = same_answer(phrase, example.metadata["answer"], kind)
        why = "" if right is not None else f"no {kind} can be read from the answer"
        return {"accuracy": Score(value=float(bool(right)), why=why)}


def same_answer(phrase: str, gold: JsonValue, kind: str) -> bool | None:
    """Whether a phrase states the gold; None if it has no answer of that type."""
    if kind == "bool":
        truth = re.match(r"\A\W*+(true|yes|false|no)\b", phrase, re.IGNORECASE)
        return None if truth is None else (truth[1].lower() in ("true", "yes")) == gold
    if kind == "option":
        letter = _letter(phrase)
        return None if letter is None else letter == _letter(str(gold))
    if isinstance(gold, list):
        values = read_quantities(phrase)
        numbers = sorted(each for each in gold if isinstance(each, int | float))
        return None if values is None else len(values) == len(gold) and all(map(_near, sorted(values), numbers))
    value = read_quantity(phrase)
    return None if value is None else _near(value, gold)


def _near(value: float, gold: JsonValue) -> bool:
    if isinstance(gold, int):
        return round(value) == gold
    return isinstance(gold, float) and abs(value - gold) <= abs(gold) * THEOREM_TOLERANCE + 1e-12


def _letter(phrase: str) -> str | None:
    match = re.search(r"(?:^|\boption)\W*+([a-h])(?![a-z])", phrase, re.IGNORECASE)
    return None if match is None else match[1].lower()


_THEOREM = fields(
    id=str,
    question=str,
    answer=JsonValue,
    answer_type=str,
    has_picture=bool,
    field=(str | None, None),
    theorem=(str | None, None),
)


def load_theoremqa(root: Path, *, pictures: bool = False, only: str | None = None) -> Task:
    """TheoremQA from the data root, and the corpus beside it if there is one.

    pictures: also the questions that cannot be answered without one. only: the field whose questions are taken, such as
    `Math`.
    """
    path = data_path(root, "theoremqa", "test.jsonl")
    loaded = tuple(
        _example(item, path, line)
        for line, item in read_values(path, _THEOREM)
        if only in (None, item.field) and (pictures or not item.has_picture)
    )
    corpus = path.with_name("corpus.jsonl")
    return TheoremQA(
        "theoremqa_pictures" if pictures else f"theoremqa_{only.lower()}" if only else "theoremqa",
        "accuracy",
        loaded,
        demonstrations("theorem"),
        corpus if corpus.is_file() else None,
        secret=tuple(example.question.rpartition("\n")[0] for example in loaded),  # without the answer's type
        hides={example.id: frozenset((example.id,)) for example in loaded},  # in a corpus of solved problems
    )


_TYPES: dict[str, type | tuple[type, ...]] = {"bool": bool, "integer": int, "float": (int, float), "option": str}


def _example(item: Any, path: Path, line: int) -> Example:
    kind, answer = item.answer_type, item.answer
    if kind not in _ASKED_FOR:
        raise DataError(f"unknown answer type {kind!r}", path=path, line=line)
    if not isinstance(answer, _TYPES.get(kind, list)):
        raise DataError(f"the answer {answer!r} is no {kind}", path=path, line=line)
    if kind == "float" and isinstance(answer, int):
        answer = float(str(answer))  # of too many digits it is infinite
    return Example(
        id=item.id,
        question=f"{item.question.strip()}\nThe answer is {_ASKED_FOR[kind]}.",
        golden_answers=(str(answer),),
        metadata={**item.model_dump(exclude={"id", "question"}), "answer": answer},
    )


_WORD_PROBLEMS = ("gsm8k", "gsm8k_cot", "gsm_hard", "gsm_hard_cot", "gsm8k_train", "gsm8k_cot_train")

TASKS: dict[str, Callable[[Path], Task]] = {
    **{name: partial(_load_problems, name=name) for name in _WORD_PROBLEMS},
    "theoremqa": load_theoremqa,
    "theoremqa_math": partial(load_theoremqa, only="Math"),
    "theoremqa_pictures": partial(load_theoremqa, pictures=True),
}
