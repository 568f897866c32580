"""Generated programs, their executions, and the port that runs them."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, runtime_checkable

from pydantic import Field

from reground.core.language import Json, Number, Text, Value


class Verdict(StrEnum):
    """How an execution ended."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong answer"
    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    SYNTAX = "syntax"
    OUTPUT_LIMIT = "output limit"


class Limits(Value):
    """The limits of one program: wall-clock and CPU seconds, MiB of memory, processes, bytes of output."""

    seconds: float = Field(default=10.0, gt=0)
    memory_mib: int = Field(default=512, ge=16)
    processes: int = Field(default=16, ge=1)
    output_bytes: int = Field(default=256 * 1024, ge=1)


class Program(Value):
    """Untrusted Python with its input and its tests.

    source: the generated program.
    stdin: its standard input.
    expected_stdout: compared line by line, ignoring trailing white space, if given.
    tests: trusted Python that runs separately and sees only the source's `exports`.
    exports: names of the source that the tests use.
    returns: an expression over the source's names, evaluated to plain data, e.g. "solution()".
    """

    source: Text
    stdin: str = ""
    expected_stdout: str | None = None
    tests: str | None = None
    exports: tuple[str, ...] = ()
    returns: str | None = None
    limits: Limits = Limits()


class Execution(Value):
    """The result of a program. The verdict is data, never an exception. value: that of `Program.returns`."""

    verdict: Verdict
    stdout: Text = ""
    stderr: Text = ""
    detail: Text = ""
    value: Json = None
    seconds: Number = 0.0
    memory_mib: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the verdict is `Verdict.PASSED`."""
        return self.verdict is Verdict.PASSED


@runtime_checkable
class Sandbox(Protocol):
    """Runs a program in isolation. Raises `SandboxUnavailable` if there is no isolation here."""

    @property
    def name(self) -> str:
        """The kind of isolation."""

    async def execute(self, program: Program, /) -> Execution:
        """Run the program within its limits."""
