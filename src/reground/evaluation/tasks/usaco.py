"""Competition problems judged by input and output, as USACO's are, each with its own limits on time and memory.

The data is JSONL of `{"id", "question", "time_limit_s", "memory_limit_mib", "cases": [{"input", "output"}]}`, with
`"solution"` where there is a reference program and `"level"` (bronze, silver, gold, platinum), which results group by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import Field

from reground.core.answers import PROGRAM, AnswerForm, Demonstration
from reground.core.code_blocks import extract_program
from reground.core.errors import DataError
from reground.core.language import Value
from reground.core.programs import Limits, Program, Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import data_path, read_values
from reground.evaluation.task import Example, Score, Task

_HOW = "Write a complete Python program that reads standard input and prints the answer to standard output."
FORM = replace(
    PROGRAM,
    instruction="Give the whole program in a single ```python block.",
    extract=partial(extract_program, reads_input=True),
    reads_input=True,
)
"""A program that runs by itself: the general form wants definitions alone and no calls."""


class Case(Value):
    """One hidden test."""

    input: str
    output: str


class ContestProblem(Value):
    """A problem, its limits (seconds, MiB) and its hidden tests; `level` is the division that it was set for."""

    id: str
    question: str
    level: str = ""
    time_limit_s: float = Field(default=4.0, gt=0)
    memory_limit_mib: int = Field(default=256, ge=16)
    cases: tuple[Case, ...] = Field(min_length=1)
    solution: str = ""


@dataclass(frozen=True)
class ContestTask:
    """A program passes when every case passes within the problem's limits; `cases passed` is the part that did.

    corpus: textbooks and a bank of problems. A document with a problem's id is not found for this problem (CR-Planner,
    section 3.2: "all other USACO problems except for the one currently being solved").
    """

    name: str
    problems: Mapping[str, ContestProblem]
    form: AnswerForm = FORM
    primary: str = "pass@1"
    corpus: Path | None = None

    def examples(self) -> Sequence[Example]:
        """The problems in the data's order."""
        return [
            Example(
                id=problem.id,
                question=f"{problem.question.strip()}\n\n{_HOW} It has {problem.time_limit_s:g} seconds and "
                f"{problem.memory_limit_mib} MiB for each test.",
                metadata={"level": problem.level} if problem.level else {},
            )
            for problem in self.problems.values()
        ]

    def demonstrations(self) -> Sequence[Demonstration]:
        """None: problems come without a prompts' split."""
        return ()

    def hidden(self, example: Example) -> frozenset[str]:
        """The problem's own document in the bank."""
        return frozenset((example.id,))

    def solutions(self) -> Sequence[str]:
        """Reference programs, where the data has them."""
        return [problem.solution for problem in self.problems.values() if problem.solution]

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Judge case by case and stop at the first that fails, as a contest does."""
        if sandbox is None:
            why = "programs run in a sandbox only, and there is none"
            return {name: Score(value=None, why=why) for name in ("pass@1", "cases passed")}
        problem = self.problems[example.id]
        source = self.form.extract(trajectory.answer.text if trajectory.answer else "")
        limits = Limits(seconds=problem.time_limit_s, memory_mib=problem.memory_limit_mib, output_bytes=4 * 2**20)
        passed, why = 0, "passed"
        for case in problem.cases:
            execution = await sandbox.execute(
                Program(source=source, stdin=case.input, expected_stdout=case.output, limits=limits)
            )
            if not execution.passed:
                why = f"case {passed + 1}: {execution.verdict}: {execution.detail}"
                break
            passed += 1
        whole = len(problem.cases)
        return {
            "pass@1": Score(value=float(passed == whole), why=why),
            "cases passed": Score(value=passed / whole, why=why),
        }


def usaco(root: Path) -> Task:
    """The problems of `usaco/problems.jsonl`, and the corpus beside it if there is one.

    Raises DataError naming the line that is no problem, or has the id of another one.
    """
    path = data_path(root, "usaco", "problems.jsonl")
    problems: dict[str, ContestProblem] = {}
    for line, problem in read_values(path, ContestProblem):
        if problem.id in problems:
            raise DataError(f"the id {problem.id!r} is that of an earlier problem", path=path, line=line)
        problems[problem.id] = problem
    corpus = path.with_name("corpus.jsonl")
    return ContestTask("usaco", problems, corpus=corpus if corpus.is_file() else None)


TASKS: dict[str, Callable[[Path], Task]] = {"usaco": usaco}
