"""Reflexion: write a program, test it on self-written tests, reflect on the failures, write it again.

Shinn et al. 2023, for code. Internal tests, written by the model from the problem alone, decide when to stop;
the benchmark's hidden tests are never seen. At most 2 rounds of reflection, as in the comparisons of CR-Planner.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from reground.core.answers import PROGRAM, Answer, AnswerForm, Thought
from reground.core.branches import gather
from reground.core.errors import ParseError
from reground.core.language import LanguageModel, Sampling
from reground.core.programs import Execution, Limits, Program, Sandbox
from reground.core.run import Run
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.prompts import render, require

_HEAD = "Problem:\n{question}\n\n"


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """What the four calls ask, each with {question}.

    write: also {form}, the form of a program. test: {tests}, how many. reflect and again: {trials}, every program so
    far with its test result and its reflection; again also {form}.
    """

    write: str = _HEAD + "{form}"
    test: str = _HEAD + (
        "Write {tests} tests for a correct solution: one assert statement a line, each calling "
        "the function with small inputs whose results the problem makes certain. Give only these lines "
        "in a ```python block."
    )
    reflect: str = _HEAD + (
        "{trials}\n\n"
        "Say in a few sentences what is wrong with the last program and what to do about it. Do not write the program."
    )
    again: str = _HEAD + "{trials}\n\nWrite the whole program again, correctly. {form}"


@dataclass(frozen=True, kw_only=True)
class Reflexion:
    """An actor, an evaluator (the sandbox with the model's own tests) and a memory of reflections.

    model, sandbox: the model that writes, and the place where programs run.
    form: program or pal; for pal the program is run and must return a number.
    prompts: the templates. rounds: maximum number of reflections. tests: number of internal tests to ask for.
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of a program.
    reflection_tokens: maximum tokens of a reflection or the tests. seconds: time limit of a trial.
    """

    model: LanguageModel
    sandbox: Sandbox
    form: AnswerForm = PROGRAM
    prompts: Prompts = Prompts()
    rounds: int = 2
    tests: int = 4
    temperature: float = 0.0
    max_tokens: int = 768
    reflection_tokens: int = 256
    seconds: float = 5.0

    usual: ClassVar[Mapping[str, str]] = {"tests": "```python\nassert f(1, 2) == 3\nassert f(0, 0) == 0\n```"}

    def __post_init__(self) -> None:
        require(
            self.form.draft_is_query, f"reflexion writes programs: use the form program or pal, not {self.form.name}"
        )
        require(self.rounds >= 0 and self.tests >= 1, "rounds must be at least 0 and tests at least 1")
        require(min(self.max_tokens, self.reflection_tokens) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        text, tests = await self._begin(question, run)
        answer = Answer(text=text)
        trials: list[str] = []
        reflections: list[Thought] = []
        for number in range(self.rounds + 1):
            with run.span("trial", trial=number) as trial:
                program = self.form.extract(text)
                execution = await trial.execute(self.sandbox, self._trial(program, tests))
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
                answer = run.propose(Answer(text=text, steps=tuple(reflections)))
        return answer

    async def _begin(self, question: str, run: Run) -> tuple[str, str]:
        """The first program and the tests: neither depends on the other, so both are written at once."""
        write, test = run.span("write"), run.span("tests")
        text, tests = await gather(self._write(question, write), self._tests(question, test))
        return text, tests

    async def _write(self, question: str, run: Run) -> str:
        prompt = render(self.prompts.write, question=question, form=self.form.instruction)
        text = await run.ask(self.model, prompt, name="write", sampling=self._sampling(self.max_tokens))
        run.propose(Answer(text=text))
        return text

    async def _tests(self, question: str, run: Run) -> str:
        """Internal tests; "" for PAL, for which the run is the test, or if the model wrote none."""
        if self.form.name == "pal":
            return ""
        prompt = render(self.prompts.test, question=question, tests=str(self.tests))
        sampling = self._sampling(self.reflection_tokens)
        with run.optional():
            try:
                return await run.parse(self.model, prompt, self._read_tests, name="tests", sampling=sampling)
            except ParseError as error:
                run.note("no internal tests", why=str(error))
        return ""

    def _read_tests(self, text: str) -> str:
        lines = asserts(self.form.extract(text))
        if not lines:
            raise ParseError("There is no line with an assert statement.")
        return "\n".join(lines[: self.tests])

    def _trial(self, program: str, tests: str) -> Program:
        limits = Limits(seconds=self.seconds)
        if self.form.name == "pal":
            return Program(source=program, returns="solution()", limits=limits)
        return Program(source=program, tests=tests or None, exports=called(tests), limits=limits)

    def _succeeded(self, execution: Execution) -> bool:
        number = isinstance(execution.value, int | float)
        return execution.passed and (self.form.name != "pal" or number)

    async def _reflect(self, question: str, trials: Sequence[str], run: Run) -> str:
        prompt = render(self.prompts.reflect, question=question, trials="\n\n".join(trials))
        sampling = self._sampling(self.reflection_tokens)
        return (await run.ask(self.model, prompt, name="reflect", sampling=sampling)).strip()

    async def _again(self, question: str, trials: Sequence[str], run: Run) -> str:
        prompt = render(self.prompts.again, question=question, trials="\n\n".join(trials), form=self.form.instruction)
        return await run.ask(self.model, prompt, name="again", sampling=self._sampling(self.max_tokens))

    def sizes(self) -> Sequence[Reflexion]:
        """More rounds."""
        return [replace(self, rounds=rounds) for rounds in range(1, 6)]

    def _sampling(self, max_tokens: int) -> Sampling:
        return Sampling(temperature=self.temperature, max_tokens=max_tokens)


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
    import builtins

    names = [
        node.func.id
        for node in ast.walk(ast.parse(tests))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not hasattr(builtins, node.func.id)
    ]
    return tuple(dict.fromkeys(names))


def feedback(execution: Execution) -> str:
    """An execution's outcome as the model reads it: the verdict and the last lines of output."""
    said: Sequence[str] = [part.strip() for part in (execution.detail, execution.stderr) if part.strip()]
    tail = "\n".join(said).splitlines()[-8:]
    return "\n".join([f"Verdict: {execution.verdict.value}", *tail])


METHOD = Reflexion
