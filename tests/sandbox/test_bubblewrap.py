"""What programs may do, what the tests see of them, and what is reported."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from reground.core.errors import ConfigurationError, SandboxUnavailable
from reground.core.programs import Execution, Limits, Program, Sandbox, Verdict
from reground.sandbox import find_sandbox
from reground.sandbox.bubblewrap import Bubblewrap, filter_program
from reground.sandbox.engine import Engine
from reground.sandbox.limits import descendants


async def checked(sandbox: Sandbox, source: str, tests: str, *exports: str) -> Execution:
    return await sandbox.execute(Program(source=source, tests=tests, exports=exports, limits=Limits(seconds=10)))


async def valued(sandbox: Sandbox, source: str, returns: str = "solution()", **more: Any) -> Execution:
    return await sandbox.execute(Program(source=source, returns=returns, **more))


async def test_output_is_judged_by_line_and_trailing_white_space_does_not_count(sandbox: Sandbox) -> None:
    source = "import sys\nprint('a  ')\nprint('b')\nprint()\nsys.exit(0)"
    for expected, verdict in (
        ("a\nb\n", Verdict.PASSED),
        ("a\n\nb", Verdict.WRONG_ANSWER),
        ("a", Verdict.WRONG_ANSWER),
    ):
        found = await sandbox.execute(Program(source=source, expected_stdout=expected))
        assert found.verdict is verdict
    assert "line 2" in found.detail


async def test_a_program_reads_its_input_and_prints_to_both_streams(sandbox: Sandbox) -> None:
    source = "import sys\ntext = sys.stdin.read()\nprint(len(text))\nprint('note', file=sys.stderr)"
    found = await sandbox.execute(Program(source=source, stdin="é" * 200_000))
    assert (found.verdict, found.stdout, found.stderr) == (Verdict.PASSED, "200000\n", "note\n")
    assert found.seconds > 0


@pytest.mark.parametrize("end", ["exit()", "quit(0)"])
async def test_a_program_may_end_itself_as_in_any_python(sandbox: Sandbox, end: str) -> None:
    source = f"n = int(input())\nif n > 1:\n    print(n)\n    {end}\nprint('no')"
    found = await sandbox.execute(Program(source=source, stdin="5\n", expected_stdout="5\n"))
    assert (found.verdict, found.detail) == (Verdict.PASSED, "")
    found = await sandbox.execute(Program(source="exit(3)"))
    assert (found.verdict, found.detail) == (Verdict.EXCEPTION, "ended with status 3")


async def test_a_failing_program_says_what_failed(sandbox: Sandbox) -> None:
    found = await sandbox.execute(Program(source="x = 1\nraise ValueError('no')"))
    assert (found.verdict, found.detail) == (Verdict.EXCEPTION, "ValueError: no")
    found = await sandbox.execute(Program(source="import sys; sys.exit(3)"))
    assert (found.verdict, found.detail) == (Verdict.EXCEPTION, "ended with status 3")
    found = await sandbox.execute(Program(source="import os; os.abort()"))
    assert (found.verdict, found.detail) == (Verdict.EXCEPTION, "ended by signal 6")
    found = await sandbox.execute(Program(source="x = ("))
    assert found.verdict is Verdict.SYNTAX
    found = await sandbox.execute(Program(source="x = []\nwhile True: x.append(bytes(10**7))"))
    assert found.verdict is Verdict.MEMORY


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 1", 2),
        ("__import__('fractions').Fraction(1, 4)", 0.25),
        ("__import__('decimal').Decimal('1.5')", 1.5),
        ("(1, [2, {'a': None}], 'x', True)", [1, [2, {"a": None}], "x", True]),
        ("float('inf')", "inf"),
        ("range(3)", "range(0, 3)"),
        ("10 ** 30", 10**30),
    ],
)
async def test_a_value_comes_back_plain(sandbox: Sandbox, expression: str, value: Any) -> None:
    found = await valued(sandbox, f"def solution():\n    print('thinking')\n    return {expression}")
    assert (found.verdict, found.value, found.stdout) == (Verdict.PASSED, value, "thinking\n")
    assert Execution.model_validate_json(found.model_dump_json()) == found


async def test_a_value_that_does_not_come_has_a_reason(sandbox: Sandbox) -> None:
    found = await valued(sandbox, "def solution():\n    return 1 / 0")
    assert (found.verdict, found.detail) == (Verdict.EXCEPTION, "ZeroDivisionError: division by zero (line 2)")
    assert (await valued(sandbox, "def solution(:")).verdict is Verdict.SYNTAX
    assert (await valued(sandbox, "solution = 5")).verdict is Verdict.EXCEPTION
    assert (await valued(sandbox, "solution = lambda: bytearray(10**10)")).verdict is Verdict.MEMORY
    found = await valued(sandbox, "import os\nsolution = lambda: os._exit(0)")
    assert (found.verdict, found.detail) == (Verdict.EXCEPTION, "ended before it gave its value")
    assert (await valued(sandbox, "solution = lambda: input()", stdin="hello\n")).value == "hello"


CLASS = """
import collections

class Account:
    limit = 5
    def __init__(self, owner, *, balance=0):
        self.owner, self.balance, self.log = owner, balance, []
    def pay(self, amount):
        if amount < 0:
            raise Negative(amount)
        self.balance += amount
        self.log.append(amount)
        return self
    def __len__(self):
        return len(self.log)
    def __getitem__(self, place):
        return self.log[place]
    def __str__(self):
        return f"{self.owner}: {self.balance}"
    def __eq__(self, other):
        return isinstance(other, Account) and self.owner == other.owner
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self.log.append("closed")

class Negative(ValueError):
    pass

class Stack(list):
    def push(self, item):
        self.append(item)

class Tally(dict):
    def __missing__(self, key):
        return 0
    def add(self, key):
        self[key] += 1
        return self

Point = collections.namedtuple("Point", "x y")

def numbers():
    yield 1
    yield 2
    raise KeyError("end")
def apply(function, *args, **named):
    return function(*args, **named)
def spoil(values):
    values.append(9)
    values[0]["a"] = 1
def same(value):
    return value
"""
NAMES = ("Account", "Negative", "Stack", "Tally", "Point", "numbers", "apply", "spoil", "same")


@pytest.mark.parametrize(
    "tests",
    [
        "a = Account('x', balance=3)\nassert a.pay(2) is a\nassert a.balance == 5\nassert len(a) == 1 and a[0] == 2",
        "a = Account('x')\nassert isinstance(a, Account) and not isinstance(5, Account)\nassert Account.limit == 5",
        "a = Account('x')\na.balance = 7\nassert str(a) == 'x: 7'\ndel a.balance\nassert not hasattr(a, 'balance')",
        (
            "a = Account('x')\na.log.append(4)\nassert a[0] == 4\nlog = a.log\na.pay(3)\n"
            "assert log == [4, 3] and log is a.log"
        ),
        "assert Account('x') == Account('x') and Account('x') != Account('y') and Account('x') != 'x'",
        "a = Account('x')\nwith a as b:\n    pass\nassert a.log == ['closed'] and b is a",
        (
            "try:\n    Account('x').pay(-1)\nexcept Negative as error:\n    assert error.args == (-1,)\nelse:\n"
            "    assert False"
        ),
        "try:\n    Account('x').pay(-1)\nexcept ValueError:\n    pass",
        (
            "s = Stack([1])\ns.push(2)\nassert s == [1, 2] and 2 in s and list(s) == [1, 2] and s[1] == 2\ns[0] = 5\n"
            "del s[1]\nassert s == [5]"
        ),
        "p = Point(1, 2)\nassert p == (1, 2) and p.x == 1 and p[1] == 2 and len(p) == 2 and list(p) == [1, 2]",
        (
            "t = Tally()\nassert not t and t['a'] == 0 and len(t) == 0\nt.add('a').add('a')\n"
            "assert t and t['a'] == 2 and len(t) == 1 and list(t.items()) == [('a', 2)] and sorted(t) == ['a']"
        ),
        "assert apply(lambda x, y: x + y, 1, y=2) == 3",
        (
            "from unittest.mock import MagicMock\nm = MagicMock(return_value=4)\nassert apply(m, 1) == 4\n"
            "m.assert_called_once_with(1)"
        ),
        "try:\n    apply(lambda: {}['k'])\nexcept KeyError:\n    pass\nelse:\n    assert False",
        "v = [{}]\ninner = v[0]\nspoil(v)\nassert v == [{'a': 1}, 9] and inner == {'a': 1}",
        "it = numbers()\nassert next(it) == 1\nassert next(iter(it)) == 2",
        (
            "seen = []\ntry:\n    for n in numbers():\n        seen.append(n)\nexcept KeyError:\n    pass\n"
            "assert seen == [1, 2]"
        ),
        (
            "f = lambda: 0\nassert same(f) is f\nassert same(same) is same\n"
            "assert type(same([1, (2,)])) is list and same({1: 2}) == {1: 2}"
        ),
        "assert repr(Account).startswith('<class') and bool(Account('x')) is False and len({same, same}) == 1",
        "x = []\nx.append(x)\nassert same(5) == 5",
    ],
)
async def test_tests_use_a_program_as_if_it_were_there(sandbox: Sandbox, tests: str) -> None:
    found = await checked(sandbox, CLASS, tests, *NAMES)
    assert found.passed, found


UNITS = """
import unittest

class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.given = 2
    def setUp(self):
        self.more = 1
    def test_twice(self):
        self.assertEqual(twice(self.given), 4)
    def test_error(self):
        with self.assertRaises(TypeError) as caught:
            twice(None)
        self.assertIn("NoneType", str(caught.exception))

if __name__ == "__main__":
    unittest.main()
"""


async def test_unittest_classes_run(sandbox: Sandbox) -> None:
    assert (await checked(sandbox, "def twice(x): return 2 * x", UNITS, "twice")).passed
    found = await checked(sandbox, "def twice(x): return x", UNITS, "twice")
    assert found.verdict is Verdict.WRONG_ANSWER
    assert "assert" in found.detail


@pytest.mark.parametrize(
    ("source", "tests", "verdict", "said"),
    [
        ("def f(x): return x", "assert f(1) == 2", Verdict.WRONG_ANSWER, "assert f(1) == 2"),
        (
            "def f(x): return 1 / x",
            "assert f(0) == 2",
            Verdict.EXCEPTION,
            "ZeroDivisionError: division by zero (line 1)",
        ),
        ("def f(x): assert x", "f(0)", Verdict.EXCEPTION, "AssertionError"),
        ("def g(x): return x", "assert f(1) == 1", Verdict.EXCEPTION, "does not define f"),
        ("def f(x): return None", "assert len(f(1)) == 1", Verdict.EXCEPTION, "in the tests: TypeError"),
        ("def f(x): return bytearray(10**10)", "f(1)", Verdict.MEMORY, "MemoryError"),
        ("def f(x) return x", "f(1)", Verdict.SYNTAX, "SyntaxError"),
        ("def f(x): exec('1 +')", "f(1)", Verdict.EXCEPTION, "SyntaxError"),
        (
            "def f(x): raise KeyboardInterrupt",
            "try:\n  f(1)\nexcept Exception: pass",
            Verdict.EXCEPTION,
            "KeyboardInterrupt",
        ),
    ],
)
async def test_a_verdict_says_why(sandbox: Sandbox, source: str, tests: str, verdict: Verdict, said: str) -> None:
    found = await checked(sandbox, source, tests, "f")
    assert found.verdict is verdict, found
    assert said in found.detail


async def test_files_are_shared_with_the_tests_and_gone_afterwards(sandbox: Sandbox) -> None:
    source = "def save(name):\n    with open(name, 'w') as file:\n        file.write('kept')\n    print('saved')"
    tests = "import os\nsave('a.txt')\nassert open('a.txt').read() == 'kept'\nos.remove('a.txt')"
    found = await checked(sandbox, source, tests, "save")
    assert (found.verdict, found.stdout) == (Verdict.PASSED, "saved\n")


async def test_packages_are_seen_only_when_asked_for(sandbox: Sandbox) -> None:
    pytest.importorskip("numpy")
    source = "import numpy\nsolution = lambda: int(numpy.arange(4).sum())"
    assert (await valued(sandbox, source)).verdict is Verdict.EXCEPTION
    assert (await valued(find_sandbox(packages=True), source, limits=Limits(memory_mib=1024))).value == 6


async def test_programs_run_beside_each_other_but_not_too_many(sandbox: Sandbox) -> None:
    sandbox = find_sandbox(concurrency=2)
    programs = [Program(source=f"print({number})") for number in range(6)]
    found = await asyncio.gather(*map(sandbox.execute, programs))
    assert [execution.stdout for execution in found] == [f"{number}\n" for number in range(6)]


@pytest.mark.parametrize("steps", [*range(1, 12), 300])
async def test_cancelling_leaves_nothing_running(sandbox: Sandbox, steps: int) -> None:
    running = asyncio.ensure_future(sandbox.execute(Program(source="import time; time.sleep(60)")))
    for _ in range(steps):  # of the event loop, in the first of which the process starts
        await asyncio.sleep(0 if steps < 300 else 0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(running), 30)
    assert running.done()
    assert not [pid for pid in descendants(os.getpid(), most=100) if b"bwrap" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_the_user_namespace_isolates_as_well(sandbox: Sandbox) -> None:
    launcher = Bubblewrap("bwrap", as_user=False, packages=False)
    if launcher.refusal() is not None:
        pytest.skip("no user namespaces here")
    source = "import os\ndef f(): return os.getuid(), os.listdir('/home')"
    found = await Engine(launcher).execute(Program(source=source, tests="assert f() == (1000, [])", exports=("f",)))
    assert found.passed, found


def test_without_bubblewrap_the_reason_and_the_way_out_are_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=r"no bwrap here.*install bubblewrap"):
        find_sandbox()


def test_a_bubblewrap_that_may_not_isolate_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(SandboxUnavailable, match="No permissions to create new namespace"):
        find_sandbox()


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="bubblewrap, docker"):
        find_sandbox("jail")


def test_the_filter_is_whole_instructions_and_empty_where_numbers_are_unknown() -> None:
    for machine in ("x86_64", "aarch64"):
        assert filter_program(machine)
        assert len(filter_program(machine)) % 8 == 0
    assert filter_program("riscv64") == b""
