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
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import JsonValue

from reground.core.errors import SandboxUnavailable
from reground.core.programs import Execution, Limits, Program, Verdict
from reground.sandbox.harness import HELLO
from reground.sandbox.harness.program import SYNTAX_EXIT
from reground.sandbox.harness.wire import WireError, parse
from reground.sandbox.limits import (
    MemoryGroup,
    Watch,
    descendants,
    make_memory_group,
    make_workspace,
    remove,
    sweep,
)

STARTUP_SECONDS = 1.0
TESTS_MEMORY_MIB = 1024
FEWEST_FILES = 64
_FILES_OF_OUR_OWN = 40
_FILES_OF_AN_EXECUTION = 16
_ULIMIT = {"AS": "-v", "CPU": "-t", "FSIZE": "-f", "NPROC": "-u", "NOFILE": "-n"}
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_KILLED = "was killed by the system, most likely for memory"
_SCARCE = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class Job:
    """The job of one isolated process: its role and its input.

    user: a user id that no real user and no other execution has. Both processes of an execution share it and `shared`.
    """

    role: str
    data: dict[str, JsonValue]
    limits: Limits
    path: Path
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
    """A kind of isolation.

    job_mode: the file mode of a job's file. limits_memory: whether the isolation limits the memory of the whole tree.
    """

    job_mode: int
    limits_memory: bool

    def confine(self, job: Job) -> dict[str, JsonValue]:
        """The data with which the process confines itself further."""
        ...

    def launch(self, job: Job) -> Launch:
        """The command that starts the job, isolated."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The data of a process that has ended.

    status: its exit status, negative for a signal. out, err: its output. most: maximum bytes of each.
    stopped, why: the limit for which it was killed, if any. peak_mib: its peak memory, 0 if unknown.
    """

    status: int
    out: bytes
    err: bytes
    most: int
    stopped: Verdict | None = None
    why: str = ""
    peak_mib: float = 0.0

    @property
    def stdout(self) -> str:
        """Standard output, up to the limit."""
        return self.out[: self.most].decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Standard error, up to the limit."""
        return self.err[: self.most].decode(errors="replace")


@dataclass
class Running:
    """A started process, its output, and why it was stopped."""

    process: asyncio.subprocess.Process
    launch: Launch
    limits: Limits
    stopped: Verdict | None = None
    why: str = ""
    printed: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    watch: Watch | None = None
    group: MemoryGroup | None = None
    _killed: bool = False
    _work: list[asyncio.Task[None]] = field(default_factory=list)

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Run work alongside the process, such as reading its output."""
        self._work.append(asyncio.ensure_future(work))

    async def end(self) -> None:
        """Kill the process and wait until every pipe is empty, so that nothing outlives the execution."""
        self.kill()
        await self.process.wait()
        await asyncio.gather(*self._work, return_exceptions=True)

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

    def ended(self) -> Ended:
        """The data for the verdict, after the process has ended."""
        if self.group is not None and self.group.exceeded():
            # Also where another limit was noticed first: the program may have waited for the process that was killed.
            self.stopped, self.why = Verdict.MEMORY, f"used more than {self.limits.memory_mib} MiB"
        before, _, after = bytes(self.printed["stderr"]).partition(HELLO)
        return Ended(
            status=self.process.returncode or 0,
            out=bytes(self.printed["stdout"]),
            err=after if self.ran() else before,
            most=self.limits.output_bytes,
            stopped=self.stopped,
            why=self.why,
            peak_mib=self.watch.peak_mib if self.watch is not None else 0.0,
        )

    async def collect(self, stream: str, most: int) -> None:
        """Read a stream to its end. Stop the program when its whole output exceeds `most` bytes."""
        reader = getattr(self.process, stream)
        # Output beyond the limit is read and dropped, because a process with a full pipe never ends.
        while part := await reader.read(1 << 16):
            if self.stopped is None:
                self.printed[stream] += part
            if sum(map(len, self.printed.values())) > most + len(HELLO):
                self.stop(Verdict.OUTPUT_LIMIT, f"printed more than {most} bytes")

    async def feed(self, data: bytes) -> None:
        """Write standard input, which the program may leave unread."""
        stdin = self.process.stdin
        if stdin is None:
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(data)
            await stdin.drain()
        stdin.close()

    def ran(self) -> bool:
        """Whether the isolation was set up. Only then the exit status is the program's."""
        return self._killed or self.stopped is not None or HELLO in self.printed["stderr"]


class Engine:
    """Executes programs, at most `concurrency` at once. Creating it removes the folders of dead processes."""

    def __init__(self, launcher: Launcher, *, concurrency: int | None = None) -> None:
        sweep()
        self._launcher = launcher
        self._concurrency = concurrency or os.cpu_count() or 1
        self._places: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def execute(self, program: Program) -> Execution:
        """Run a program and judge it. Raises SandboxUnavailable if the isolation cannot be set up."""
        folder = None
        try:
            async with self._gate():
                began = time.monotonic()
                folder = make_workspace()
                if program.tests is not None:
                    return await self._with_tests(program, folder, began)
                return await self._by_itself(program, folder, began)
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
            self._places = (loop, asyncio.Semaphore(concurrency(self._concurrency)))
        return self._places[1]

    async def _by_itself(self, program: Program, folder: Path, began: float) -> Execution:
        for_value = program.returns is not None
        data: dict[str, JsonValue] = {
            "mode": "value" if for_value else "alone",
            "source": program.source,
            "returns": program.returns,
            "stdin": program.stdin,
        }
        async with self._start(Job("program", data, program.limits, folder / "program.json", _nobody())) as running:
            most = program.limits.output_bytes
            running.begin(running.feed(b"" if for_value else program.stdin.encode(errors="replace")))
            running.begin(running.collect("stdout", most))
            running.begin(running.collect("stderr", most))
            await _until(program.limits.seconds + STARTUP_SECONDS, [running], running.process)
            await running.end()
            ended = _ended(running)
            execution = judge_value(ended) if for_value else judge_alone(ended)
            return settle(execution, program, ended, time.monotonic() - began)

    async def _with_tests(self, program: Program, folder: Path, began: float) -> Execution:
        shared = folder / "shared"
        nonce = secrets.token_hex(16)
        source: dict[str, JsonValue] = {"mode": "tests", "source": program.source, "stdin": program.stdin}
        tests: dict[str, JsonValue] = {"tests": program.tests, "exports": list(program.exports), "nonce": nonce}
        judge_limits = program.limits.model_copy(update={"memory_mib": TESTS_MEMORY_MIB, "processes": 64})
        user = _nobody()
        requests, replies = os.pipe(), os.pipe()
        try:
            async with (
                self._start(
                    Job("program", source, program.limits, folder / "program.json", user, shared),
                    requests[0],
                    replies[1],
                ) as running,
                self._start(
                    Job("tests", tests, judge_limits, folder / "tests.json", user, shared), replies[0], requests[1]
                ) as judge,
            ):
                for end in (*requests, *replies):
                    os.close(end)
                requests = replies = ()  # type: ignore[assignment]
                most = program.limits.output_bytes
                running.begin(running.collect("stderr", most))
                judge.begin(judge.collect("stderr", 1 << 20))
                await _until(program.limits.seconds + STARTUP_SECONDS, [running, judge], judge.process)
                # A program that is about to end by itself gets time to do so, for its exit status.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(running.process.wait(), 0.1)
                await running.end()
                await judge.end()
                ended = _ended(running)
                execution = judge_tests(ended, _ended(judge), nonce)
                return settle(execution, program, ended, time.monotonic() - began)
        finally:
            for end in (*requests, *replies):
                os.close(end)

    @contextlib.asynccontextmanager
    async def _start(
        self, job: Job, stdin: int = asyncio.subprocess.PIPE, stdout: int = asyncio.subprocess.PIPE
    ) -> AsyncIterator[Running]:
        job.path.write_text(json.dumps({"role": job.role, **job.data, **self._launcher.confine(job)}), encoding="utf-8")
        job.path.chmod(self._launcher.job_mode)
        launch = self._launcher.launch(job)
        group = None if self._launcher.limits_memory else make_memory_group(job.limits.memory_mib)
        command = launch.command if group is None else group.enter(launch.command)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=stdin,
                stdout=stdout,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=launch.inherit,
                start_new_session=True,
                env=launch.environment,
            )
        except OSError as error:
            if group is not None:
                await group.remove()
            raise SandboxUnavailable(f"cannot start {launch.command[0]}: {error.strerror}") from error
        finally:
            for inherited in launch.inherit:
                os.close(inherited)
        shared = job.shared if job.role == "program" else None
        watch = Watch(process.pid, job.limits.memory_mib, job.limits.processes, shared)
        running = Running(process, launch, job.limits, watch=watch, group=group)
        watching = asyncio.ensure_future(watch.follow(running.stop))
        try:
            yield running
        finally:
            watching.cancel()
            await asyncio.shield(self._clear(running))

    async def _clear(self, running: Running) -> None:
        """End what is left of the process, and remove what was made for it."""
        await running.end()
        if running.launch.tidy:
            tidying = await asyncio.create_subprocess_exec(*running.launch.tidy, stdout=-3, stderr=-3)
            await tidying.wait()
        if running.group is not None:
            await running.group.remove()


def _nobody() -> int:
    return 0x40000000 + secrets.randbelow(0x30000000)


async def _until(seconds: float, processes: list[Running], last: asyncio.subprocess.Process) -> None:
    """Wait for the last process. When the time is over, stop all."""
    try:
        await asyncio.wait_for(last.wait(), seconds)
    except TimeoutError:
        for running in processes:
            running.stop(Verdict.TIMEOUT, f"ran longer than {running.limits.seconds:g} s")
        await last.wait()


def _ended(running: Running) -> Ended:
    """The data of a process that has ended. Raises SandboxUnavailable if it was never isolated."""
    ended = running.ended()
    if not running.ran():
        lines = ended.stderr.strip().splitlines() or ["no reason given"]
        # Behind its reason docker says where help is.
        why = next((line for line in lines if line.startswith("docker: ")), lines[-1])
        raise SandboxUnavailable(f"the isolation could not be set up: {why}")
    return ended


def require(needed: Mapping[str, int | None]) -> None:
    """Raise SandboxUnavailable if a limit of the host would make a correct program fail."""
    for name, option in _ULIMIT.items():
        most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
        least = needed.get(name)
        if least is not None and most != resource.RLIM_INFINITY and most < least:
            raise SandboxUnavailable(
                f"the host limits a process to {most} where a program may need {least} (RLIMIT_{name}); "
                f"raise it (ulimit {option}) or ask for less"
            )


def concurrency(wanted: int) -> int:
    """The number of executions, limited by the host's limit on open files."""
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _FILES_OF_OUR_OWN
    return max(1, min(wanted, room // _FILES_OF_AN_EXECUTION))


def settle(execution: Execution, program: Program, ended: Ended, seconds: float) -> Execution:
    """Apply the limits and the expected output, and add time and memory."""
    update: dict[str, Any] = {"seconds": round(seconds, 4)}
    if ended.peak_mib:
        update["memory_mib"] = round(ended.peak_mib, 1)
    if ended.stopped is not None:
        update |= {"verdict": ended.stopped, "detail": ended.why, "value": None}
    elif execution.detail == _KILLED and seconds > program.limits.seconds:
        update |= {"verdict": Verdict.TIMEOUT, "detail": "used up its CPU time"}
    elif execution.passed and program.tests is None and program.expected_stdout is not None:
        update |= _compare(execution.stdout, program.expected_stdout)
    return execution.model_copy(update=update)


def _compare(printed: str, expected: str) -> dict[str, Any]:
    printed_lines, expected_lines = _lines(printed), _lines(expected)
    if printed_lines == expected_lines:
        return {}
    pairs = enumerate(zip(printed_lines, expected_lines, strict=False), start=1)
    place = next((i for i, (a, b) in pairs if a != b), min(len(printed_lines), len(expected_lines)) + 1)
    got = repr(printed_lines[place - 1][:200]) if place <= len(printed_lines) else "nothing"
    want = repr(expected_lines[place - 1][:200]) if place <= len(expected_lines) else "nothing more"
    return {"verdict": Verdict.WRONG_ANSWER, "detail": f"line {place}: expected {want}, printed {got}"}


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def judge_alone(ended: Ended) -> Execution:
    """Judge a program that reads and prints, by its exit status."""
    verdict, detail = _exit(ended.status, ended.stderr)
    return Execution(verdict=verdict, stdout=ended.stdout, stderr=ended.stderr, detail=detail)


def _exit(status: int, stderr: str) -> tuple[Verdict, str]:
    last = (stderr.strip().splitlines() or [""])[-1][:2000]
    if status == 0:
        return Verdict.PASSED, ""
    if status == SYNTAX_EXIT and last.startswith((*_SYNTAX, "ValueError", "RecursionError", "MemoryError")):
        return Verdict.SYNTAX, last
    if last.startswith("MemoryError") or "Cannot allocate memory" in last:
        return Verdict.MEMORY, last
    killed = _signal(status)
    if killed == 24:
        return Verdict.TIMEOUT, "used up its CPU time"
    if killed == 9:
        return Verdict.MEMORY, _KILLED
    if killed:
        return Verdict.EXCEPTION, f"ended by signal {killed}"
    return Verdict.EXCEPTION, last or f"ended with status {status}"


def _signal(status: int) -> int:
    if status < 0:
        return -status
    return status - 128 if status > 128 else 0


def judge_value(ended: Ended) -> Execution:
    """Judge a program by the value that it reports itself."""
    printed = ended.stderr
    message = _frame(ended.out)
    if "value" in message:
        return Execution(verdict=Verdict.PASSED, stdout=printed, value=_shallow(message["value"]))
    error = message.get("err")
    if not isinstance(error, dict):
        verdict, detail = _exit(ended.status, printed)
        if verdict is Verdict.PASSED:
            verdict, detail = Verdict.EXCEPTION, "ended before it gave its value"
        return Execution(verdict=verdict, stdout=printed, detail=detail)
    kind, line = str(error.get("type")), error.get("line")
    where = f" (line {line})" if line else ""
    verdict = Verdict.MEMORY if kind == "MemoryError" else Verdict.SYNTAX if kind in _SYNTAX else Verdict.EXCEPTION
    return Execution(verdict=verdict, stdout=printed, detail=f"{kind}: {error.get('text')}"[:2000] + where)


def _frame(data: bytes) -> dict[str, Any]:
    """The message that a program sent; empty if it sent none."""
    try:
        return parse(data[4 : 4 + int.from_bytes(data[:4], "big")])
    except WireError:
        return {}


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


def judge_tests(ended: Ended, judge: Ended, nonce: str) -> Execution:
    """Judge by the tests' report or, without one, by how the program ended."""
    printed = ended.stderr
    report = _report(judge.err, nonce)
    verdict, detail = str(report.get("verdict", "gone")), str(report.get("detail", ""))
    if verdict == "gone":
        return _ended_early(ended, printed, detail)
    return Execution(verdict=Verdict(verdict), stdout=printed, detail=detail)


def _ended_early(ended: Ended, printed: str, detail: str) -> Execution:
    verdict, why = _exit(ended.status, printed)
    if verdict is Verdict.PASSED or (_signal(ended.status) == 9 and ended.stopped is None):
        verdict, why = Verdict.EXCEPTION, "ended before the tests did" + (f": {detail}" if detail else "")
    return Execution(verdict=verdict, stdout=printed, detail=why)


def _report(data: bytes, nonce: str) -> dict[str, Any]:
    for line in reversed(data.splitlines()):
        if line.startswith(nonce.encode()):
            return dict(json.loads(line[len(nonce) :]))
    return {}
