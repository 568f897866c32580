"""An actor, an evaluator (the sandbox with the model's own tests) and a memory of reflections.

Shinn et al. 2023, for code. Internal tests, written by the model from the problem alone, decide when to stop;
the benchmark's hidden tests are never seen. At most 2 rounds of reflection, as in the comparisons of CR-Planner.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

from reground.core.answers import PROGRAM, Answer, AnswerForm, Thought
from reground.core.code_blocks import code_blocks, parsed
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
    """Reflexion: write a program, test it on self-written tests, reflect on the failures, write it again.

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

    LADDER = tuple({"rounds": rounds} for rounds in range(1, 6))

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.form.draft_is_query, f"reflexion writes programs: use the form program or pal, not {self.form.name}"
        )

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        write, test = run.span("write"), run.span("tests")
        both = await gather(self._write(question, write), self._tests(question, test))  # neither needs the other
        text, tests = cast("tuple[str, Sequence[Program]]", tuple(both))
        answer = Answer(text=text)
        trials: list[str] = []
        reflections: list[Thought] = []
        for number in range(self.rounds + 1 if tests else 0):
            with run.span("trial", trial=number) as trial:
                program = self.form.extract(text)
                for each in tests:  # up to the first that fails
                    execution = await trial.execute(self.sandbox, each.model_copy(update={"source": program}))
                    if not self._succeeded(execution):
                        break
                if self._succeeded(execution) or number == self.rounds:
                    break
                trials.append(
                    f"Program {number + 1}:\n```python\n{program}\n```\n\n"
                    f"What happened when it was tested:\n{feedback(execution)}"
                )
                prompt = render(self.prompts.reflect, question=question, trials="\n\n".join(trials))
                sampling = self.sampling(self.reflection_tokens)
                reflection = (await trial.ask(self.model, prompt, name="reflect", sampling=sampling)).strip()
                trials.append(f"What was learnt:\n{reflection or '(nothing)'}")
                reflections.append(Thought(text=reflection, draft=program))
                text = await self._write(question, trial, trials)
                best = text
                if self._is_whole(answer.text) and not self._is_whole(text):
                    trial.note("program kept", why="the new reply is no whole program", written=text)
                    best = answer.text
                answer = run.propose(Answer(text=best, steps=tuple(reflections)))
        return answer

    def _is_whole(self, text: str) -> bool:
        """Whether a reply holds a program that parses: not one that is empty, refused or cut in its middle."""
        program = self.form.extract(text)
        return bool(program.strip()) and isinstance(parsed(program), ast.Module)

    def _succeeded(self, execution: Execution) -> bool:
        return execution.passed and (self.form.name != "pal" or isinstance(execution.value, int | float))

    async def _write(self, question: str, run: Run, trials: Sequence[str] = ()) -> str:
        """Write the program, or write it again after these trials."""
        name = "again" if trials else "write"
        values = {"question": question, "trials": "\n\n".join(trials), "form": self.form.instruction}
        prompt = render(getattr(self.prompts, name), **values)
        text = await run.ask(self.model, prompt, name=name, sampling=self.sampling())
        if not trials:
            run.propose(Answer(text=text))
        return text

    async def _tests(self, question: str, run: Run) -> list[Program]:
        """The executions that try a program, still without its source. For PAL the run is the test.

        A program that reads an input cannot be tried without one.
        """
        if self.form.name == "pal":
            return [self._trial(returns="solution()")]
        template, read = self.prompts.test, self._read_asserts
        if self.form.reads_input:
            template, read = self.prompts.cases, self._read_cases
        prompt = render(template, question=question, tests=str(self.tests))
        sampling = self.sampling(self.reflection_tokens)
        with run.optional():
            try:
                return await run.parse(self.model, prompt, read, name="tests", sampling=sampling)
            except ParseError as error:
                run.note("no internal tests", why=str(error))
        return [] if self.form.reads_input else [self._trial()]

    def _trial(self, **parts: Any) -> Program:
        return Program(source="", limits=Limits(seconds=self.seconds), **parts)

    def _read_asserts(self, text: str) -> list[Program]:
        """All asserts at once."""
        if not (lines := asserts(text)):
            raise ParseError("There is no line with an assert statement.")
        tests = "\n".join(lines[: self.tests])
        return [self._trial(tests=tests, exports=callees(tests))]

    def _read_cases(self, text: str) -> list[Program]:
        """The inputs and outputs that stand in blocks of these names, one behind the other, each case by itself."""
        pairs = pairwise(code_blocks(text))
        cases = [(f"{stdin}\n", out) for (name, stdin), (other, out) in pairs if (name, other) == ("input", "output")]
        if not cases:
            raise ParseError("There is no ```input block with an ```output block behind it.")
        return [self._trial(stdin=stdin, expected_stdout=out) for stdin, out in cases[: self.tests]]


def asserts(source: str) -> list[str]:
    """The assert statements of a source, one per line; lines that are not Python are skipped."""
    lines = [line.strip() for line in source.splitlines()]
    trees = ((line, parsed(line)) for line in lines)
    return [line for line, tree in trees if list(map(type, getattr(tree, "body", ()))) == [ast.Assert]]


def callees(tests: str) -> tuple[str, ...]:
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
