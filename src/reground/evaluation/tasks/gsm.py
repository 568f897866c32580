"""GSM8K (Cobbe et al. 2021) and GSM-Hard (Gao et al. 2023), by program (PAL) and by a written answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reground.core.answers import NUMBER, PAL, AnswerForm, Demonstration
from reground.core.errors import DataError, MissingExtra
from reground.core.extraction import extract_phrase
from reground.core.programs import Limits, Program, Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import data_path, numbered_records
from reground.evaluation.metrics.numbers import as_number, same_number, within
from reground.evaluation.task import Example, Score, Task

LIMITS = Limits(seconds=10.0, memory_mib=512)


@dataclass(frozen=True)
class GradeSchoolTask:
    """Word problems with one number as the answer. by_program: whether a program gives it, or a sentence."""

    name: str
    items: tuple[Example, ...]
    targets: Mapping[str, float]
    texts: tuple[str, ...]
    by_program: bool
    primary: str = "accuracy"

    @property
    def form(self) -> AnswerForm:
        """A function solution(), or an "Answer:" line."""
        return PAL if self.by_program else NUMBER

    def examples(self) -> Sequence[Example]:
        """The problems in the data's order."""
        return self.items

    def demonstrations(self) -> Sequence[Demonstration]:
        """Original problems."""
        return PROGRAM_DEMONSTRATIONS if self.by_program else WRITTEN_DEMONSTRATIONS

    def solutions(self) -> Sequence[str]:
        """The questions with their worked answers or reference programs."""
        return self.texts

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Accuracy: whether the number is less than 1e-3 from the target."""
        answer, target = (trajectory.answer.text if trajectory.answer else ""), self.targets[example.id]
        if self.by_program:
            return {"accuracy": await _score_program(self.form.extract(answer), target, sandbox)}
        try:
            right = same_number(extract_phrase(answer), target) or within(self.form.extract(answer), target)
        except MissingExtra as error:
            return {"accuracy": Score(value=None, why=str(error))}
        return {"accuracy": Score(value=float(right), why=f"expected {target:g}")}


async def _score_program(source: str, target: float, sandbox: Sandbox | None) -> Score:
    if sandbox is None:
        return Score(value=None, why="programs run in a sandbox only, and there is none")
    execution = await sandbox.execute(Program(source=source, returns="solution()", limits=LIMITS))
    if not execution.passed:
        return Score(value=0.0, why=f"{execution.verdict}: {execution.detail}")
    return Score(
        value=float(within(execution.value, target)), why=f"expected {target:g}, got {execution.value!r}"[:500]
    )


def _gsm8k(name: str, *, by_program: bool, file: str = "test.jsonl") -> Callable[[Path], Task]:
    def load(root: Path) -> Task:
        path = data_path(root, "gsm8k", file)
        rows = [
            (line, str(record["id"]), str(record["question"]), str(record["final"]), str(record["answer"]))
            for line, record in numbered_records(path, ("id", "question", "final", "answer"))
        ]
        return _task(name, path, rows, by_program)

    return load


def _gsm_hard(name: str, *, by_program: bool) -> Callable[[Path], Task]:
    def load(root: Path) -> Task:
        path = data_path(root, "gsm_hard", "gsmhardv2.jsonl")
        rows = [
            (line, f"gsm-hard-{line - 1:04d}", str(record["input"]), str(record["target"]), str(record["code"]))
            for line, record in numbered_records(path, ("input", "code", "target"))
        ]
        return _task(name, path, rows, by_program)

    return load


def _task(name: str, path: Path, rows: Sequence[tuple[int, str, str, str, str]], by_program: bool) -> Task:
    items, targets = [], {}
    for line, identity, question, gold, _ in rows:
        target = as_number(gold)
        if target is None:
            raise DataError(f"the answer {gold!r} is not a number", path=path, line=line)
        items.append(Example(id=identity, question=question, golden_answers=(gold,)))
        targets[identity] = target
    texts = tuple(f"{question}\n{worked}" for _, _, question, _, worked in rows)
    return GradeSchoolTask(name, tuple(items), targets, texts, by_program)


_PROBLEMS = (
    (
        "A baker fills 14 trays with 9 rolls each. He sells 88 rolls in the morning and a third of the rest at noon. "
        "How many full bags of 5 rolls can he pack in the evening?",
        "He bakes 14 * 9 = 126 rolls. After the morning 126 - 88 = 38 are left. A third, 38 / 3, is not whole, "
        "so he sells 12 and keeps 26. That fills 26 // 5 = 5 bags.",
        "5",
        "    baked = 14 * 9  # rolls\n    left = baked - 88  # after the morning\n"
        "    left -= left // 3  # sold at noon\n    return left // 5  # full bags\n",
    ),
    (
        (
            "Mira cycles 12.5 km to work and back on 4 days a week. Her tyres last 2,400 km. After how many full "
            "weeks are they worn?"
        ),
        "A week has 4 * 2 * 12.5 = 100 km. The tyres last 2400 / 100 = 24 weeks.",
        "24",
        "    weekly = 4 * 2 * 12.5  # km\n    return 2400 / weekly  # weeks\n",
    ),
    (
        "A tank holds 360 litres and is two fifths full. A pump adds 18 litres a minute while a leak loses 6. "
        "How many minutes does it take to fill the tank?",
        "It holds 360 * 2 / 5 = 144 litres, so 216 are missing. The level gains 18 - 6 = 12 a minute. 216 / 12 = 18.",
        "18",
        "    missing = 360 - 360 * 2 / 5  # litres\n    gain = 18 - 6  # litres a minute\n    return missing / gain\n",
    ),
    (
        "A coat costs $80. Its price rises by 25% and is then cut by 30%. By how many dollars has it changed?",
        "After the rise it costs 80 * 1.25 = 100 dollars, after the cut 100 * 0.7 = 70. It changed by 70 - 80 = -10.",
        "-10",
        "    raised = 80 * 1.25  # dollars\n    cut = raised * 0.7  # dollars\n    return cut - 80\n",
    ),
)
WRITTEN_DEMONSTRATIONS = tuple(
    Demonstration(question=question, reasoning=reasoning, answer=answer) for question, reasoning, answer, _ in _PROBLEMS
)
PROGRAM_DEMONSTRATIONS = tuple(
    Demonstration(question=question, answer=f"def solution():\n{body}") for question, _, _, body in _PROBLEMS
)

TASKS: dict[str, Callable[[Path], Task]] = {
    "gsm8k": _gsm8k("gsm8k", by_program=True),
    "gsm8k_cot": _gsm8k("gsm8k_cot", by_program=False),
    "gsm8k_cot_train": _gsm8k("gsm8k_cot_train", by_program=False, file="train.jsonl"),
    "gsm8k_train": _gsm8k("gsm8k_train", by_program=True, file="train.jsonl"),
    "gsm_hard": _gsm_hard("gsm_hard", by_program=True),
    "gsm_hard_cot": _gsm_hard("gsm_hard_cot", by_program=False),
}
