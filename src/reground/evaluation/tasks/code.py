"""Programs, scored by running hidden tests: HumanEval, HumanEval+, MBPP, MBPP+, ClassEval and USACO.

HumanEval: Chen et al. 2021. MBPP: Austin et al. 2021. The + sets: Liu et al. 2023 (EvalPlus). ClassEval: 100 classes to
write, whole or method by method (Du et al. 2023). Competition problems, as USACO's are, are judged by input and output,
each with its own limits on time and memory.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from reground.evaluation.data import Texts, data_path, fields, parsed_code, read_values, worked
from reground.evaluation.task import NO_SANDBOX, Example, Loaded, Score, Task, answer_of

RIGHT = "pass@1"
LIMITS = Limits(seconds=20.0, memory_mib=1024)
# EvalPlus' tests compute some expected results themselves, from large inputs.
PLUS_LIMITS = Limits(seconds=60.0, memory_mib=1024)


def function_question(name: str, code: str) -> str:
    """A question that shows a signature with its docstring."""
    return f"Write the Python function `{name}` so that it does what its docstring says.\n\n```python\n{code}\n```"


def tested_question(task: str, tests: Sequence[str]) -> str:
    """A question that shows a sentence and some tests."""
    code = "\n".join(tests)
    return f"{task}\n\nThe program has to satisfy:\n```python\n{code}\n```"


def _from_docstring(solved: Mapping[str, Any]) -> str:
    signature = solved["signature"]
    code = f'def {signature}:\n    """{solved["asked"]}"""'
    return function_question(signature.partition("(")[0], code)


def _from_tests(solved: Mapping[str, Any]) -> str:
    task = solved["asked"]
    return tested_question(f"Write a function to {task[0].lower()}{task[1:]}", solved["tests"])


def _demonstrations(question: Callable[[Mapping[str, Any]], str]) -> tuple[Demonstration, ...]:
    """Our own solved problems, asked as a benchmark asks."""
    return tuple(
        Demonstration(
            question=question(each), reasoning=each["reasoning"], answer=f"def {each['signature']}:\n{each['body']}"
        )
        for each in worked("program")
    )


FROM_DOCSTRING, FROM_TESTS = _demonstrations(_from_docstring), _demonstrations(_from_tests)


@dataclass(frozen=True)
class Problem:
    """One problem.

    source: makes the code that is run of an answer's code. exports: its names that the tests use. solution: the
    reference. secret: the part of the tests that no corpus may contain; by default all. definitions: the names that an
    answer has to define, by default the exports. imports: what the program imports by itself.
    """

    example: Example
    source: Callable[[str], str]
    tests: str
    exports: tuple[str, ...]
    solution: str
    limits: Limits = LIMITS
    secret: str = ""
    definitions: tuple[str, ...] = ()
    imports: str = ""

    def program(self, code: str) -> Program:
        """The program to run for an answer's code."""
        return Program(source=self.source(code), tests=self.tests, exports=self.exports, limits=self.limits)

    def unscorable(self, sandbox: Sandbox | None) -> str:
        """Why an answer cannot be scored here; empty if it can."""
        identity = self.example.id
        if unfit := UNSCORABLE.get(identity, UNSCORABLE.get(identity.partition("/")[0])):
            return unfit
        if self.imports:
            needed = imported("\n".join([self.solution, self.imports, self.tests]))
            if missing := absent_packages(needed):
                return f"the class needs {', '.join(missing)}, not installed here"
            if needed and not getattr(sandbox, "packages", True):
                return f"the class needs {', '.join(needed)}: let the sandbox see installed packages"
        elif sandbox is not None and (missing := absent_packages(imported(self.tests))):
            return f"the tests need {', '.join(missing)}: install the extra [eval]"
        return NO_SANDBOX.why if sandbox is None else ""


@dataclass(frozen=True)
class CodeTask(Loaded):
    """A benchmark whose answers are programs. pass@1 of one trajectory is whether its program passes."""

    problems: Mapping[str, Problem] = field(kw_only=True)
    form: AnswerForm = PROGRAM

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Run the answer's program against the hidden tests; the verdict is the reason. Unscored if it cannot run."""
        problem = self.problems[example.id]
        unscorable = problem.unscorable(sandbox)
        if unscorable or sandbox is None:
            return {RIGHT: Score(value=None, why=unscorable)}
        code = extract_program(answer_of(trajectory), problem.definitions or problem.exports)
        execution = await sandbox.execute(problem.program(code))
        why = str(execution.verdict) + (f": {execution.detail}" if execution.detail else "")
        return {RIGHT: Score(value=float(execution.verdict is Verdict.PASSED), why=why)}


def _task(
    name: str, problems: Iterable[Problem], shots: tuple[Demonstration, ...] = (), form: AnswerForm = PROGRAM
) -> Task:
    by_id = {problem.example.id: problem for problem in problems}
    secret = tuple(text for each in by_id.values() for text in (each.solution, each.secret or each.tests))
    examples = tuple(problem.example for problem in by_id.values())
    return CodeTask(name, RIGHT, examples, shots, problems=by_id, form=form, secret=secret)


def imported(source: str) -> list[str]:
    """Top-level modules that trusted code imports from outside the standard library."""
    modules = re.findall(r"^[ \t]*+(?:import|from)[ \t]++([A-Za-z_]\w*)", source, re.MULTILINE)
    return sorted({name for name in modules if name not in sys.stdlib_module_names})


def absent_packages(names: Iterable[str]) -> list[str]:
    """The packages that are not installed."""
    return [name for name in names if importlib.util.find_spec(name) is None]


_FUNCTION = fields(task_id=str, prompt=str, entry_point=str, canonical_solution=str, test=str)
# EvalPlus' generated test confuses find_zero's answer with the polynomial's arguments.
_MENDED = {"HumanEval/32": ("_poly(*candidate(*inp), inp) <= 0.0001", "abs(_poly(*inp, candidate(*inp))) <= 0.0001")}
_FUTURE = re.compile(r"^from __future__ .*$", re.MULTILINE)


def humaneval(root: Path, name: str, file: str, limits: Limits = LIMITS) -> Task:
    """HumanEval's 164 problems, with its own tests or with EvalPlus'."""
    path = data_path(root, "humaneval", file)
    problems = []
    for line, record in read_values(path, _FUNCTION):
        prompt, entry = record.prompt, record.entry_point
        if not entry.isidentifier() or f"def {entry}(" not in prompt:
            raise DataError(f"the prompt does not begin the function {entry!r}", path=path, line=line)
        test = record.test.replace(*_MENDED.get(record.task_id, ("", "")))
        problem = Problem(
            Example(
                id=record.task_id, question=function_question(entry, prompt.strip()), metadata={"entry_point": entry}
            ),
            partial(complete_function, prompt, entry),
            # The tests use the prompt's helpers, even if the program redefines them.
            tests=f"{prompt[: prompt.index(f'def {entry}(')]}\n{test}\n\ncheck({entry})\n",
            exports=(entry,),
            solution=f"{prompt}{record.canonical_solution}",
            limits=limits,
            secret=test,
        )
        problems.append(problem)
    return _task(name, problems, FROM_DOCSTRING)


def complete_function(prompt: str, entry: str, code: str) -> str:
    """The program of a completion, which is a whole program, a function with its signature, or only a body."""
    if re.search(rf"^(?:async\s+)?def\s+{entry}\b|^{entry}\s*=|^class\s+{entry}\b", code, re.MULTILINE):
        before = prompt[: prompt.index(f"def {entry}(")]
        future = re.findall(_FUTURE, code)
        return "\n".join([*future, before, re.sub(_FUTURE, "", code), ""])
    first = next((line for line in code.splitlines() if line.strip()), "")
    body = code if first[:1].isspace() else textwrap.indent(code, "    ")
    return f"{prompt.rstrip()}\n{body}\n"


_SENTENCE = fields(task_id=int, text=str, code=str, test_list=Texts, test_setup_code=str)
_PLUS_SENTENCE = fields(task_id=int, prompt=str, code=str, test_imports=Texts, test_list=Texts, test=str)
_TEST_TASKS = range(11, 511)
# MBPP's train split is 601 to 974, but MBPP+ has problems up to 809.
_TRAIN_TASKS = range(810, 975)


def mbpp(root: Path, name: str) -> Task:
    """MBPP's test split, tasks 11 to 510; or the train split.

    The latter is without MBPP+'s tasks, and without tasks that have the same words as a measured one.
    """
    path = data_path(root, "mbpp", "mbpp.jsonl")
    lines = list(read_values(path, _SENTENCE))
    measured = {record.text.strip() for _, record in lines if record.task_id not in _TRAIN_TASKS}
    train = name == "mbpp_train"
    problems = [
        # The setup uses the program's definitions, so it comes after the program, with the tests.
        _mbpp_problem(record, record.text, [record.test_setup_code, *record.test_list], path, line)
        for line, record in lines
        if record.task_id in (_TRAIN_TASKS if train else _TEST_TASKS)
        and not (train and record.text.strip() in measured)
    ]
    return _task(name, problems, FROM_TESTS)


def mbpp_plus(root: Path) -> Task:
    """The 378 problems of MBPP+, with EvalPlus' tests."""
    path = data_path(root, "mbpp", "MbppPlus-OriginFmt.jsonl")
    problems = (
        _mbpp_problem(record, record.prompt, [*record.test_imports, record.test], path, line, PLUS_LIMITS)
        for line, record in read_values(path, _PLUS_SENTENCE)
    )
    return _task("mbpp_plus", problems, FROM_TESTS)


def _mbpp_problem(
    record: Any, text: str, tests: Sequence[str], path: Path, line: int, limits: Limits = LIMITS
) -> Problem:
    test = "\n".join(each.replace("\r\n", "\n") for each in tests)
    exports = used_definitions(parsed_code(record.code, "code", path, line), parsed_code(test, "test", path, line))
    question = tested_question(text.strip(), [each.replace("\r\n", "\n") for each in record.test_list])
    return Problem(Example(id=str(record.task_id), question=question), str, test, exports, record.code, limits)


def used_definitions(reference: ast.Module, tests: ast.Module) -> tuple[str, ...]:
    """The names that a trusted reference program defines and trusted tests use."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    names = {node.id for node in ast.walk(tests) if isinstance(node, ast.Name)}
    defined = [node.name for node in reference.body if isinstance(node, kinds)]
    return tuple(name for name in dict.fromkeys(defined) if name in names)


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


_METHOD = fields(method_name=str, test_code=(str, ""))
_CLASS = fields(
    task_id=str,
    skeleton=str,
    test=str,
    solution_code=str,
    import_statement=Texts,
    class_name=str,
    methods_info=tuple[_METHOD, ...],  # type: ignore[valid-type]
)


def _outline(record: Any) -> str:
    """A class without its methods' bodies, with each needed import once, as a question shows it."""
    skeleton = record.skeleton.strip()
    lines = {line.strip() for line in skeleton.splitlines()}
    missing = [line for line in record.import_statement if line.strip() not in lines]
    return "\n".join(["```python", *missing, skeleton, "```"])


def classeval(root: Path) -> Task:
    """Whole classes from their skeletons."""
    problems = []
    for record, imports, _, _ in _classes(root):
        name = record.class_name
        question = (
            f"Complete the class `{name}`: write every method so that it does what its docstring says. "
            f"Give the whole class.\n\n{_outline(record)}"
        )
        problem = Problem(
            Example(id=record.task_id, question=question),
            partial("{}\n{}".format, imports),
            tests=f"{imports}\n{record.test}",
            exports=(name,),
            solution=f"{imports}\n{record.solution_code}",
            imports=f"{imports}\n",
        )
        problems.append(problem)
    return _task("classeval", problems)


def classeval_method(root: Path) -> Task:
    """One method at a time, shown in the skeleton. A prompt has only signatures and docstrings of the others."""
    problems = []
    for record, imports, spans, methods in _classes(root):
        name, lines = record.class_name, record.solution_code.splitlines()
        for method, tests in methods.items():
            first, last = spans[method]
            question = (
                f"Write the method `{method}` of the class `{name}` so that it does what its docstring says. "
                f"The other methods exist.\n\n{_outline(record)}"
            )
            problem = Problem(
                Example(id=f"{record.task_id}/{method}", question=question),
                partial(_with_method, name, method, imports, lines[: first - 1], lines[last:]),
                tests=tests,
                exports=(name,),
                solution="\n".join(lines[first - 1 : last]),
                definitions=(method,),
                # A method's solution lacks what the rest of its class imports.
                imports="\n".join([imports, *lines[: first - 1], *lines[last:]]),
            )
            problems.append(problem)
    return _task("classeval_method", problems, form=METHOD_FORM)


def _classes(root: Path) -> Iterator[tuple[Any, str, Mapping[str, tuple[int, int]], Mapping[str, str]]]:
    """Each class, its imports, the first and last line of each method of its reference, and the methods' tests."""
    path = data_path(root, "classeval", "ClassEval_data.jsonl")
    for line, record in read_values(path, _CLASS):
        spans = method_lines(parsed_code(record.solution_code, "solution_code", path, line), record.class_name)
        imports, header = "\n".join(record.import_statement), record.test.split("\nclass ", 1)[0]
        tests = {
            info.method_name: f"{imports}\n{header}\n{info.test_code}"
            for info in record.methods_info
            if info.method_name in spans and info.test_code.strip()
        }
        if not tests:
            why = f"the class {record.class_name!r} of solution_code has no method that methods_info has tests of"
            raise DataError(why, path=path, line=line)
        yield record, imports, spans, tests


def method_lines(reference: ast.Module, name: str) -> dict[str, tuple[int, int]]:
    """The first and last line of every method of a trusted class, including decorators."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {
        node.name: (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno)
        for definition in reference.body
        if isinstance(definition, ast.ClassDef) and definition.name == name
        for node in definition.body
        if isinstance(node, kinds)
    }


def _with_method(name: str, method: str, imports: str, above: Sequence[str], below: Sequence[str], code: str) -> str:
    """The reference class with a method in its place. If the answer is a whole class, it is taken."""
    if not re.search(rf"^class\s+{name}\b", code, re.MULTILINE):
        # Imports that come before the method go before the class.
        parts = re.split(rf"(?m)^(?=[ \t]*(?:@|(?:async\s+)?def\s+{method}\b))", code, maxsplit=1)
        before, body = (parts[0], parts[1]) if len(parts) == 2 else ("", code)
        block = textwrap.indent(textwrap.dedent(body), "    ")
        code = "\n".join([before, *above, block, *below, ""])
    return f"{imports}\n{code}"


CONTEST_FORM = replace(
    PROGRAM,
    instruction="Give the whole program in a single ```python block.",
    extract=partial(extract_program, reads_input=True),
    reads_input=True,
)
"""A program that runs by itself: the general form wants definitions alone and no calls."""
CASES = "cases passed"


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
    """A program passes when every case passes within the problem's limits; `cases passed` is the part that did."""

    problems: Mapping[str, ContestProblem] = field(kw_only=True)
    form: AnswerForm = CONTEST_FORM

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Judge case by case and stop at the first that fails, as a contest does."""
        if sandbox is None:
            return {RIGHT: NO_SANDBOX, CASES: NO_SANDBOX}
        problem = self.problems[example.id]
        source = self.form.extract(answer_of(trajectory))
        limits = Limits(seconds=problem.time_limit_s, memory_mib=problem.memory_limit_mib, output_bytes=4 * 2**20)
        passed, whole, why = 0, len(problem.cases), "passed"
        for case in problem.cases:
            program = Program(source=source, stdin=case.input, expected_stdout=case.output, limits=limits)
            execution = await sandbox.execute(program)
            if not execution.passed:
                why = f"case {passed + 1}: {execution.verdict}: {execution.detail}"
                break
            passed += 1
        return {RIGHT: Score(value=float(passed == whole), why=why), CASES: Score(value=passed / whole, why=why)}


def usaco(root: Path) -> Task:
    """The problems of `usaco/problems.jsonl`, and the corpus of textbooks and problems beside it if there is one.

    A line is `{"id", "question", "time_limit_s", "memory_limit_mib", "cases": [{"input", "output"}]}`, with
    `"solution"` where there is a reference program and `"level"` (bronze, silver, gold, platinum), which results group
    by. A document with a problem's id is not found for this problem (CR-Planner, section 3.2: "all other USACO problems
    except for the one currently being solved").

    Raises DataError naming the line that is no problem, or has the id of another one.
    """
    path = data_path(root, "usaco", "problems.jsonl")
    problems: dict[str, ContestProblem] = {}
    for line, problem in read_values(path, ContestProblem):
        if problem.id in problems:
            raise DataError(f"the id {problem.id!r} is that of an earlier problem", path=path, line=line)
        problems[problem.id] = problem
    loaded = tuple(
        Example(
            id=problem.id,
            question=f"{problem.question.strip()}\n\nWrite a complete Python program that reads standard input and "
            f"prints the answer to standard output. It has {problem.time_limit_s:g} seconds and "
            f"{problem.memory_limit_mib} MiB for each test.",
            metadata={"level": problem.level} if problem.level else {},
        )
        for problem in problems.values()
    )
    corpus = path.with_name("corpus.jsonl")
    return ContestTask(
        "usaco",
        RIGHT,
        loaded,
        corpus=corpus if corpus.is_file() else None,
        secret=tuple(problem.solution for problem in problems.values() if problem.solution),
        hides={identity: frozenset((identity,)) for identity in problems},
        problems=problems,
    )


TASKS: dict[str, Callable[[Path], Task]] = {
    "humaneval": partial(humaneval, name="humaneval", file="HumanEval.jsonl"),
    "humaneval_plus": partial(
        humaneval, name="humaneval_plus", file="HumanEvalPlus-OriginFmt.jsonl.gz", limits=PLUS_LIMITS
    ),
    "mbpp": partial(mbpp, name="mbpp"),
    "mbpp_plus": mbpp_plus,
    "mbpp_train": partial(mbpp, name="mbpp_train"),
    "classeval": classeval,
    "classeval_method": classeval_method,
    "usaco": usaco,
}
