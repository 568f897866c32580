"""Reflexion: write a program, test it on self-written tests, reflect on the failures, write it again.

Shinn et al. 2023, for code. Internal tests, written by the model from the problem alone, decide when to stop;
the benchmark's hidden tests are never seen. At most 2 rounds of reflection, as in the comparisons of CR-Planner.
"""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, cast

from reground.core.answers import PROGRAM, Answer, AnswerForm, Thought
from reground.core.code_blocks import code_blocks
from reground.core.concurrency import gather
from reground.core.errors import ParseError
from reground.core.programs import Execution, Limits, Program, Sandbox
from reground.core.run import Run
from reground.methods.shared.prompts import Templates, render
from reground.methods.shared.settings import NotNegative, Positive, Settings, require

_HEAD = "Problem:\n{question}\n\n"


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """What the calls ask, each with {question}.

    write: also {form}, the form of a program. test and cases, for a program that reads its input: {tests}, how many.
    reflect and again: {trials}, every program so far with its test result and its reflection; again also {form}.
    """

    write: str = _HEAD + "{form}"
    test: str = _HEAD + (
        "Write {tests} tests for a correct solution: one assert statement a line, each calling "
        "the function with small inputs whose results the problem makes certain. Give only these lines "
        "in a ```python block."
    )
    cases: str = _HEAD + (
        "Give up to {tests} examples of an input and the output of a correct solution: first those that the problem "
        "shows, then small ones whose output the problem makes certain. Give each as a ```input block and, "
        "right behind it, an ```output block."
    )
    reflect: str = _HEAD + (
        "{trials}\n\n"
        "Say in a few sentences what is wrong with the last program and what to do about it. Do not write the program."
    )
    again: str = _HEAD + "{trials}\n\nWrite the whole program again, correctly. {form}"


@dataclass(frozen=True, kw_only=True)
class Reflexion(Settings):
    """An actor, an evaluator (the sandbox with the model's own tests) and a memory of reflections.

    model, sandbox: the model that writes, and the place where programs run.
    form: program or pal; for pal the program is run and must return a number.
    prompts: the templates. rounds: maximum number of reflections. tests: number of internal tests to ask for.
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of a program.
    reflection_tokens: maximum tokens of a reflection or the tests. seconds: time limit of a trial.
    """

    sandbox: Sandbox
    form: AnswerForm = PROGRAM
    prompts: Prompts = Prompts()
    rounds: NotNegative = 2
    tests: Positive = 4
    reflection_tokens: int = 256
    seconds: float = 5.0

    usual: ClassVar[Mapping[str, str]] = {"tests": "```python\nassert f(1, 2) == 3\nassert f(0, 0) == 0\n```"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.form.draft_is_query, f"reflexion writes programs: use the form program or pal, not {self.form.name}"
        )

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        write, test = run.span("write"), run.span("tests")
        both = await gather(self._write(question, write), self._tests(question, test))  # neither needs the other
        text, tests = cast("tuple[str, _Tests]", tuple(both))
        answer = Answer(text=text)
        trials: list[str] = []
        reflections: list[Thought] = []
        if self.form.reads_input and not tests.cases:
            return answer  # without an input there is nothing to try it on
        for number in range(self.rounds + 1):
            with run.span("trial", trial=number) as trial:
                program = self.form.extract(text)
                execution = await self._tried(self._trials(program, tests), trial)
                if self._succeeded(execution) or number == self.rounds:
                    break
                trials.append(
                    f"Program {number + 1}:\n```python\n{program}\n```\n\n"
                    f"What happened when it was tested:\n{feedback(execution)}"
                )
                reflection = await self._reflect(question, trials, trial)
                trials.append(f"What was learnt:\n{reflection or '(nothing)'}")
                reflections.append(Thought(text=reflection, draft=program))
                text = await self._again(question, trials, trial)
                best = text
                if self._is_whole(answer.text) and not self._is_whole(text):
                    trial.note("program kept", why="the new reply is no whole program", written=text)
                    best = answer.text
                answer = run.propose(Answer(text=best, steps=tuple(reflections)))
        return answer

    def _is_whole(self, text: str) -> bool:
        """Whether a reply holds a program that parses: not one that is empty, refused or cut in its middle."""
        program = self.form.extract(text)
        if not program.strip():
            return False
        try:
            with warnings.catch_warnings(action="ignore"):  # such as Python's of "\\d" in a string
                ast.parse(program)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        return True

    async def _tried(self, programs: Sequence[Program], run: Run) -> Execution:
        """The first execution that fails, else the last one."""
        for program in programs:
            execution = await run.execute(self.sandbox, program)
            if not self._succeeded(execution):
                break
        return execution

    async def _write(self, question: str, run: Run) -> str:
        prompt = render(self.prompts.write, question=question, form=self.form.instruction)
        text = await run.ask(self.model, prompt, name="write", sampling=self.sampling())
        run.propose(Answer(text=text))
        return text

    async def _tests(self, question: str, run: Run) -> _Tests:
        """Internal tests; none for PAL, for which the run is the test, or if the model wrote none."""
        if self.form.name == "pal":
            return _Tests()
        cases = self.form.reads_input
        template = self.prompts.cases if cases else self.prompts.test
        prompt = render(template, question=question, tests=str(self.tests))
        read, sampling = self._read_cases if cases else self._read_asserts, self.sampling(self.reflection_tokens)
        with run.optional():
            try:
                return await run.parse(self.model, prompt, read, name="tests", sampling=sampling)
            except ParseError as error:
                run.note("no internal tests", why=str(error))
        return _Tests()

    def _read_asserts(self, text: str) -> _Tests:
        if not (lines := asserts(text)):
            raise ParseError("There is no line with an assert statement.")
        return _Tests(asserts="\n".join(lines[: self.tests]))

    def _read_cases(self, text: str) -> _Tests:
        """The inputs and outputs that stand in blocks of these names, one behind the other."""
        pairs = pairwise(code_blocks(text))
        cases = [(f"{stdin}\n", out) for (name, stdin), (other, out) in pairs if (name, other) == ("input", "output")]
        if not cases:
            raise ParseError("There is no ```input block with an ```output block behind it.")
        return _Tests(cases=tuple(cases[: self.tests]))

    def _trials(self, program: str, tests: _Tests) -> Sequence[Program]:
        """What is run to try a program: each case by itself, or all asserts at once."""
        limits = Limits(seconds=self.seconds)
        if self.form.name == "pal":
            return [Program(source=program, returns="solution()", limits=limits)]
        if tests.cases:
            cases = tests.cases
            return [Program(source=program, stdin=stdin, expected_stdout=out, limits=limits) for stdin, out in cases]
        return [Program(source=program, tests=tests.asserts or None, exports=called(tests.asserts), limits=limits)]

    def _succeeded(self, execution: Execution) -> bool:
        number = isinstance(execution.value, int | float)
        return execution.passed and (self.form.name != "pal" or number)

    async def _reflect(self, question: str, trials: Sequence[str], run: Run) -> str:
        prompt = render(self.prompts.reflect, question=question, trials="\n\n".join(trials))
        sampling = self.sampling(self.reflection_tokens)
        return (await run.ask(self.model, prompt, name="reflect", sampling=sampling)).strip()

    async def _again(self, question: str, trials: Sequence[str], run: Run) -> str:
        prompt = render(self.prompts.again, question=question, trials="\n\n".join(trials), form=self.form.instruction)
        return await run.ask(self.model, prompt, name="again", sampling=self.sampling())

    def sizes(self) -> Sequence[Reflexion]:
        """More rounds."""
        return [replace(self, rounds=rounds) for rounds in range(1, 6)]


@dataclass(frozen=True)
class _Tests:
    """Internal tests: assert statements, or inputs with the outputs of a program that reads its input."""

    asserts: str = ""
    cases: tuple[tuple[str, str], ...] = ()


def asserts(source: str) -> list[str]:
    """The assert statements of a source, one per line; lines that are not Python are skipped."""
    found = []
    for line in source.splitlines():
        try:
            statements = ast.parse(line.strip()).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if len(statements) == 1 and isinstance(statements[0], ast.Assert):
            found.append(line.strip())
    return found


def called(tests: str) -> tuple[str, ...]:
    """The names that the tests call and that are not builtins, so the program must define them."""
    names = [
        node.func.id
        for node in ast.walk(ast.parse(tests))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not hasattr(builtins, node.func.id)
    ]
    return tuple(dict.fromkeys(names))


def feedback(execution: Execution) -> str:
    """An execution's outcome as the model reads it: the verdict and the last lines of output."""
    tail = f"{execution.detail.strip()}\n{execution.stderr.strip()}".strip().splitlines()[-8:]
    return "\n".join([f"Verdict: {execution.verdict.value}", *tail])


METHOD = Reflexion
