"""Derives the verdict from exit status, report and output."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from reground.core.programs import Execution, Program, Verdict
from reground.sandbox.inside.program import SYNTAX_EXIT

_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_KILLED = "was killed by the system, most likely for memory"


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
    found, wanted = _lines(printed), _lines(expected)
    if found == wanted:
        return {}
    pairs = enumerate(zip(found, wanted, strict=False), start=1)
    place = next((i for i, (a, b) in pairs if a != b), min(len(found), len(wanted)) + 1)
    got = repr(found[place - 1][:200]) if place <= len(found) else "nothing"
    want = repr(wanted[place - 1][:200]) if place <= len(wanted) else "nothing more"
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
        detail = "ended before it gave its value" if verdict is Verdict.PASSED else detail
        return Execution(
            verdict=Verdict.EXCEPTION if verdict is Verdict.PASSED else verdict, stdout=printed, detail=detail
        )
    kind, line = str(error.get("type")), error.get("line")
    where = f" (line {line})" if line else ""
    verdict = Verdict.MEMORY if kind == "MemoryError" else Verdict.SYNTAX if kind in _SYNTAX else Verdict.EXCEPTION
    return Execution(verdict=verdict, stdout=printed, detail=f"{kind}: {error.get('text')}"[:2000] + where)


def _frame(data: bytes) -> dict[str, Any]:
    if len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        return {}
    try:
        message = json.loads(data[4 : 4 + struct.unpack(">I", data[:4])[0]])
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


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
    said, detail = str(report.get("verdict", "gone")), str(report.get("detail", ""))
    if said == "gone":
        return _ended_early(ended, printed, detail)
    return Execution(verdict=Verdict(said), stdout=printed, detail=detail)


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
