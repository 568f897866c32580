"""ClassEval (Du et al. 2023): 100 classes to write, whole or method by method, scored by their unit tests.

A whole class is scored twice: by all its tests, and by the tests of each method.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from reground.core.answers import PROGRAM
from reground.core.errors import DataError
from reground.core.programs import Program, Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import Line, data_path, parsed_code, read_values
from reground.evaluation.task import Example, Score, Task
from reground.evaluation.tasks.code import (
    LIMITS,
    CodeTask,
    Problem,
    absent_packages,
    imported,
    score_program,
)

# Their tests depend on the place or time, or need a library's object in both processes.
UNSCORABLE = {
    "ClassEval_17": "its tests expect the date to be before 2024",
    "ClassEval_25/load_cookies": "its tests read a file that the tests of another method write",
    "ClassEval_45": "its tests hand the program's image to a library, and only plain data leaves the program",
    "ClassEval_48": "its tests expect the host name of their author's machine",
    "ClassEval_51": "its reference uses numpy.mat, which numpy 2 no longer has",
    "ClassEval_58": "its reference lays mines at random, two on one square now and then, which its tests do not expect",
    "ClassEval_98": "its tests hand a library's object to the program, and only plain data enters it",
}


METHOD_FORM = replace(
    PROGRAM, instruction="Give the method alone, from its decorators and signature on, in a single ```python block."
)
METHODS = "methods passed"


@dataclass(frozen=True)
class ClassTask(CodeTask):
    """Some classes need packages. If one is missing, the example is unscored, not wrong.

    methods: for whole classes, the tests of each method, by example and name. `methods passed` is the share of methods
    whose tests pass, the paper's method-level correctness.
    """

    methods: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """pass@1, and for whole classes the share of the methods."""
        return (self.primary, METHODS) if self.methods else (self.primary,)

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Run the answer's class against the hidden unit tests."""
        problem = self.problems[example.id]
        why = _unscorable(problem, sandbox)
        if why:
            return dict.fromkeys(self.metrics, Score(value=None, why=why))
        code = problem.answered(trajectory)
        whole = await score_program(problem.program(code), sandbox)
        if not self.methods:
            return whole
        if whole[self.primary].value != 0.0:
            return {**whole, METHODS: Score(value=whole[self.primary].value)}
        return {**whole, METHODS: await self.methods_passed(problem, code, sandbox)}

    async def methods_passed(self, problem: Problem, code: str, sandbox: Sandbox | None) -> Score:
        """The share of the class's methods whose tests pass; `why` names the others."""
        program, tests = problem.program(code), self.methods[problem.example.id]
        failed = []
        for method, own in tests.items():
            score = (await score_program(program.model_copy(update={"tests": own}), sandbox))[self.primary]
            if score.value is None:
                return score
            failed += [method] if score.value == 0.0 else []
        return Score(value=1 - len(failed) / len(tests), why=f"failed: {', '.join(failed)}" if failed else "")


def _unscorable(problem: Problem, sandbox: Sandbox | None) -> str:
    """Why an answer cannot be scored here; empty if it can."""
    identity = problem.example.id
    if unscorable := UNSCORABLE.get(identity, UNSCORABLE.get(identity.partition("/")[0])):
        return unscorable
    # A method's solution lacks its class's imports; the whole program and the tests have them.
    needed = imported("\n".join([problem.solution, problem.program("").source, problem.tests]))
    missing = absent_packages(needed)
    if missing:
        return f"the class needs {', '.join(missing)}, not installed here"
    if needed and not getattr(sandbox, "packages", True):
        return f"the class needs {', '.join(needed)}: let the sandbox see installed packages"
    return ""


class _MethodInfo(Line):
    method_name: str
    test_code: str = ""


class _Class(Line):
    task_id: str
    skeleton: str
    test: str
    solution_code: str
    import_statement: tuple[str, ...]
    class_name: str
    methods_info: tuple[_MethodInfo, ...]

    @property
    def imports(self) -> str:
        """One per line."""
        return "\n".join(self.import_statement)


_Tested = tuple[_Class, Mapping[str, tuple[int, int]], Mapping[str, str]]
"""A class, the first and last line of each method of its reference, and the methods' tests."""


def classeval(root: Path) -> Task:
    """Whole classes from their skeletons."""
    problems, methods = {}, {}
    for given, _, tests in _classes(root):
        identity = given.task_id
        problems[identity] = _class_problem(given)
        methods[identity] = {name: own for name, own in tests.items() if f"{identity}/{name}" not in UNSCORABLE}
    return ClassTask("classeval", problems, methods=methods)


def classeval_method(root: Path) -> Task:
    """One method at a time, shown in the skeleton. A prompt has only signatures and docstrings of the others."""
    problems = [problem for tested in _classes(root) for problem in _method_problems(*tested)]
    return ClassTask("classeval_method", {problem.example.id: problem for problem in problems}, form=METHOD_FORM)


def _classes(root: Path) -> Iterator[_Tested]:
    path = data_path(root, "classeval", "ClassEval_data.jsonl")
    for line, given in read_values(path, _Class):
        spans = method_lines(parsed_code(given.solution_code, "solution_code", path, line), given.class_name)
        header = given.test.split("\nclass ", 1)[0]
        tests = {
            info.method_name: f"{given.imports}\n{header}\n{info.test_code}"
            for info in given.methods_info
            if info.method_name in spans and info.test_code.strip()
        }
        if not tests:
            why = f"the class {given.class_name!r} of solution_code has no method that methods_info has tests of"
            raise DataError(why, path=path, line=line)
        yield given, spans, tests


def _class_problem(given: _Class) -> Problem:
    name, imports = given.class_name, given.imports
    tests = f"{imports}\n{given.test}"

    def program(code: str) -> Program:
        return Program(source=f"{imports}\n{code}", tests=tests, exports=(name,), limits=LIMITS)

    question = (
        f"Complete the class `{name}`: write every method so that it does what its docstring says. "
        f"Give the whole class.\n\n```python\n{_skeleton(given)}\n```"
    )
    return Problem(
        Example(id=given.task_id, question=question), program, f"{imports}\n{given.solution_code}", tests, (name,)
    )


def _method_problems(
    given: _Class, spans: Mapping[str, tuple[int, int]], methods: Mapping[str, str]
) -> Iterator[Problem]:
    name, imports, reference = given.class_name, given.imports, given.solution_code
    for method, tests in methods.items():
        first, last = spans[method]
        fill = _filler(reference, name, method, (first, last))

        def program(code: str, *, fill: Callable[[str], str] = fill, tests: str = tests) -> Program:
            return Program(source=f"{imports}\n{fill(code)}", tests=tests, exports=(name,), limits=LIMITS)

        question = (
            f"Write the method `{method}` of the class `{name}` so that it does what its docstring says. "
            f"The other methods exist.\n\n```python\n{_skeleton(given)}\n```"
        )
        solution = "\n".join(reference.splitlines()[first - 1 : last])
        example = Example(id=f"{given.task_id}/{method}", question=question)
        yield Problem(example, program, solution, tests, (method,))


def _skeleton(given: _Class) -> str:
    """The class without its methods' bodies, with each needed import once."""
    skeleton = given.skeleton.strip()
    lines = {line.strip() for line in skeleton.splitlines()}
    missing = [line for line in given.import_statement if line.strip() not in lines]
    return "\n".join([*missing, skeleton])


def method_lines(reference: ast.Module, name: str) -> dict[str, tuple[int, int]]:
    """The first and last line of every method of a trusted class, including decorators."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {
        node.name: (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno)
        for found in reference.body
        if isinstance(found, ast.ClassDef) and found.name == name
        for node in found.body
        if isinstance(node, kinds)
    }


def _filler(reference: str, name: str, method: str, span: tuple[int, int]) -> Callable[[str], str]:
    lines = reference.splitlines()

    def fill(code: str) -> str:
        """The class with the method in place. If the answer is a whole class, it is returned."""
        if re.search(rf"^class\s+{name}\b", code, re.MULTILINE):
            return code
        # Imports that come before the method go before the class.
        parts = re.split(rf"(?m)^(?=[ \t]*(?:@|(?:async\s+)?def\s+{method}\b))", code, maxsplit=1)
        before, body = (parts[0], parts[1]) if len(parts) == 2 else ("", code)
        placed = textwrap.indent(textwrap.dedent(body), "    ")
        return "\n".join([before, *lines[: span[0] - 1], placed, *lines[span[1] :], ""])

    return fill


TASKS: dict[str, Callable[[Path], Task]] = {"classeval": classeval, "classeval_method": classeval_method}
