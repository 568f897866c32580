"""Programs, scored by running hidden tests: HumanEval, HumanEval+, MBPP, MBPP+ and USACO.

HumanEval: Chen et al. 2021. MBPP: Austin et al. 2021. The + sets: Liu et al. 2023 (EvalPlus). Competition problems, as
USACO's are, are judged by input and output, each with its own limits on time and memory.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from reground.core.answers import PROGRAM, AnswerForm, Demonstration
from reground.core.code_blocks import extract_program
from reground.core.errors import DataError
from reground.core.language import Value
from reground.core.programs import Limits, Program, Sandbox, Verdict
from reground.core.trajectory import Trajectory
from reground.evaluation.data import Line, data_path, parsed_code, read_values, worked
from reground.evaluation.task import Example, Loaded, Score, Task


def function_question(name: str, shown: str) -> str:
    """A question that shows a signature with its docstring."""
    return f"Write the Python function `{name}` so that it does what its docstring says.\n\n```python\n{shown}\n```"


def tested_question(asked: str, tests: Sequence[str]) -> str:
    """A question that shows a sentence and some tests."""
    shown = "\n".join(tests)
    return f"{asked}\n\nThe program has to satisfy:\n```python\n{shown}\n```"


def _demonstration(solved: Mapping[str, Any], question: str) -> Demonstration:
    program = f"def {solved['signature']}:\n{solved['body']}"
    return Demonstration(question=question, reasoning=solved["reasoning"], answer=program)


def _from_docstring(solved: Mapping[str, Any]) -> Demonstration:
    """A solved problem in HumanEval's layout."""
    signature = solved["signature"]
    shown = f'def {signature}:\n    """{solved["asked"]}"""'
    return _demonstration(solved, function_question(signature.partition("(")[0], shown))


def _from_tests(solved: Mapping[str, Any]) -> Demonstration:
    """A solved problem in MBPP's layout."""
    asked = solved["asked"]
    return _demonstration(
        solved, tested_question(f"Write a function to {asked[0].lower()}{asked[1:]}", solved["tests"])
    )


FROM_DOCSTRING = tuple(map(_from_docstring, worked("program")))
FROM_TESTS = tuple(map(_from_tests, worked("program")))


LIMITS = Limits(seconds=20.0, memory_mib=1024)
# EvalPlus' tests compute some expected results themselves, from large inputs.
PLUS_LIMITS = Limits(seconds=60.0, memory_mib=1024)
# EvalPlus' generated test confuses find_zero's answer with the polynomial's arguments.
_MENDED = {
    "HumanEval/32": ("_poly(*candidate(*inp), inp) <= 0.0001", "abs(_poly(*inp, candidate(*inp))) <= 0.0001"),
}
_FUTURE = re.compile(r"^from __future__ .*$", re.MULTILINE)
_TEST_TASKS = range(11, 511)
# MBPP's train split is 601 to 974, but MBPP+ has problems up to 809.
_TRAIN_TASKS = range(810, 975)


@dataclass(frozen=True)
class Problem:
    """One problem. program: makes a program of an answer. solution, tests: texts that no corpus may contain.

    asked: the names that an answer has to define.
    """

    example: Example
    program: Callable[[str], Program]
    solution: str
    tests: str
    asked: tuple[str, ...]

    def answered(self, trajectory: Trajectory) -> str:
        """The code of an answer that defines what was asked."""
        return extract_program(trajectory.answer.text if trajectory.answer else "", self.asked)


@dataclass(frozen=True)
class CodeTask:
    """A benchmark whose answers are programs. pass@1 of one trajectory is whether its program passes."""

    name: str
    problems: Mapping[str, Problem]
    demos: tuple[Demonstration, ...] = ()
    form: AnswerForm = PROGRAM
    primary: str = "pass@1"

    def examples(self) -> Sequence[Example]:
        """The problems in the data's order."""
        return [problem.example for problem in self.problems.values()]

    def demonstrations(self) -> Sequence[Demonstration]:
        """Original solved problems, not from a benchmark."""
        return self.demos

    def solutions(self) -> Sequence[str]:
        """Reference programs and hidden tests."""
        return [text for problem in self.problems.values() for text in (problem.solution, problem.tests)]

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Run the answer's program against the hidden tests."""
        problem = self.problems[example.id]
        return await score_program(problem.program(problem.answered(trajectory)), sandbox)


async def score_program(program: Program, sandbox: Sandbox | None) -> Mapping[str, Score]:
    """pass@1 of one program, with the verdict as the reason; unscored if it cannot run."""
    if sandbox is None:
        return {"pass@1": Score(value=None, why="programs run in a sandbox only, and there is none")}
    missing = absent_packages(imported(program.tests or ""))
    if missing:
        return {"pass@1": Score(value=None, why=f"the tests need {', '.join(missing)}: install the extra [eval]")}
    execution = await sandbox.execute(program)
    why = str(execution.verdict) + (f": {execution.detail}" if execution.detail else "")
    return {"pass@1": Score(value=float(execution.verdict is Verdict.PASSED), why=why)}


def imported(source: str) -> list[str]:
    """Top-level modules that trusted code imports from outside the standard library."""
    found = re.findall(r"^[ \t]*+(?:import|from)[ \t]++([A-Za-z_]\w*)", source, re.MULTILINE)
    return sorted({name for name in found if name not in sys.stdlib_module_names})


def absent_packages(names: Iterable[str]) -> list[str]:
    """The packages that are not installed."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def humaneval(root: Path) -> Task:
    """HumanEval's 164 problems."""
    return _humaneval("humaneval", data_path(root, "humaneval", "HumanEval.jsonl"))


def humaneval_plus(root: Path) -> Task:
    """HumanEval with EvalPlus' tests. The test of HumanEval/32 is wrong there and corrected here."""
    return _humaneval("humaneval_plus", data_path(root, "humaneval", "HumanEvalPlus-OriginFmt.jsonl.gz"), PLUS_LIMITS)


class _Function(Line):
    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str


def _humaneval(name: str, path: Path, limits: Limits = LIMITS) -> Task:
    problems = [_humaneval_problem(given, limits, path, line) for line, given in read_values(path, _Function)]
    return CodeTask(name, {problem.example.id: problem for problem in problems}, FROM_DOCSTRING)


def _humaneval_problem(given: _Function, limits: Limits, path: Path, line: int) -> Problem:
    prompt, entry = given.prompt, given.entry_point
    if not entry.isidentifier() or f"def {entry}(" not in prompt:
        raise DataError(f"the prompt does not begin the function {entry!r}", path=path, line=line)
    before = prompt[: prompt.index(f"def {entry}(")]
    test = given.test.replace(*_MENDED.get(given.task_id, ("", "")))
    # The tests use the prompt's helpers, even if the program redefines them.
    tests = f"{before}\n{test}\n\ncheck({entry})\n"

    def program(code: str) -> Program:
        source = complete_function(prompt, entry, code)
        return Program(source=source, tests=tests, exports=(entry,), limits=limits)

    question = function_question(entry, prompt.strip())
    example = Example(id=given.task_id, question=question, metadata={"entry_point": entry})
    return Problem(example, program, f"{prompt}{given.canonical_solution}", test, (entry,))


def complete_function(prompt: str, entry: str, code: str) -> str:
    """The program of a completion, which is a whole program, a function with its signature, or only a body."""
    if re.search(rf"^(?:async\s+)?def\s+{entry}\b|^{entry}\s*=|^class\s+{entry}\b", code, re.MULTILINE):
        before = prompt[: prompt.index(f"def {entry}(")]
        future = re.findall(_FUTURE, code)
        return "\n".join([*future, before, re.sub(_FUTURE, "", code), ""])
    first = next((line for line in code.splitlines() if line.strip()), "")
    body = code if first[:1].isspace() else textwrap.indent(code, "    ")
    return f"{prompt.rstrip()}\n{body}\n"


class _Sentence(Line):
    task_id: int
    text: str
    code: str
    test_list: tuple[str, ...]
    test_setup_code: str


class _PlusSentence(Line):
    task_id: int
    prompt: str
    code: str
    test_imports: tuple[str, ...]
    test_list: tuple[str, ...]
    test: str


def mbpp(root: Path) -> Task:
    """MBPP's test split, tasks 11 to 510."""
    path = data_path(root, "mbpp", "mbpp.jsonl")
    lines = read_values(path, _Sentence)
    problems = [_mbpp_original(given, path, line) for line, given in lines if given.task_id in _TEST_TASKS]
    return CodeTask("mbpp", {problem.example.id: problem for problem in problems}, FROM_TESTS)


def mbpp_train(root: Path) -> Task:
    """MBPP's train split without MBPP+'s tasks, and without tasks that have the same words as a measured one."""
    path = data_path(root, "mbpp", "mbpp.jsonl")
    lines = list(read_values(path, _Sentence))
    measured = {given.text.strip() for _, given in lines if given.task_id not in _TRAIN_TASKS}
    problems = [
        _mbpp_original(given, path, line)
        for line, given in lines
        if given.task_id in _TRAIN_TASKS and given.text.strip() not in measured
    ]
    return CodeTask("mbpp_train", {problem.example.id: problem for problem in problems}, FROM_TESTS)


def _mbpp_original(given: _Sentence, path: Path, line: int) -> Problem:
    # The setup uses the program's definitions, so it comes after the program, with the tests.
    tests = "\n".join(map(_unix, [given.test_setup_code, *given.test_list]))
    return _mbpp_problem(given, given.text, tests, path, line)


def mbpp_plus(root: Path) -> Task:
    """The 378 problems of MBPP+, with EvalPlus' tests."""
    path = data_path(root, "mbpp", "MbppPlus-OriginFmt.jsonl")
    problems = []
    for line, given in read_values(path, _PlusSentence):
        tests = "\n".join([*map(_unix, given.test_imports), given.test])
        problems.append(_mbpp_problem(given, given.prompt, tests, path, line, PLUS_LIMITS))
    return CodeTask("mbpp_plus", {problem.example.id: problem for problem in problems}, FROM_TESTS)


def _mbpp_problem(
    given: _Sentence | _PlusSentence, text: str, tests: str, path: Path, line: int, limits: Limits = LIMITS
) -> Problem:
    exports = used_definitions(parsed_code(given.code, "code", path, line), parsed_code(tests, "test", path, line))

    def program(code: str) -> Program:
        return Program(source=code, tests=tests, exports=exports, limits=limits)

    question = tested_question(text.strip(), [_unix(test) for test in given.test_list])
    example = Example(id=str(given.task_id), question=question)
    return Problem(example, program, given.code, tests, exports)


def used_definitions(reference: ast.Module, tests: ast.Module) -> tuple[str, ...]:
    """The names that a trusted reference program defines and trusted tests use."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    used = {node.id for node in ast.walk(tests) if isinstance(node, ast.Name)}
    defined = [node.name for node in reference.body if isinstance(node, kinds)]
    return tuple(name for name in dict.fromkeys(defined) if name in used)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


_HOW = "Write a complete Python program that reads standard input and prints the answer to standard output."
CONTEST_FORM = replace(
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
class ContestTask(Loaded):
    """A program passes when every case passes within the problem's limits; `cases passed` is the part that did.

    corpus: textbooks and a bank of problems. A document with a problem's id is not found for this problem (CR-Planner,
    section 3.2: "all other USACO problems except for the one currently being solved").
    """

    problems: Mapping[str, ContestProblem] = field(kw_only=True)
    form: AnswerForm = CONTEST_FORM

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

    A line is `{"id", "question", "time_limit_s", "memory_limit_mib", "cases": [{"input", "output"}]}`, with
    `"solution"` where there is a reference program and `"level"` (bronze, silver, gold, platinum), which results group
    by.

    Raises DataError naming the line that is no problem, or has the id of another one.
    """
    path = data_path(root, "usaco", "problems.jsonl")
    problems: dict[str, ContestProblem] = {}
    for line, problem in read_values(path, ContestProblem):
        if problem.id in problems:
            raise DataError(f"the id {problem.id!r} is that of an earlier problem", path=path, line=line)
        problems[problem.id] = problem
    corpus = path.with_name("corpus.jsonl")
    loaded = tuple(
        Example(
            id=problem.id,
            question=f"{problem.question.strip()}\n\n{_HOW} It has {problem.time_limit_s:g} seconds and "
            f"{problem.memory_limit_mib} MiB for each test.",
            metadata={"level": problem.level} if problem.level else {},
        )
        for problem in problems.values()
    )
    return ContestTask("usaco", "pass@1", loaded, corpus=corpus if corpus.is_file() else None, problems=problems)


TASKS: dict[str, Callable[[Path], Task]] = {
    "humaneval": humaneval,
    "humaneval_plus": humaneval_plus,
    "mbpp": mbpp,
    "mbpp_plus": mbpp_plus,
    "mbpp_train": mbpp_train,
    "usaco": usaco,
}
