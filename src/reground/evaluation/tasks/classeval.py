"""ClassEval: 100 classes to write whole, or method by method (Du et al. 2023), scored by their unit tests."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from reground.core.programs import Program, Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.task import Example, Score, Task
from reground.evaluation.tasks._load import Record, data_path, read_records
from reground.evaluation.tasks.code import (
    LIMITS,
    CodeTask,
    Problem,
    absent_packages,
    imported,
    score_program,
)

# What their tests expect depends on where and when they run, or needs an object of a library in both processes.
UNSCORABLE = {
    "ClassEval_17": "its tests expect the date to be before 2024",
    "ClassEval_45": "its tests hand the program's image to a library, and only plain data leaves the program",
    "ClassEval_48": "its tests expect the host name of their author's machine",
    "ClassEval_51": "its reference uses numpy.mat, which numpy 2 no longer has",
    "ClassEval_58": "its reference lays mines at random, two on one square now and then, which its tests do not expect",
    "ClassEval_98": "its tests hand a library's object to the program, and only plain data enters it",
}
_FIELDS = ("task_id", "skeleton", "test", "solution_code", "import_statement", "class_name", "methods_info")


@dataclass(frozen=True)
class ClassTask(CodeTask):
    """Classes need packages now and then; where they cannot be had, the example is unscored, not wrong."""

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Run the answer's class against the hidden unit tests."""
        problem = self.problems[example.id]
        unscorable = UNSCORABLE.get(example.id.partition("/")[0])
        if unscorable:
            return {self.primary: Score(value=None, why=unscorable)}
        needed = imported(problem.solution)
        missing = absent_packages(needed)
        if missing:
            return {self.primary: Score(value=None, why=f"the class needs {', '.join(missing)}, not installed here")}
        if needed and not getattr(sandbox, "packages", True):
            why = f"the class needs {', '.join(needed)}: let the sandbox see installed packages"
            return {self.primary: Score(value=None, why=why)}
        answer = trajectory.answer.text if trajectory.answer else ""
        return await score_program(problem.program(self.form.extract(answer)), sandbox)


def classeval(root: Path) -> Task:
    """Whole classes from their skeletons."""
    problems = [_class_problem(record) for record in _records(root)]
    return ClassTask("classeval", {problem.example.id: problem for problem in problems})


def classeval_method(root: Path) -> Task:
    """One method at a time, the others given; 410 problems less those without tests of their own."""
    problems = [problem for record in _records(root) for problem in _method_problems(record)]
    return ClassTask("classeval_method", {problem.example.id: problem for problem in problems})


def _records(root: Path) -> Iterator[Record]:
    return read_records(data_path(root, "classeval", "ClassEval_data.jsonl"), required=_FIELDS)


def _imports(record: Record) -> str:
    return "\n".join(str(line) for line in cast("list[str]", record["import_statement"]))


def _class_problem(record: Record) -> Problem:
    name, imports, reference = str(record["class_name"]), _imports(record), str(record["solution_code"])
    tests = f"{imports}\n{record['test']}"

    def program(code: str) -> Program:
        return Program(source=f"{imports}\n{code}", tests=tests, exports=(name,), limits=LIMITS)

    question = (
        f"Complete the class `{name}`: write every method so that it does what its docstring says. "
        f"Give the whole class.\n\n```python\n{str(record['skeleton']).strip()}\n```"
    )
    return Problem(Example(id=str(record["task_id"]), question=question), program, f"{imports}\n{reference}", tests)


def _method_problems(record: Record) -> Iterator[Problem]:
    name, imports, reference = str(record["class_name"]), _imports(record), str(record["solution_code"])
    header = str(record["test"]).split("\nclass ", 1)[0]
    spans = method_lines(reference, name)
    for info in cast("list[dict[str, str]]", record["methods_info"]):
        method = info["method_name"]
        if method not in spans or not info.get("test_code", "").strip():
            continue
        tests = f"{imports}\n{header}\n{info['test_code']}"
        fill = _filler(reference, name, method, spans[method])

        def program(code: str, *, fill: Callable[[str], str] = fill, tests: str = tests) -> Program:
            return Program(source=f"{imports}\n{fill(code)}", tests=tests, exports=(name,), limits=LIMITS)

        description = textwrap.indent(textwrap.dedent(f"    {info['method_description'].lstrip()}"), "    ")
        shown = fill(f"{description}\n        ...")
        question = (
            f"Write the method `{method}` of the class `{name}` so that it does what its docstring says. "
            f"Give that method alone.\n\n```python\n{imports}\n{shown.strip()}\n```"
        )
        first, last = spans[method]
        solution = "\n".join(reference.splitlines()[first - 1 : last])
        yield Problem(Example(id=f"{record['task_id']}/{method}", question=question), program, solution, tests)


def method_lines(reference: str, name: str) -> dict[str, tuple[int, int]]:
    """The first and last line of every method of a trusted class, decorators included."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {
        node.name: (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno)
        for found in ast.parse(reference).body
        if isinstance(found, ast.ClassDef) and found.name == name
        for node in found.body
        if isinstance(node, kinds)
    }


def _filler(reference: str, name: str, method: str, span: tuple[int, int]) -> Callable[[str], str]:
    lines = reference.splitlines()

    def fill(code: str) -> str:
        """The class with the method in place; an answer that is the whole class is taken as it is."""
        if re.search(rf"^class\s+{name}\b", code, re.MULTILINE):
            return code
        # Imports that come before the method go before the class.
        parts = re.split(rf"(?m)^(?=[ \t]*(?:@|(?:async\s+)?def\s+{method}\b))", code, maxsplit=1)
        before, body = (parts[0], parts[1]) if len(parts) == 2 else ("", code)
        placed = textwrap.indent(textwrap.dedent(body), "    ")
        return "\n".join([before, *lines[: span[0] - 1], placed, *lines[span[1] :], ""])

    return fill


TASKS: dict[str, Callable[[Path], Task]] = {"classeval": classeval, "classeval_method": classeval_method}
