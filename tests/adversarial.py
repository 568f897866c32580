"""Texts on which a pattern that looks at anything twice gets slow, and a stopwatch that tells linear from worse."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

# Private, for there is no public way to a pattern's parts: `sre_parse` is the same under a deprecated name, and a
# parser of one's own, or of a library, would read patterns otherwise than `re` does. Should it move, these tests
# stop at once.
from re._parser import parse
from types import ModuleType
from typing import Any

import reground
import reground_minecraft

PACKAGES = (reground, reground_minecraft)

EVERY_RUN = (
    *("\n", " ", "\t", "\r", "\u00a0", "[", "]", "(", ")", "{", "<", ">", "*", "_", "#", "-", "`", "~", "|", "\\", "."),
    *("!", ":", ",", "=", '"', "'", "/", "7", "a", "A", "é", "的", "a ", "a\n", "\n ", " \n", "[1", "[1] ", "1, "),
    *("1. ", "answer ", "answer:", "\nanswer", "step 1:", "\nstep", "```", "\n```", "```\n", "'''", "<!--", "</", "&"),
    *("$", "^", "a.", "a_", "**", "* *", "> ", "\n> ", "\n- ", "\n1. ", "x ", "(a", "1-", "\n\t", "a=", "a b,"),
    *("no ", '\\"'),
)  # fmt: skip
THOROUGH = bool(os.environ.get("REGROUND_THOROUGH"))
"""Every run and a million characters; otherwise a part of the runs and a quarter of the length."""

SMALL, LARGE, WHOLE = 4_000, 64_000, 1_000_000 if THOROUGH else 250_000
RUNS = EVERY_RUN if THOROUGH else (*EVERY_RUN[:3], *EVERY_RUN[3::10])
SUSPECT = 0.002
"""Seconds for SMALL characters above which a case is timed at LARGE: a linear pattern mostly stays far below."""
BOUND = 1.5
"""Seconds for LARGE characters, and per that many at WHOLE: quadratic time takes more, linear mostly a tenth, also
under a coverage tool that slows Python down four times."""

_MOST_WAYS = 40

SKIPPED = ("reground.__main__", "reground.sandbox.harness")


def modules() -> list[ModuleType]:
    """Every module of the packages that can be imported without running a program."""
    names = [found.name for each in PACKAGES for found in pkgutil.walk_packages(each.__path__, f"{each.__name__}.")]
    return [importlib.import_module(name) for name in names if not name.startswith(SKIPPED)]


def patterns() -> dict[str, re.Pattern[str]]:
    """Every pattern over text: those of the modules by name, and those written where they are used."""
    found: dict[str, re.Pattern[str]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for part in value if isinstance(value, tuple | list) else [value]:
                if isinstance(part, re.Pattern) and isinstance(part.pattern, str):
                    found.setdefault(f"{module.__name__}:{name}:{part.pattern[:20]}", part)
    for path in (path for each in PACKAGES for path in Path(each.__path__[0]).rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            written = _written(call)
            if written is not None:
                found[f"{path.name}:{call.lineno}"] = written
    distinct = {(each.pattern, each.flags): name for name, each in reversed(found.items())}
    return {name: found[name] for name in sorted(distinct.values())}


def _written(node: ast.AST) -> re.Pattern[str] | None:
    """The pattern of a call such as re.sub("...", ...) that is written out there."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    of, pattern = node.func.value, node.args[0]
    if not isinstance(of, ast.Name) or of.id != "re" or not isinstance(pattern, ast.Constant):
        return None
    flags = [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and part.attr.isupper()]
    bits = re.RegexFlag(0)
    for flag in flags:
        bits |= getattr(re, flag, re.RegexFlag(0))
    return re.compile(pattern.value, bits) if isinstance(pattern.value, str) else None


def ways(pattern: re.Pattern[str]) -> list[str]:
    """Texts that lead into the pattern's parts: the beginnings of a shortest match, one for each alternative."""
    found: dict[str, None] = {}
    for text in _begun(parse(pattern.pattern, pattern.flags), ""):
        found.setdefault(text)
    return [text for text in found if text][:_MOST_WAYS]


def _begun(items: Iterable[Any], before: str) -> Iterator[str]:
    """What stands before each part of a sequence, and behind the last."""
    for kind, value in items:
        if str(kind) != "LITERAL":
            yield before
        for inner in value[1] if str(kind) == "BRANCH" else [_inner(str(kind), value)]:
            if inner is not None:
                yield from _begun(inner, before)
        before += _sample(str(kind), value)
    yield before


def _inner(kind: str, value: Any) -> Any:
    """What a repetition or a group is made of; None for another part."""
    if kind.endswith("_REPEAT"):
        return value[2]
    return value[-1] if kind == "SUBPATTERN" else value if kind == "ATOMIC_GROUP" else None


def _sample(kind: str, value: Any) -> str:
    """A short text that a part matches; once where it may also be left out."""
    if kind in ("LITERAL", "RANGE"):
        return chr(value if kind == "LITERAL" else value[0])
    if kind == "IN":
        members = [(str(name), each) for name, each in value if str(name) in ("LITERAL", "RANGE", "CATEGORY")]
        return "x" if str(value[0][0]) == "NEGATE" or not members else _sample(*members[-1])
    if kind == "CATEGORY":
        return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "x"}.get(str(value), "-")
    inner = value[1][0] if kind == "BRANCH" else _inner(kind, value)
    if inner is not None:
        times = max(1, value[0]) if kind.endswith("_REPEAT") else 1
        return "".join(_sample(str(part), each) for part, each in inner) * times
    return "x" if kind in ("ANY", "NOT_LITERAL") else ""


def texts(into: Sequence[str], length: int) -> Iterator[tuple[str, str]]:
    """A short name of each adversarial text, and the text: runs alone, behind a way in, and ways in between runs."""
    for run in RUNS:
        yield repr(run), run * (length // len(run))
        for way in into:
            yield f"{way!r} + {run!r}", f"{way}{run * (length // len(run))}\0"
    for way in into:
        yield f"many {way!r}", way * (length // len(way))
        for gap in ("\n", " ", "a", "1"):
            yield f"many {way + gap!r}", (way + gap) * (length // (len(way) + 1))


def seconds(work: Callable[[str], object], text: str, enough: float) -> float:
    """Processor seconds, so that other programs hardly count; the better of two if the first was over `enough`."""
    best = float("inf")
    for _ in range(2):
        start = time.thread_time()
        work(text)
        best = min(best, time.thread_time() - start)
        if best < enough or best > BOUND:
            break
    return best


def slow(work: Callable[[str], object], into: Sequence[str]) -> str:
    """The first text found for which the time grows faster than the length, in words; "" for linear work."""
    slowest, worst = 0.0, 0
    for number, (name, text) in enumerate(texts(into, SMALL)):
        if seconds(work, text[:500], BOUND / 20) > BOUND / 20:
            return f"{name}: more than {BOUND / 20} s for 500 characters"
        took = seconds(work, text, SUSPECT)
        if took > slowest:
            slowest, worst = took, number
        if took > BOUND / 20:
            return f"{name}: {took:.2f} s for {SMALL} characters"
        for length in (LARGE // 4, LARGE // 2, LARGE):
            bound = BOUND * length / LARGE
            if took > SUSPECT and (took := seconds(work, _case(into, number, length), bound)) > bound:
                return f"{name}: {took:.2f} s for {length} characters"
    bound = BOUND * WHOLE / LARGE
    took = seconds(work, _case(into, worst, WHOLE), bound)
    return f"{took:.2f} s for {WHOLE} characters" if took > bound else ""


def _case(into: Sequence[str], number: int, length: int) -> str:
    return next(text for index, (_, text) in enumerate(texts(into, length)) if index == number)
