"""Hostile programs, alone and in families: each computes nothing and wants to pass, or to exceed its limits.

A program is its source and the tests that it is up against; the right answer is always Python's own `a + b`. Many
tricks are public from training runs in which a program was rewarded for its verdict. The tricks themselves are in
`hostile_tricks.toml`.
"""

import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reground.core.programs import Limits, Program, Verdict

TRICKS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PLAIN = "assert add(2, 3) == 5\nassert add(-1, 1) == 0\nassert add(0.5, 0.25) == 0.75\n"
STYLES: dict[str, str] = TRICKS["styles"]
HONEST = "def add(a, b):\n    return a + b\n"


HASTY = Limits(seconds=2, memory_mib=256)
# For programs that must end by themselves: a busy machine's slowness is not to be taken for their verdict.
PATIENT = Limits(seconds=20, memory_mib=256)


@dataclass(frozen=True)
class Hostile:
    """A program and the tests that it must not pass.

    tests: unused where it reads its input: two numbers, whose sum it has to print. expect: the verdicts that it may
    get; empty for any but "passed".
    """

    name: str
    source: str
    tests: str = PLAIN
    expect: str = ""
    reads_input: bool = False

    @property
    def allowed(self) -> frozenset[Verdict]:
        """The verdicts that it may get."""
        return (
            frozenset(map(Verdict, self.expect.split(", "))) if self.expect else frozenset(Verdict) - {Verdict.PASSED}
        )

    @property
    def program(self) -> Program:
        """The program as the sandbox runs it."""
        limits = HASTY if Verdict.TIMEOUT in self.allowed else PATIENT
        if self.reads_input:
            return Program(source=self.source, stdin="2 3\n", expected_stdout="5\n", limits=limits)
        return Program(source=self.source, tests=self.tests, exports=("add",), limits=limits)


ALONE = [Hostile(**each) for each in TRICKS["alone"]]
"""Programs that belong to no family."""


def _call(body: str, before: str = "") -> str:
    return f"{textwrap.dedent(before)}\ndef add(a, b):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


def _made(name: str, kind: str, body: str, style: str) -> Hostile:
    """A program that gives an object of a class with this body. kind: the class's name and what it is made from."""
    result = f"{kind.partition('(')[0]}()"
    return Hostile(name, _call(f"return {result}", f"class {kind}:\n    {body}\n"), STYLES[style])


_BASES = ("object", "int", "float", "complex", "str", "bytes", "bytearray", "list", "tuple", "dict", "set", "frozenset")


def liars() -> Iterator[Hostile]:
    """Objects that answer every question in their own favour."""
    says_yes: str = TRICKS["says_yes"]
    pairs = [(base, style) for base in _BASES for style in ("equal", "unittest")]
    pairs += [("object", style) for style in STYLES if style not in ("equal", "unittest", "callback")]
    for base, style in pairs:
        yield Hostile(f"liar-{base}-{style}", _call("return Liar()", says_yes.format(base=base)), STYLES[style])
    for name, body in TRICKS["spoofs"].items():
        for style in ("equal", "arrays"):
            result = "Spoof" if name == "meta" else "Spoof()"
            source = _call(f"return {result}", f"class Spoof:\n    {body}\n")
            yield Hostile(f"spoof-{name}-{style}", source, STYLES[style])


def exits() -> Iterator[Hostile]:
    """Every way to end, when loaded and when called."""
    for name, way in TRICKS["exits"].items():
        yield Hostile(f"exit-load-{name}", f"{way}\n" + _call("return 0"))
        yield Hostile(f"exit-call-{name}", _call(way))
    yield Hostile("exit-zip", _call("raise StopIteration"), STYLES["zip"])
    yield Hostile("exit-caught", _call("raise SystemExit(0)"), "try:\n    add(2, 3)\nexcept Exception:\n    pass")
    yield Hostile("exit-skip", _call("import unittest; raise unittest.SkipTest('no')"), STYLES["unittest"])


def patches() -> Iterator[Hostile]:
    """Changes to what the tests would use, were they in the same process."""
    names = ("all", "any", "abs", "len", "isinstance", "repr", "print", "zip", "enumerate", "__import__", "sorted")
    for name in names:
        patch = f"import builtins\nbuiltins.{name} = lambda *a, **k: True\n"
        yield Hostile(f"patch-builtins-{name}", patch + _call("return 0"))
    modules = ("unittest", "pytest", "numpy", "numpy.testing", "math", "json", "harness.tests", "harness.wire", "tests")
    for name in modules:
        source = TRICKS["fake_module"].replace("NAME", repr(name))
        yield Hostile(f"patch-module-{name}", _call("return 0", source), STYLES["unittest"])
    for name, line in TRICKS["patches"].items():
        yield _loaded(f"patch-{name}", line)
    files = ("conftest", "tests", "unittest", "numpy", "json", "sitecustomize", "usercustomize")
    for file in files:
        source = (
            "for folder in ('/box', '/tmp', '/home'):\n"
            f"    open(folder + '/{file}.py', 'w').write('import os; os._exit(0)')\n"
        )
        yield Hostile(f"plant-{file}.py", source + _call("return 0"), STYLES["unittest"])


def readers() -> Iterator[Hostile]:
    """Looks for the tests, and answers right if it finds them."""
    for name, place in TRICKS["readers"].items():
        body = f"""
            import gc, glob, inspect, linecache, os, re, sys, traceback
            return a + b if any(re.search(r'add\\(2, 3\\) == 5', text) for text in {place}) else 0
        """
        yield Hostile(f"read-{name}", _call(body))


def values() -> Iterator[Hostile]:
    """Values that are awkward to compare, to hold or to carry."""
    for name, value in TRICKS["values"].items():
        yield Hostile(f"value-{name}", _call(f"return {value}"))
    yield Hostile("value-endless-items", _call("return __import__('itertools').count()"), STYLES["items"])
    yield Hostile("value-early-items", _call("yield 2"), STYLES["items"])
    yield Hostile("value-empty-shape", _call("return []"), STYLES["shapes"])
    yield Hostile("value-empty-array", _call("return []"), STYLES["arrays"])
    yield Hostile("value-empty-testing", _call("return []"), STYLES["testing"])
    yield Hostile("value-clears-argument", _call("a.clear()\nreturn []"), STYLES["unchanged"])
    deep = "value = []\nfor _ in range({}): value = [value]\nreturn value"
    for depth in (300, 5000, 100000):
        yield Hostile(f"value-deep-{depth}", _call(deep.format(depth)))
    yield Hostile("value-cycle", _call("value = []\nvalue.append(value)\nreturn value"))
    yield Hostile("value-tzinfo", _call("return datetime.datetime.now(Z())", TRICKS["zone"]))
    swallow = "try:\n    a(0)\nexcept BaseException:\n    pass\nreturn 5"
    yield Hostile("swallows-assertion", _call(swallow), "def seen(x):\n    assert x == 1\nassert add(seen, 0) == 5")
    keep = "global kept\nif kept:\n    return kept(5)\nkept = a\nreturn 0"
    yield Hostile("keeps-callback", _call(keep, "kept = None"), "add(lambda x: x, 0)\nassert add(2, 3) == 5")


def forgeries() -> Iterator[Hostile]:
    """Programs that take the pipe over and speak the protocol themselves."""
    speaker: str = TRICKS["speaker"]
    for name, replies in TRICKS["forgeries"].items():
        speak = TRICKS["speaks"].replace("REPLIES", replies)
        for style in ("equal", "arrays", "whole") if "array" in name or "bool" in name else ("equal",):
            yield Hostile(f"forge-{name}-{style}", speaker + speak, STYLES[style])
    ahead = "send(LOADED)\nfor _ in range(50): send(ok(0))\nsend(ok(5))\n"
    yield Hostile("forge-ahead", speaker + ahead + _call("return 0"))
    thread = "import threading\nthreading.Thread(target=lambda: [send(ok(5)) for _ in range(9)]).start()\n"
    yield Hostile("forge-thread", speaker + thread + _call("import time; time.sleep(0.2); return 0"))


def _loaded(name: str, source: str, style: str = "equal") -> Hostile:
    tests = PLAIN if name.startswith("patch-") else STYLES[style]
    return Hostile(name, f"{textwrap.dedent(source)}\n{_call('return 0')}", tests)


def endings() -> Iterator[Hostile]:
    """Ends with every status, from every place that runs late."""
    for status in ("0", "None", "True", "''", "5", "'passed'", "-1", "256", "[]", "float('nan')"):
        yield Hostile(f"end-status-{status}", _call(f"import sys; sys.exit({status})"))
    prepared = "import os, sys, time\ndef w(n, data):\n    try: os.write(n, data)\n    except OSError: pass\n"
    for name, source in TRICKS["late"].items():
        yield _loaded(f"end-{name}", f"{prepared}{source}")


def subclasses() -> Iterator[Hostile]:
    """Subclasses of plain types with the wrong value and operators that lie."""
    for base in _BASES:
        for name, body in TRICKS["operators"].items():
            yield _made(f"odd-{base}-{name}", f"Odd({base})", body, TRICKS["against"][name])


def numeric() -> Iterator[Hostile]:
    """What numpy asks of an object, answered in the program's favour."""
    for name, body in TRICKS["numpy_answers"].items():
        for style in ("arrays", "whole", "shapes", "testing"):
            yield _made(f"numpy-{name}-{style}", "Odd", body, style)
    for name, value in TRICKS["numpy_values"].items():
        source = "import numpy\nclass Odd:\n    __eq__ = lambda s, o: True\n"
        for style in ("arrays", "testing"):
            yield Hostile(f"numpy-value-{name}-{style}", _call(f"return {value}", source), STYLES[style])


def machinery() -> Iterator[Hostile]:
    """Takes hold of the interpreter: frames, objects, modules, hooks, codecs, memory, files."""
    for name, source in TRICKS["machinery"].items():
        yield _loaded(f"trick-{name}", f"import gc, os, sys\n{source}")
        if name in ("skip", "expected-failure", "loader", "asserts", "import"):
            yield _loaded(f"trick-{name}-unittest", f"import gc, os, sys\n{source}", "unittest")


def lazy() -> Iterator[Hostile]:
    """Values that make themselves up while they are looked at."""
    for name, value in TRICKS["lazy_values"].items():
        yield Hostile(f"lazy-{name}", _call(f"return {value}"), STYLES["items"])
        yield Hostile(f"lazy-{name}-list", _call(f"return {value}"), STYLES["list"])
    for name, body in TRICKS["changing"].items():
        for style in ("equal", "list", "items"):
            yield _made(f"lazy-{name}-{style}", "Odd", body, style)
    kept = "given = [2, 3]\nfound = add(given, [4])\nassert found == [2, 3, 4]"
    for name, body in TRICKS["mutations"].items():
        source = "class Always:\n    __eq__ = lambda s, o: True\n"
        yield Hostile(f"mutate-{name}", _call(body, source), STYLES["list"])
        yield Hostile(f"mutate-{name}-kept", _call(body, source), kept)


def hollow() -> Iterator[Hostile]:
    """Subclasses of containers that say to hold what they do not."""
    for base, name, body, tests in TRICKS["hollow"]:
        yield Hostile(
            f"hollow-{base}-{name}", _call("return C()", f"import collections\nclass C({base}):\n{body}"), tests
        )


FAMILIES = (liars, exits, patches, readers, values, forgeries, endings, subclasses, numeric, machinery, lazy, hollow)
