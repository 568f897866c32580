"""Runs programs in a launcher's isolation: pipes, limits and the verdict.

A program with tests runs as two isolated processes, joined by two pipes. The tests report on a third pipe, which the
program never has, and sign with a number that it never sees. So the program cannot fake a passed test.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import resource
import secrets
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import JsonValue

from reground.core.concurrency import to_its_end
from reground.core.errors import SandboxUnavailable
from reground.core.programs import Execution, Limits, Program, Verdict
from reground.sandbox.harness import HELLO
from reground.sandbox.harness.program import SYNTAX_EXIT
from reground.sandbox.harness.wire import WireError, parse
from reground.sandbox.limits import MemoryGroup, Watch, descendants, make_memory_group, make_workspace, remove, sweep

STARTUP_SECONDS = 1.0
TESTS_MEMORY_MIB = 1024
_FILES_OF_OUR_OWN = 40
_FILES_OF_AN_EXECUTION = 16
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_KILLED = "was killed by the system, most likely for memory"
_SCARCE = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class Job:
    """The job of one isolated process: its role and its input.

    user: a user id that no real user and no other execution has. folder: the execution's own, for files of the
    launcher. Both processes of an execution share them, and the folder `shared` if there are two.
    """

    role: Literal["program", "tests"]
    data: dict[str, JsonValue]
    limits: Limits
    folder: Path
    user: int
    shared: Path | None = None


@dataclass(frozen=True)
class Launch:
    """How to start a job.

    inherit: file descriptors to pass and close. tidy: what to run afterwards. environment: replaces this process's own.
    """

    command: Sequence[str]
    inherit: tuple[int, ...] = ()
    tidy: Sequence[str] = ()
    environment: Mapping[str, str] | None = None


class Launcher(Protocol):
    """A kind of isolation. limits_memory: whether it limits the memory of the whole tree."""

    name: str
    limits_memory: bool

    def launch(self, job: Job) -> Launch:
        """The command that starts the job, isolated, with the limits that the process sets on itself."""
        ...


@dataclass
class Running:
    """A started process, its output, and the limit for which it was stopped, if any."""

    process: asyncio.subprocess.Process
    limits: Limits
    watch: Watch
    group: MemoryGroup | None = None
    stopped: Verdict | None = None
    why: str = ""
    printed: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    _killed: bool = False
    _work: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status of the process, negative for a signal."""
        return self.process.returncode or 0

    @property
    def signal(self) -> int:
        """The signal that ended the process, or the program in it; 0 for none."""
        return -self.status if self.status < 0 else max(0, self.status - 128)

    @property
    def stdout(self) -> str:
        """Standard output, up to the limit."""
        return self._text(self.printed["stdout"])

    @property
    def stderr(self) -> str:
        """Standard error since the process was isolated, up to the limit."""
        return self._text(self.printed["stderr"].partition(HELLO)[2])

    def _text(self, data: bytearray) -> str:
        return data[: self.limits.output_bytes].decode(errors="replace")

    async def end(self) -> None:
        """Kill the process and wait until every pipe is empty, so that nothing outlives the execution."""
        self.kill()
        await self.process.wait()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def conclude(self) -> None:
        """End the process, for the verdict. Raises SandboxUnavailable if it was never isolated."""
        await self.end()
        if self.group is not None and self.group.exceeded():
            # Also where another limit was noticed first: the program may have waited for the process that was killed.
            self.stopped, self.why = Verdict.MEMORY, f"used more than {self.limits.memory_mib} MiB"
        if self._killed or self.stopped is not None or HELLO in self.printed["stderr"]:
            return
        lines = self._text(self.printed["stderr"]).strip().splitlines() or ["no reason given"]
        # Behind its reason docker says where help is.
        why = next((line for line in lines if line.startswith("docker: ")), lines[-1])
        raise SandboxUnavailable(f"the isolation could not be set up: {why}")

    def stop(self, verdict: Verdict, why: str) -> None:
        """Kill everything in the isolation. The first reason is kept."""
        if self.stopped is None:
            self.stopped, self.why = verdict, why
        self.kill()

    def kill(self) -> None:
        """Kill the isolation's first process and, with it, all others."""
        if self.process.returncode is None:
            self._killed = True
            # While the isolation is being set up, its processes do not yet end with the first one.
            for pid in (*descendants(self.process.pid, most=self.limits.processes), self.process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def begin(self, stdin: bytes | None) -> None:
        """Write standard input, if it is a pipe, and read the output, alongside the process."""
        if stdin is not None:
            self._work.append(asyncio.create_task(self._feed(stdin)))
        for stream in ("stdout", "stderr"):
            if (reader := getattr(self.process, stream)) is not None:
                self._work.append(asyncio.create_task(self._collect(stream, reader)))

    async def _collect(self, stream: str, reader: asyncio.StreamReader) -> None:
        most = self.limits.output_bytes
        # Output beyond the limit is read and dropped, because a process with a full pipe never ends.
        while part := await reader.read(1 << 16):
            if self.stopped is None:
                self.printed[stream] += part
            if sum(map(len, self.printed.values())) > most + len(HELLO):
                self.stop(Verdict.OUTPUT_LIMIT, f"printed more than {most} bytes")

    async def _feed(self, data: bytes) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the program may leave it unread
            stdin.write(data)
            await stdin.drain()
        stdin.close()


class Engine:
    """A `Sandbox` in a launcher's isolation. At most `concurrency` programs run at once; default: one per core.

    packages: whether programs may import installed packages. Creating it removes the folders of dead processes.
    """

    def __init__(self, launcher: Launcher, *, concurrency: int | None = None, packages: bool = False) -> None:
        sweep()
        self.name = launcher.name
        self.packages = packages
        self._launcher = launcher
        self._concurrency = concurrency or os.cpu_count() or 1
        self._places: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def execute(self, program: Program, /) -> Execution:
        """Run a program and judge it. Raises SandboxUnavailable if the isolation cannot be set up."""
        folder = None
        try:
            async with self._gate():
                began = time.monotonic()
                folder = make_workspace()
                run = self._by_itself if program.tests is None else self._with_tests
                running, execution = await run(program, folder)
                return settle(execution, program, running, time.monotonic() - began)
        except OSError as error:
            if error.errno not in _SCARCE:
                raise
            raise SandboxUnavailable(f"the host has no room for a program: {error.strerror}") from error
        finally:
            if folder is not None:
                await asyncio.shield(asyncio.to_thread(remove, folder))

    def _gate(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._places is None or self._places[0] is not loop:
            room = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _FILES_OF_OUR_OWN) // _FILES_OF_AN_EXECUTION
            self._places = (loop, asyncio.Semaphore(max(1, min(self._concurrency, room))))
        return self._places[1]

    async def _by_itself(self, program: Program, folder: Path) -> tuple[Running, Execution]:
        for_value = program.returns is not None
        data: dict[str, JsonValue] = {"mode": "value" if for_value else "alone", "source": program.source}
        data |= {"returns": program.returns, "stdin": program.stdin}
        async with self._start(Job("program", data, program.limits, folder, _nobody())) as running:
            running.begin(b"" if for_value else program.stdin.encode(errors="replace"))
            await _until(program.limits.seconds, [running])
            await running.conclude()
            if for_value:
                return running, judge_value(running)
            verdict, detail = _exit(running)
            return running, Execution(verdict=verdict, stdout=running.stdout, stderr=running.stderr, detail=detail)

    async def _with_tests(self, program: Program, folder: Path) -> tuple[Running, Execution]:
        nonce = secrets.token_hex(16)
        source: dict[str, JsonValue] = {"mode": "tests", "source": program.source, "stdin": program.stdin}
        tests: dict[str, JsonValue] = {"tests": program.tests, "exports": list(program.exports), "nonce": nonce}
        user, shared = _nobody(), folder / "shared"
        update = {"memory_mib": TESTS_MEMORY_MIB, "processes": 64, "output_bytes": 1 << 20}
        judge_limits = program.limits.model_copy(update=update)
        program_job = Job("program", source, program.limits, folder, user, shared)
        tests_job = Job("tests", tests, judge_limits, folder, user, shared)
        requests, replies = os.pipe(), os.pipe()
        ends = [*requests, *replies]
        try:
            async with (
                self._start(program_job, requests[0], replies[1]) as running,
                self._start(tests_job, replies[0], requests[1]) as judge,
            ):
                while ends:
                    os.close(ends.pop())
                running.begin(None)
                judge.begin(None)
                await _until(program.limits.seconds, [running, judge])
                # A program that is about to end by itself gets time to do so, for its exit status.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(running.process.wait(), 0.1)
                # Both, because without an isolated program there is nothing that the tests could judge.
                await running.end()
                await judge.end()
                await running.conclude()
                await judge.conclude()
                return running, judge_tests(running, bytes(judge.printed["stderr"]), nonce)
        finally:
            for end in ends:
                os.close(end)

    @contextlib.asynccontextmanager
    async def _start(
        self, job: Job, stdin: int = asyncio.subprocess.PIPE, stdout: int = asyncio.subprocess.PIPE
    ) -> AsyncIterator[Running]:
        launch = self._launcher.launch(job)
        pipes: Any = {"stdin": stdin, "stdout": stdout, "stderr": asyncio.subprocess.PIPE}
        group = None if self._launcher.limits_memory else make_memory_group(job.limits.memory_mib)
        try:
            start = asyncio.create_subprocess_exec(
                *(launch.command if group is None else group.enter(launch.command)),
                **pipes,
                pass_fds=launch.inherit,
                start_new_session=True,
                env=launch.environment,
            )
            process = await to_its_end(start)  # cancelled before the pipes are connected, it would wait for ever
        except OSError as error:
            if group is not None:
                await group.remove()
            raise SandboxUnavailable(f"cannot start {launch.command[0]}: {error.strerror}") from error
        finally:
            for inherited in launch.inherit:
                os.close(inherited)
        shared = job.shared if job.role == "program" else None
        watch = Watch(process.pid, job.limits.memory_mib, job.limits.processes, shared)
        running = Running(process, job.limits, watch, group)
        watching = asyncio.ensure_future(watch.follow(running.stop))
        try:
            yield running
        finally:
            watching.cancel()
            await asyncio.shield(_clear(running, launch.tidy))


async def _clear(running: Running, tidy: Sequence[str]) -> None:
    """End what is left of the process, and remove what was made for it."""
    await running.end()
    if tidy:
        await (await asyncio.create_subprocess_exec(*tidy, stdout=-3, stderr=-3)).wait()
    if running.group is not None:
        await running.group.remove()


def _nobody() -> int:
    return 0x40000000 + secrets.randbelow(0x30000000)


async def _until(seconds: float, processes: list[Running]) -> None:
    """Wait for the last process. When the time is over, stop all."""
    last = processes[-1].process
    try:
        await asyncio.wait_for(last.wait(), seconds + STARTUP_SECONDS)
    except TimeoutError:
        for running in processes:
            running.stop(Verdict.TIMEOUT, f"ran longer than {running.limits.seconds:g} s")
        await last.wait()


def settle(execution: Execution, program: Program, running: Running, seconds: float) -> Execution:
    """Apply the limits and the expected output, and add time and memory."""
    update: dict[str, Any] = {"seconds": round(seconds, 4)}
    if running.watch.peak_mib:
        update["memory_mib"] = round(running.watch.peak_mib, 1)
    if running.stopped is not None:
        update |= {"verdict": running.stopped, "detail": running.why, "value": None}
    elif execution.detail == _KILLED and seconds > program.limits.seconds:
        update |= {"verdict": Verdict.TIMEOUT, "detail": "used up its CPU time"}
    elif execution.passed and program.tests is None and program.expected_stdout is not None:
        update |= _compare(execution.stdout, program.expected_stdout)
    return execution.model_copy(update=update)


def _compare(printed: str, expected: str) -> dict[str, Any]:
    lines = [[line.rstrip() for line in text.rstrip().split("\n")] for text in (printed, expected)]
    for place, (got, want) in enumerate(zip_longest(*lines), start=1):
        if got != want:
            target = "nothing more" if want is None else repr(want[:200])
            output = "nothing" if got is None else repr(got[:200])
            return {"verdict": Verdict.WRONG_ANSWER, "detail": f"line {place}: expected {target}, printed {output}"}
    return {}


def _exit(running: Running) -> tuple[Verdict, str]:
    status = running.status
    last = (running.stderr.strip().splitlines() or [""])[-1][:2000]
    if status == 0:
        return Verdict.PASSED, ""
    if status == SYNTAX_EXIT and last.startswith((*_SYNTAX, "ValueError", "RecursionError", "MemoryError")):
        return Verdict.SYNTAX, last
    if last.startswith("MemoryError") or "Cannot allocate memory" in last:
        return Verdict.MEMORY, last
    if running.signal == signal.SIGXCPU:
        return Verdict.TIMEOUT, "used up its CPU time"
    if running.signal == signal.SIGKILL:
        return Verdict.MEMORY, _KILLED
    if running.signal:
        return Verdict.EXCEPTION, f"ended by signal {running.signal}"
    return Verdict.EXCEPTION, last or f"ended with status {status}"


def judge_value(running: Running) -> Execution:
    """Judge a program by the value that it reports itself, unless it sent no message."""
    data = bytes(running.printed["stdout"])
    try:
        status, *parts = parse(data[4 : 4 + int.from_bytes(data[:4], "big")])
        if status == "ok":
            (value,) = parts
            return Execution(verdict=Verdict.PASSED, stdout=running.stderr, value=_shallow(value))
        ((kind, _, _, text, _, line),) = parts
        verdicts = {"MemoryError": Verdict.MEMORY, **dict.fromkeys(_SYNTAX, Verdict.SYNTAX)}
        verdict, where = verdicts.get(kind, Verdict.EXCEPTION), f" (line {line})" if line else ""
        return Execution(verdict=verdict, stdout=running.stderr, detail=f"{kind}: {text}"[:2000] + where)
    except (WireError, TypeError, ValueError):
        verdict, detail = _exit(running)
        if verdict is Verdict.PASSED:
            verdict, detail = Verdict.EXCEPTION, "ended before it gave its value"
        return Execution(verdict=verdict, stdout=running.stderr, detail=detail)


def _shallow(value: Any, depth: int = 0) -> JsonValue:
    """The value, cut at the depth of records. Numbers that JSON cannot represent become text."""
    if isinstance(value, float) and value - value != 0:
        return repr(value)
    if isinstance(value, list | dict) and depth >= 50:
        return "..."
    if isinstance(value, list):
        return [_shallow(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {str(key): _shallow(item, depth + 1) for key, item in value.items()}
    return value  # type: ignore[no-any-return]


def judge_tests(running: Running, reported: bytes, nonce: str) -> Execution:
    """Judge by the tests' report or, without one, by how the program ended."""
    lines = (line for line in reversed(reported.splitlines()) if line.startswith(nonce.encode()))
    report = json.loads(next(lines, b"{}").removeprefix(nonce.encode()))
    verdict, detail = report.get("verdict", "gone"), report.get("detail", "")
    if verdict != "gone":
        return Execution(verdict=Verdict(verdict), stdout=running.stderr, detail=detail)
    ending, why = _exit(running)
    if ending is Verdict.PASSED or (running.signal == signal.SIGKILL and running.stopped is None):
        ending, why = Verdict.EXCEPTION, "ended before the tests did" + (f": {detail}" if detail else "")
    return Execution(verdict=ending, stdout=running.stderr, detail=why)
