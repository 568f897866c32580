"""Functions from descriptions: HumanEval, HumanEval+, MBPP and MBPP+, scored by running hidden tests.

HumanEval: Chen et al. 2021. MBPP: Austin et al. 2021. The + sets: Liu et al. 2023 (EvalPlus).
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reground.core.answers import PROGRAM, AnswerForm, Demonstration
from reground.core.programs import Limits, Program, Sandbox, Verdict
from reground.core.trajectory import Trajectory
from reground.evaluation.task import Example, Score, Task
from reground.evaluation.tasks._load import Record, data_path, read_records
from reground.evaluation.tasks._programs import FROM_DOCSTRING, FROM_TESTS, function_question, tested_question

LIMITS = Limits(seconds=20.0, memory_mib=1024)
# EvalPlus' tests compute some expected results themselves, from large inputs.
PLUS_LIMITS = Limits(seconds=60.0, memory_mib=1024)
# The test that EvalPlus generated takes find_zero's answer for the arguments of the polynomial and these for the answer.
_MENDED = {
    "HumanEval/32": ("_poly(*candidate(*inp), inp) <= 0.0001", "abs(_poly(*inp, candidate(*inp))) <= 0.0001"),
}
_FUTURE = re.compile(r"^from __future__ .*$", re.MULTILINE)
_TEST_TASKS = range(11, 511)
# MBPP's train split is 601 to 974, but MBPP+ has problems up to 809.
_TRAIN_TASKS = range(810, 975)


@dataclass(frozen=True)
class Problem:
    """One problem: what a method is shown, how its answer becomes a program, and what no corpus may hold."""

    example: Example
    program: Callable[[str], Program]
    solution: str
    tests: str


@dataclass(frozen=True)
class CodeTask:
    """A benchmark whose answers are programs; pass@1 of one trajectory is whether its program passed."""

    name: str
    problems: Mapping[str, Problem]
    demos: tuple[Demonstration, ...] = ()
    form: AnswerForm = PROGRAM
    primary: str = "pass@1"

    def examples(self) -> Sequence[Example]:
        """The problems in the data's order."""
        return [problem.example for problem in self.problems.values()]

    def demonstrations(self) -> Sequence[Demonstration]:
        """Solved problems of our own, from no benchmark."""
        return self.demos

    def solutions(self) -> Sequence[str]:
        """Reference programs and hidden tests."""
        return [text for problem in self.problems.values() for text in (problem.solution, problem.tests)]

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Run the answer's program against the hidden tests."""
        answer = trajectory.answer.text if trajectory.answer else ""
        return await score_program(self.problems[example.id].program(self.form.extract(answer)), sandbox)


async def score_program(program: Program, sandbox: Sandbox | None) -> Mapping[str, Score]:
    """pass@1 of one program, with the verdict as the reason; unscored where it cannot be run."""
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
    """Those that are not installed here."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def humaneval(root: Path) -> Task:
    """HumanEval's 164 problems."""
    return _humaneval("humaneval", data_path(root, "humaneval", "HumanEval.jsonl"))


def humaneval_plus(root: Path) -> Task:
    """HumanEval with EvalPlus' tests; HumanEval/32's is mended, because it is wrong upstream."""
    return _humaneval("humaneval_plus", data_path(root, "humaneval", "HumanEvalPlus-OriginFmt.jsonl.gz"), PLUS_LIMITS)


def _humaneval(name: str, path: Path, limits: Limits = LIMITS) -> Task:
    fields = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
    problems = [_humaneval_problem(record, limits) for record in read_records(path, required=fields)]
    return CodeTask(name, {problem.example.id: problem for problem in problems}, FROM_DOCSTRING)


def _humaneval_problem(record: Record, limits: Limits) -> Problem:
    prompt, entry = str(record["prompt"]), str(record["entry_point"])
    before = prompt[: prompt.index(f"def {entry}(")]
    test = str(record["test"]).replace(*_MENDED.get(str(record["task_id"]), ("", "")))
    # Helpers that the prompt gives run on the tests' side as the prompt has them, not as the program may redefine them.
    tests = f"{before}\n{test}\n\ncheck({entry})\n"

    def program(code: str) -> Program:
        source = complete_function(prompt, entry, code)
        return Program(source=source, tests=tests, exports=(entry,), limits=limits)

    question = function_question(entry, prompt.strip())
    example = Example(id=str(record["task_id"]), question=question, metadata={"entry_point": entry})
    return Problem(example, program, f"{prompt}{record['canonical_solution']}", test)


def complete_function(prompt: str, entry: str, code: str) -> str:
    """The program of a completion that is a whole program, a function that repeats the signature, or a body alone."""
    if re.search(rf"^(?:async\s+)?def\s+{entry}\b|^{entry}\s*=|^class\s+{entry}\b", code, re.MULTILINE):
        before = prompt[: prompt.index(f"def {entry}(")]
        future = re.findall(_FUTURE, code)
        return "\n".join([*future, before, re.sub(_FUTURE, "", code), ""])
    first = next((line for line in code.splitlines() if line.strip()), "")
    body = code if first[:1].isspace() else textwrap.indent(code, "    ")
    return f"{prompt.rstrip()}\n{body}\n"


def mbpp(root: Path) -> Task:
    """MBPP's test split, tasks 11 to 510."""
    problems = [_mbpp_original(record) for record in _mbpp_records(root) if record["task_id"] in _TEST_TASKS]
    return CodeTask("mbpp", {problem.example.id: problem for problem in problems}, FROM_TESTS)


def mbpp_train(root: Path) -> Task:
    """MBPP's train split without what MBPP+ has, and without what has the words of a task before it."""
    records = _mbpp_records(root)
    measured = {str(record["text"]).strip() for record in records if record["task_id"] not in _TRAIN_TASKS}
    problems = [
        _mbpp_original(record)
        for record in records
        if record["task_id"] in _TRAIN_TASKS and str(record["text"]).strip() not in measured
    ]
    return CodeTask("mbpp_train", {problem.example.id: problem for problem in problems}, FROM_TESTS)


def _mbpp_records(root: Path) -> list[Record]:
    fields = ("task_id", "text", "code", "test_list", "test_setup_code")
    return list(read_records(data_path(root, "mbpp", "mbpp.jsonl"), required=fields))


def _mbpp_original(record: Record) -> Problem:
    # The setup uses what the program defines: it belongs behind the program, with the tests.
    tests = "\n".join([_text(record["test_setup_code"]), *_texts(record["test_list"])])
    return _mbpp_problem(record, str(record["text"]), tests)


def mbpp_plus(root: Path) -> Task:
    """The 378 problems of MBPP+, with EvalPlus' tests."""
    fields = ("task_id", "prompt", "code", "test_imports", "test_list", "test")
    records = read_records(data_path(root, "mbpp", "MbppPlus-OriginFmt.jsonl"), required=fields)
    problems = [
        _mbpp_problem(
            record,
            str(record["prompt"]),
            "\n".join([*_texts(record["test_imports"]), str(record["test"])]),
            PLUS_LIMITS,
        )
        for record in records
    ]
    return CodeTask("mbpp_plus", {problem.example.id: problem for problem in problems}, FROM_TESTS)


def _mbpp_problem(record: Record, text: str, tests: str, limits: Limits = LIMITS) -> Problem:
    reference = str(record["code"])
    exports = used_definitions(reference, tests)

    def program(code: str) -> Program:
        return Program(source=code, tests=tests, exports=exports, limits=limits)

    question = tested_question(text.strip(), _texts(record["test_list"]))
    example = Example(id=str(record["task_id"]), question=question)
    return Problem(example, program, reference, tests)


def used_definitions(reference: str, tests: str) -> tuple[str, ...]:
    """The names that a trusted reference program defines and trusted tests use."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    with warnings.catch_warnings(action="ignore"):  # about escapes in patterns, which are the data's affair
        used = {node.id for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.Name)}
        defined = [node.name for node in ast.parse(reference).body if isinstance(node, kinds)]
    return tuple(name for name in dict.fromkeys(defined) if name in used)


def _text(value: object) -> str:
    return str(value or "").replace("\r\n", "\n")


def _texts(value: object) -> list[str]:
    return [_text(item) for item in value] if isinstance(value, list) else []


TASKS: dict[str, Callable[[Path], Task]] = {
    "humaneval": humaneval,
    "humaneval_plus": humaneval_plus,
    "mbpp": mbpp,
    "mbpp_plus": mbpp_plus,
    "mbpp_train": mbpp_train,
}
