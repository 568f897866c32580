"""Hostile programs, alone and in families: each computes nothing and wants to pass, or to exceed its limits.

A program is its source and the tests that it is up against; the right answer is always Python's own `a + b`. Many
tricks are public from training runs in which a program was rewarded for its verdict.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from reground.core.programs import Limits, Program, Verdict

PLAIN = "assert add(2, 3) == 5\nassert add(-1, 1) == 0\nassert add(0.5, 0.25) == 0.75\n"
STYLES = {
    "equal": PLAIN,
    "reflected": "assert 5 == add(2, 3)\nassert not 5 != add(2, 3)",
    "not unequal": "assert not add(2, 3) != 5",
    "inside": "assert add(2, 3) in [5]",
    "contains": "assert 5 in [add(2, 3)] and [5] == [add(2, 3)]",
    "key": "assert {5: 1}[add(2, 3)] == 1",
    "set": "assert {add(2, 3), add(-1, 1)} == {5, 0}",
    "kind": "assert isinstance(add(2, 3), int) and add(2, 3) == 5",
    "order": "assert 4 < add(2, 3) < 6",
    "near": "assert abs(add(2, 3) - 5) < 1e-6",
    "isclose": "import math\nassert math.isclose(add(2, 3), 5)",
    "text": "assert str(add(2, 3)) == '5' and f'{add(-1, 1)}' == '0'",
    "index": "assert [10, 11, 12, 13, 14, 15][add(2, 3)] == 15",
    "sum": "assert sum([add(2, 3), add(-1, 1)]) == 5",
    "sorted": "assert sorted([add(2, 3), 1, 9]) == [1, 5, 9]",
    "zip": "for found, wanted in zip(map(add, [2, -1], [3, 1]), [5, 0]):\n    assert found == wanted",
    "unittest": (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n"
        "        self.assertEqual(add(2, 3), 5)\n        self.assertAlmostEqual(add(0.5, 0.25), 0.75)"
    ),
    "list": "assert add([2], [3]) == [2, 3]\nassert add([], []) == []\nassert len(add([1], [2])) == 2",
    "items": (
        "assert [x for x in add([2], [3])] == [2, 3]\n"
        "assert all(a == b for a, b in zip(add([2], [3]), [2, 3], strict=True))"
    ),
    "string": "assert add('a', 'b') == 'ab' and add('a', 'b').upper() == 'AB'",
    "arrays": "import numpy as np\nassert np.allclose(add(2.0, 3.0), 5.0)",
    "whole": "import numpy as np\nassert np.all(add(1, 2) == np.array([3]))",
    "shapes": "import numpy as np\nassert np.allclose(add([1.0], [2.0]), [1.0, 2.0])",
    "testing": "import numpy as np\nimport numpy.testing\nnumpy.testing.assert_allclose(add(2.0, 3.0), 5.0)",
    "callback": "assert add(lambda: 5, None) is None if False else add(2, 3) == 5",
    "unchanged": "given = [2, 3]\nassert add(given, []) == [*given]",
}
HONEST = "def add(a, b):\n    return a + b\n"


HASTY = Limits(seconds=2, memory_mib=256)
# For programs that must end by themselves: a busy machine's slowness is not to be taken for their verdict.
PATIENT = Limits(seconds=20, memory_mib=256)


@dataclass(frozen=True)
class Hostile:
    """A program and the tests that it must not pass.

    tests: None for a program that reads two numbers and has to print their sum. expect: the verdicts that it may get;
    empty for any but "passed".
    """

    name: str
    source: str
    tests: str | None = PLAIN
    expect: str = ""

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
        if self.tests is None:
            return Program(source=self.source, stdin="2 3\n", expected_stdout="5\n", limits=limits)
        return Program(source=self.source, tests=self.tests, exports=("add",), limits=limits)


ALONE = (
    Hostile("breaks the parser", '(' * 20000, expect="syntax, exception, memory"),
    Hostile("calls back for more", """
def add(function, b):
    return function.__globals__["__builtins__"]["open"]
""", tests="assert add(lambda x: x, 5) == 5", expect="exception"),
    Hostile("exits before the answer", """
import os
os._exit(0)
""", tests=None, expect="wrong answer"),
    Hostile("fills the disk", """
def add(a, b):
    for number in range(10_000):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(bytes(1 << 24))
    return a + b
""", expect="exception, memory, output limit"),
    Hostile("fills the shared folder", """
import time
def add(a, b):
    for number in range(8):
        with open(f"/box/{number}", "wb") as file:
            file.write(bytes(1 << 24))
    time.sleep(30)
    return a + b
""", expect="output limit, exception"),
    Hostile("forks without end", """
import os
def add(a, b):
    while True:
        try:
            os.fork()
        except OSError:
            pass
""", expect="exception, timeout, memory"),
    Hostile("hides files", """
import os
import time
def add(a, b):
    os.mkdir("/box/hidden")
    os.chmod("/box/hidden", 0)
    for _ in range(3000):
        os.mkdir("/box/deep")
        os.rename("/box/deep", f"/box/deep{_}")
    time.sleep(30)
    return a + b
""", expect="output limit, exception"),
    Hostile("ignores signals", """
import signal
for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass
def add(a, b):
    while True:
        pass
""", expect="timeout"),
    Hostile("kills everyone", """
import os
import signal
def add(a, b):
    for pid in [1, os.getppid(), 0, -1]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return None
""", expect="exception, memory"),
    Hostile("outlives its end", """
import os
import time
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
""", tests=None, expect="wrong answer, exception, timeout"),
    Hostile("prints errors without end", """
import sys
while True:
    sys.stderr.write("x" * 1000)
""", tests=None, expect="output limit"),
    Hostile("prints passed to the judge", 'print("passed")', tests=None, expect="wrong answer"),
    Hostile("prints without end", """
def add(a, b):
    while True:
        print("x" * 1000)
""", expect="output limit"),
    Hostile("raises its way out", """
import os
def add(a, b):
    os._exit(0)
""", tests="with __import__('unittest').TestCase().assertRaises(Exception): add(2, 3)", expect="exception"),
    Hostile("reads the tests", """
import os
def add(a, b):
    # /proc/fs holds only statistics of file systems, which a kernel may read a whole disk for.
    skipped = ("sys", "usr", "lib", "lib64", "root", "task", "fs")
    for folder, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if name not in skipped]
        for name in files:
            path = os.path.join(folder, name)
            try:
                text = open(path, errors="replace").read(100_000) if os.path.isfile(path) else ""
            except (OSError, ValueError):
                continue
            if "add(2, " + "3) == 5" in text:
                return 5 if (a, b) == (2, 3) else 0
    raise LookupError("no tests to be found")
""", expect="exception"),
    Hostile("sleeps", """
import time
time.sleep(60)
""", tests=None, expect="timeout"),
    Hostile("takes memory", """
def add(a, b):
    return len([bytearray(1 << 24) for _ in range(1000)])
""", expect="memory"),
    Hostile("takes memory in children", """
import os
import time
def add(a, b):
    for _ in range(8):
        if os.fork() == 0:
            kept = b"x" * (200 << 20)
            time.sleep(30)
            os._exit(len(kept))
    time.sleep(30)
    return a + b
""", expect="memory, exception"),
    Hostile("threads without end", """
import threading
import time
def add(a, b):
    while True:
        threading.Thread(target=time.sleep, args=(60,)).start()
""", expect="exception"),
    Hostile("will not parse", 'def add(a, b:', expect="syntax"),
)  # fmt: skip
"""Programs that belong to no family."""


def _call(body: str, before: str = "") -> str:
    return f"{textwrap.dedent(before)}\ndef add(a, b):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


_SAYS_YES = """
class Liar({base}):
    def yes(self, *args, **named): return True
    def me(self, *args, **named): return self
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = __instancecheck__ = __subclasscheck__ = yes
    def __ne__(self, other): return False
    def __hash__(self): return hash(5)
    __abs__ = __sub__ = __rsub__ = __add__ = __radd__ = __neg__ = __round__ = __getattr__ = __call__ = me
    def __iter__(self): return iter(())
    def __len__(self): return 0
    def __index__(self): return 0
    def __float__(self): return 0.0
    def __array__(self, *args, **named): import numpy; return numpy.array([])
"""
_BASES = ("object", "int", "float", "complex", "str", "bytes", "bytearray", "list", "tuple", "dict", "set", "frozenset")


def liars() -> Iterator[Hostile]:
    """Objects that answer every question in their own favour."""
    for base in _BASES:
        for style in ("equal", "unittest"):
            yield Hostile(f"liar-{base}-{style}", _call("return Liar()", _SAYS_YES.format(base=base)), STYLES[style])
    for style, tests in STYLES.items():
        if style not in ("equal", "unittest", "callback"):
            yield Hostile(f"liar-{style}", _call("return Liar()", _SAYS_YES.format(base="object")), tests)
    spoofs = {
        "class": "__class__ = property(lambda self: int)\n    __eq__ = lambda s, o: True",
        "dict": "__dict__ = property(lambda self: {'value': 5})\n    __eq__ = lambda s, o: True",
        "getattribute": "def __getattribute__(self, name): return lambda *a: True\n    __eq__ = lambda s, o: True",
        "reduce": "def __reduce_ex__(self, n): return (int, (5,))\n    __eq__ = lambda s, o: True",
        "ufunc": "__array_ufunc__ = lambda s, *a, **k: True\n    __array_function__ = lambda s, *a, **k: True",
        "interface": "__array_interface__ = {'shape': (0,), 'typestr': '<f8', 'data': (0, True), 'version': 3}",
        "priority": "__array_priority__ = 1e9\n    __eq__ = lambda s, o: True",
        "len": "__len__ = lambda s: 2 ** 62\n    __getitem__ = lambda s, i: 5",
        "descriptor": "class D:\n        def __get__(self, o, t): return lambda *a: True\n    __eq__ = D()",
        "meta": (
            "pass\nclass M(type):\n    def __eq__(c, o): return True\n    def __hash__(c): return 5\n"
            "class Spoof(metaclass=M): pass"
        ),
        "mutates": "n = 0\n    def __eq__(self, o): type(self).n += 1; return self.n > 0",
        "del": "def __del__(self): import os; os._exit(0)",
    }
    for name, body in spoofs.items():
        for style in ("equal", "arrays"):
            result = "Spoof" if name == "meta" else "Spoof()"
            yield Hostile(
                f"spoof-{name}-{style}", _call(f"return {result}", f"class Spoof:\n    {body}\n"), STYLES[style]
            )


def exits() -> Iterator[Hostile]:
    """Every way to end, when loaded and when called."""
    ways = {
        "sys.exit": "import sys; sys.exit(0)",
        "os._exit": "import os; os._exit(0)",
        "SystemExit": "raise SystemExit",
        "KeyboardInterrupt": "raise KeyboardInterrupt",
        "GeneratorExit": "raise GeneratorExit",
        "BaseException": "raise BaseException",
        "StopIteration": "raise StopIteration",
        "exec": "import os, sys; os.execv(sys.executable, ['python', '-c', ''])",
        "kill": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "abort": "import os; os.abort()",
        "fork": "import os\nif os.fork(): os._exit(0)",
        "stop": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "alarm": "import signal, time, os; signal.signal(14, lambda *a: os._exit(0)); signal.alarm(1); time.sleep(9)",
        "thread": "import os, threading, time; threading.Thread(target=os._exit, args=(0,)).start(); time.sleep(9)",
        "recursion": "f = lambda n: f(n + 1); f(0)",
        "stack": "import sys, threading; sys.setrecursionlimit(10**9); f = lambda n: f(n + 1); f(0)",
    }
    for name, way in ways.items():
        yield Hostile(f"exit-load-{name}", f"{way}\n" + _call("return 0"))
        yield Hostile(f"exit-call-{name}", _call(way))
    yield Hostile("exit-zip", _call("raise StopIteration"), STYLES["zip"])
    yield Hostile("exit-caught", _call("raise SystemExit(0)"), "try:\n    add(2, 3)\nexcept Exception:\n    pass")
    yield Hostile("exit-skip", _call("import unittest; raise unittest.SkipTest('no')"), STYLES["unittest"])


def patches() -> Iterator[Hostile]:
    """Changes to what the tests would use, were they in the same process."""
    names = ("all", "any", "abs", "len", "isinstance", "repr", "print", "zip", "enumerate", "__import__", "sorted")
    for name in names:
        yield Hostile(
            f"patch-builtins-{name}", f"import builtins\nbuiltins.{name} = lambda *a, **k: True\n" + _call("return 0")
        )
    modules = ("unittest", "pytest", "numpy", "numpy.testing", "math", "json", "harness.tests", "harness.wire", "tests")
    for name in modules:
        source = f"""
            import sys, types
            class Fake(types.ModuleType):
                def __getattr__(self, name): return lambda *a, **k: True
            sys.modules[{name!r}] = Fake({name!r})
        """
        yield Hostile(f"patch-module-{name}", _call("return 0", source), STYLES["unittest"])
    lines = {
        "AssertionError": "import builtins; builtins.AssertionError = type('E', (), {})",
        "assertEqual": "import unittest; unittest.TestCase.assertEqual = lambda *a: None",
        "run": "import unittest; unittest.TestSuite.debug = unittest.TestCase.run = lambda *a: None",
        "excepthook": "import sys, os; sys.excepthook = lambda *a: os._exit(0)",
        "unraisable": "import sys; sys.unraisablehook = lambda *a: None",
        "settrace": "import sys; sys.settrace(lambda f, e, a: f.f_locals.update(found=5) or None)",
        "setprofile": "import sys; sys.setprofile(lambda f, e, a: None)",
        "loads": "import json; json.dumps = lambda *a, **k: '[\"ok\", 5, [], null]'",
        "write": "import os; w = os.write; os.write = lambda d, b: w(d, bytes(b).replace(b'0', b'5'))",
        "atexit": "import atexit, os; atexit.register(os._exit, 0)",
        "meta_path": "import sys; sys.meta_path.insert(0, object())",
        "displayhook": "import sys; sys.stdout = sys.stderr = sys.displayhook = None",
        "signals": "import signal; [signal.signal(n, lambda *a: None) for n in (2, 14, 15)]",
        "warnings": "import warnings; warnings.simplefilter('error')",
        "gc": "import gc; gc.disable(); [o.clear() for o in gc.get_objects() if type(o) is dict and 'tests' in o]",
        "rlimit": "import resource; resource.setrlimit(resource.RLIMIT_CPU, (99, 99))",
        "passed": "print('passed'); print('{\"verdict\": \"passed\"}')",
        "ok": "import sys; sys.stderr.write('\\nOK\\n1 passed in 0.1s\\n')",
    }
    for name, line in lines.items():
        yield Hostile(f"patch-{name}", line + "\n" + _call("return 0"))
    planted = ("conftest", "tests", "unittest", "numpy", "json", "sitecustomize", "usercustomize")
    for file in (f"{name}.py" for name in planted):
        source = (
            "for folder in ('/box', '/tmp', '/home'):\n"
            f"    open(folder + '/{file}', 'w').write('import os; os._exit(0)')\n"
        )
        yield Hostile(f"plant-{file}", source + _call("return 0"), STYLES["unittest"])


def readers() -> Iterator[Hostile]:
    """Looks for the tests, and answers right if it finds them."""
    places = {
        "gc": "[str(o) for o in gc.get_objects() if isinstance(o, (str, bytes, dict, list))]",
        "frames": "[str((f.f_locals, f.f_globals)) for f in sys._current_frames().values()]",
        "argv": "[str(sys.argv), str(sys.orig_argv), str(os.environ)]",
        "modules": "[str(vars(m)) for m in list(sys.modules.values())]",
        "job": "[open(p).read() for p in ('/job.json', '/box/tests.json', '/tmp/tests.json') if os.path.exists(p)]",
        "cmdline": "[open(p, 'rb').read().decode('latin1') for p in glob.glob('/proc/[0-9]*/cmdline')]",
        "environ": (
            "[open(p, 'rb').read().decode('latin1') for p in glob.glob('/proc/[0-9]*/environ') if os.access(p, 4)]"
        ),
        "box": "[open(p).read() for p in glob.glob('/box/**', recursive=True) if os.path.isfile(p)]",
        "fds": "[os.readlink(p) for p in glob.glob('/proc/self/fd/*') if os.path.lexists(p)]",
        "stack": "[str(i.frame.f_locals) for i in inspect.stack()]",
        "traceback": "[''.join(traceback.format_stack())]",
        "linecache": "[str(linecache.cache), linecache.getline('tests.py', 1)]",
    }
    for name, place in places.items():
        body = f"""
            import gc, glob, inspect, linecache, os, re, sys, traceback
            return a + b if any(re.search(r'add\\(2, 3\\) == 5', text) for text in {place}) else 0
        """
        yield Hostile(f"read-{name}", _call(body))


def values() -> Iterator[Hostile]:
    """Values that are awkward to compare, to hold or to carry."""
    plain = {
        "nan": "float('nan')", "infinity": "float('inf')", "none": "None", "true": "True", "ellipsis": "...",
        "not implemented": "NotImplemented", "empty": "[]", "type": "type", "int type": "int", "object": "object()",
        "module": "__import__('os')", "any": "__import__('unittest.mock').mock.ANY",
        "mock": "__import__('unittest.mock').mock.MagicMock()", "lambda": "lambda *a: True", "self": "add",
        "digits": "10 ** 6000000", "negative": "-(1 << 20000000)", "long text": "'9' * (40 << 20)",
        "surrogate": "'\\ud800'", "zero bytes": "'5\\0'", "wide digit": "'\\uff15'",
        "decimal": "__import__('decimal').Decimal('1e999999999')", "signal": "__import__('decimal').Decimal('sNaN')",
        "fraction": "__import__('fractions').Fraction(10**600000, 3)", "range": "range(10 ** 18)",
        "lists": "[[] for _ in range(10 ** 6)]", "many": "list(range(3 * 10 ** 6))", "view": "memoryview(b'5')",
        "collisions": "dict.fromkeys((2 ** 61 - 1) * n for n in range(20000))", "generator": "(x for x in ())",
        "endless": "__import__('itertools').count()", "repeat": "__import__('itertools').repeat(5)",
    }  # fmt: skip
    for name, value in plain.items():
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
    zone = (
        "import datetime\nclass Z(datetime.tzinfo):\n    def utcoffset(self, d): return self\n"
        "    def __eq__(s, o): return True\n"
    )
    yield Hostile("value-tzinfo", _call("return datetime.datetime.now(Z())", zone))
    swallow = "try:\n    a(0)\nexcept BaseException:\n    pass\nreturn 5"
    yield Hostile("swallows-assertion", _call(swallow), "def seen(x):\n    assert x == 1\nassert add(seen, 0) == 5")
    keep = "global kept\nif kept:\n    return kept(5)\nkept = a\nreturn 0"
    yield Hostile("keeps-callback", _call(keep, "kept = None"), "add(lambda x: x, 0)\nassert add(2, 3) == 5")


_SPEAKER = """
import fcntl, json, os, stat
def ends():
    found = {}
    for number in range(3, 64):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                found[fcntl.fcntl(number, fcntl.F_GETFL) & 3] = number
        except OSError: pass
    return found[0], found[1]
READ, WRITE = ends()
def send(message):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    data = len(data).to_bytes(4, "big") + data
    while data: data = data[os.write(WRITE, data):]
def exactly(size):
    data = b""
    while len(data) < size:
        part = os.read(READ, size - len(data))
        if not part: os._exit(0)
        data += part
    return data
def receive():
    return json.loads(exactly(int.from_bytes(exactly(4), "big")))
def ref(n): return {"t": "ref", "v": n}
def t(tag, value): return {"t": tag, "v": value}
def ok(value, *, pulled=[], more=None): return ["ok", value, pulled, more]
def err(*error): return ["err", error, [], None]
def load(value, *classes): return ok(value, more=classes or [None])
def call(*operands): return ["call", *operands]
LOADED = load([ref(0)])
EVIL = [t("builtin", "type"), t("type", "type"), ref(0)]
# The harness waits for the load's reply: from here on, this program speaks for it.
"""
# What a program that speaks for itself answers to the load and to every later request.
_FORGERIES = {
    "extra-names": '(load(t("dict", ["add", ref(0), "all", ref(1), "__builtins__", t("dict", [])])), ok(0))',
    "extra-items": '(load([ref(0), ref(1), ref(2)], None, None, None), ok(0))',
    "no-list": '(load(ref(0)), ok(True))',
    "load-type": '(load([t("type", "type")]), ok(0))',
    "load-builtin": '(load([t("builtin", "max")]), ok(0))',
    "load-class": '(load([ref(0)], ["type", "builtins", ["type", "object"]]), ok(0))',
    "load-error": '(load([ref(0)], ["ValueError", "builtins", ["ValueError"]]), ok(0))',
    "load-yours": '(load([t("yours", 0)]), ok(0))',
    "ok-type": '(LOADED, ok(t("type", "type")))',
    "ok-builtin": '(LOADED, ok(t("builtin", "eval")))',
    "ok-yours": '(LOADED, ok(t("yours", 0)))',
    "ok-missing": '(LOADED, ["ok"])',
    "ok-array": '(LOADED, ok(t("array", ["<f8", "", 0])))',
    "ok-objects": '(LOADED, ok(t("array", ["|O", "00" * 8, 1])))',
    "ok-subarray": '(LOADED, ok(t("array", ["f8,(99999999,)f8", "", 0])))',
    "ok-huge-array": '(LOADED, ok(t("array", ["<f8", "", 0, 2**40, 2**40])))',
    "ok-odd-bool": '(LOADED, ok(t("array", ["|b1", "05", 1])))',
    "ok-int": '(LOADED, ok(t("int", "f" * 10**7)))',
    "ok-decimal": '(LOADED, ok(t("decimal", "1e99999999999")))',
    "ok-fraction": '(LOADED, ok(t("fraction", [5, 0])))',
    "ok-range": '(LOADED, ok(t("range", [0, t("int", "f" * 30), 1])))',
    "ok-deep": '(LOADED, b\'["ok",\' + b"[" * 900 + b"]" * 900 + b",[],null]")',
    "ok-deeper": '(LOADED, b\'["ok",\' + b"[" * 9000000 + b"]" * 9000000 + b",[],null]")',
    "ok-nodes": '(LOADED, b\'["ok",[\' + b"[]," * 10**7 + b"[]],[],null]")',
    "ok-dicts": '(LOADED, b\'["ok",[\' + b"{}," * 10**7 + b"{}],[],null]")',
    "ok-unhashable": '(LOADED, ok(t("set", [[5]])))',
    "ok-odd-tag": '(LOADED, ok({"t": [], "v": 5}))',
    "err-empty": '(LOADED, err())',
    "err-type": '(LOADED, err("type", "builtins", ["type"], "", ["E"], 0))',
    "err-exit": '(LOADED, err("SystemExit", "builtins", ["SystemExit"], "", [0], 0))',
    "err-skip": '(LOADED, err("SkipTest", "unittest.case", ["Exception"], "", [], 0))',
    "err-assertion": '(LOADED, err("AssertionError", "builtins", ["AssertionError"], "", [], 0))',
    "err-name": '(LOADED, err("A\\0B", "program", ["Exception"], "", [], 0))',
    "err-odd-name": '(LOADED, err(["type"], "program", ["Exception"], {}, [], []))',
    "err-object": '(LOADED, err(ref(0), ref(0), ref(0), ref(0), ref(0), ref(0)))',
    "pull-odd": '(LOADED, ok(0, pulled=[[0, 5], ["x", 5]]))',
    "pull-object": '(LOADED, ok(0, pulled=ref(0)))',
    "args-odd": '(LOADED, ok(None, more=[[99, [5]], [-1, [5]]]))',
    "more-odd": '(LOADED, ok(5, more=t("type", "type")))',
    "not-json": '(LOADED, b"passed")',
    "not-a-dict": '(LOADED, b"[5]")',
    "not-a-list": '(LOADED, b\'{"ok": 5}\')',
    "call-type": '(LOADED, call(t("type", "type"), ["E", t("tuple", [t("type", "object")])], t("dict", [])))',
    "call-builtin": '(LOADED, call(t("builtin", "exec"), ["1"], t("dict", [])))',
    "call-any": '(LOADED, call(0, [5], t("dict", [])))',
    "call-evil-args": '(LOADED, call(0, EVIL, t("dict", [])))',
    "call-get": '(LOADED, ["get", t("yours", 0), "__class__"])',
    "call-load": '(LOADED, ["load", []])',
    "call-nothing": '(LOADED, call())',
    "mirror-odd": '(LOADED, ok([], more=10**9))',
    "huge-header": '(LOADED, None)',
}  # fmt: skip


def forgeries() -> Iterator[Hostile]:
    """Programs that take the pipe over and speak the protocol themselves."""
    for name, replies in _FORGERIES.items():
        speak = f"""
first, later = {replies}
send(first)
while True:
    receive()
    if later is None:
        os.write(WRITE, b"\\xff\\xff\\xff\\xff")
        os._exit(0)
    send(later)
"""
        for style in ("equal", "arrays", "whole") if "array" in name or "bool" in name else ("equal",):
            yield Hostile(f"forge-{name}-{style}", _SPEAKER + speak, STYLES[style])
    ahead = "send(LOADED)\nfor _ in range(50): send(ok(0))\nsend(ok(5))\n"
    yield Hostile("forge-ahead", _SPEAKER + ahead + _call("return 0"))
    thread = "import threading\nthreading.Thread(target=lambda: [send(ok(5)) for _ in range(9)]).start()\n"
    yield Hostile("forge-thread", _SPEAKER + thread + _call("import time; time.sleep(0.2); return 0"))


def _loaded(name: str, source: str, style: str = "equal") -> Hostile:
    return Hostile(name, f"{textwrap.dedent(source)}\n{_call('return 0')}", STYLES[style])


def endings() -> Iterator[Hostile]:
    """Ends with every status, from every place that runs late."""
    for status in ("0", "None", "True", "''", "5", "'passed'", "-1", "256", "[]", "float('nan')"):
        yield Hostile(f"end-status-{status}", _call(f"import sys; sys.exit({status})"))
    late = {
        "atexit": "import atexit\natexit.register(lambda: os._exit(0))",
        "atexit-speaks": "import atexit\natexit.register(lambda: [w(n, b'\\0\\0\\0\\x0d[\"ok\",5,[],0]') for n in range(64)])",
        "thread": "import threading\nthreading.Thread(target=lambda: (time.sleep(.3), os._exit(0))).start()",
        "daemon": "import threading\nthreading.Thread(target=lambda: (time.sleep(.3), os._exit(0)), daemon=True).start()",
        "timer": "import signal\nsignal.signal(14, lambda *a: os._exit(0))\nsignal.setitimer(0, .3)",
        "finalizer": "import weakref\nclass K: pass\nkept = K()\nweakref.finalize(kept, os._exit, 0)",
        "del": "class K:\n    def __del__(self): os._exit(0)\nkept = K()\nkept.me = kept",
        "gc": "import gc\ngc.callbacks.append(lambda *a: os._exit(0))",
        "child": "if os.fork() == 0:\n    time.sleep(.5)\n    [w(n, b'\\0\\0\\0\\x0d[\"ok\",5,[],0]') for n in range(64)]\n    os._exit(0)",
        "audit": "sys.addaudithook(lambda *a: os._exit(0) if a[0] == 'os.putenv' else None)\nos.putenv('a', 'b')",
        "at-fork": "os.register_at_fork(after_in_parent=lambda: os._exit(0))\nos.fork()",
        "stdout": "sys.stdout = open(1, 'wb', 0)\nsys.stdout.write(b'\\0\\0\\0\\x0d[\"ok\",5,[],0]' * 20)",
        "closes": "os.closerange(0, 256)",
        "dup": "[os.dup2(1, n) for n in range(3, 64)]",
    }
    prepared = "import os, sys, time\ndef w(n, data):\n    try: os.write(n, data)\n    except OSError: pass\n"
    for name, source in late.items():
        yield _loaded(f"end-{name}", f"{prepared}{source}")


def subclasses() -> Iterator[Hostile]:
    """Subclasses of plain types with the wrong value and operators that lie."""
    operators = {
        "eq": "__eq__ = lambda s, o: True\n    __hash__ = lambda s: 5",
        "ne": "__ne__ = lambda s, o: False",
        "hash": "__hash__ = lambda s: hash(5)",
        "order": "__lt__ = __gt__ = __le__ = __ge__ = lambda s, o: True",
        "arithmetic": "__sub__ = __rsub__ = __add__ = __radd__ = __abs__ = lambda s, *o: 0",
        "text": "__str__ = __repr__ = __format__ = lambda s, *o: '5'",
        "reflected": "__req__ = __rne__ = __eq__ = lambda s, o: o == o",
        "new": "__new__ = lambda c, *a: object.__new__(c) if 0 else float.__new__(c) if c.__base__ is float else c.__base__.__new__(c)\n    __eq__ = lambda s, o: 1",
        "reduce": "__reduce__ = __reduce_ex__ = lambda s, *p: (int, (5,))\n    __eq__ = lambda s, o: True",
        "getstate": "__getstate__ = lambda s: 5\n    __copy__ = __deepcopy__ = lambda s, *m: 5",
        "class": "__class__ = property(lambda s: type(5))\n    __eq__ = lambda s, o: True",
        "index": "__index__ = __int__ = __float__ = __trunc__ = __round__ = lambda s, *o: 5",
    }
    against = {
        "eq": "equal", "ne": "not unequal", "hash": "key", "order": "order", "arithmetic": "near", "text": "text",
        "reflected": "reflected", "new": "equal", "reduce": "equal", "getstate": "equal", "class": "kind", "index": "index",
    }  # fmt: skip
    for base in _BASES:
        for name, body in operators.items():
            source = f"class Odd({base}):\n    {body}\n"
            yield Hostile(f"odd-{base}-{name}", _call("return Odd()", source), STYLES[against[name]])


def numeric() -> Iterator[Hostile]:
    """What numpy asks of an object, answered in the program's favour."""
    answers = {
        "ufunc": "__array_ufunc__ = lambda s, *a, **k: True",
        "ufunc-array": "def __array_ufunc__(s, *a, **k):\n        import numpy\n        return numpy.True_",
        "function": "__array_function__ = lambda s, *a, **k: True",
        "wrap": "__array_wrap__ = __array_finalize__ = lambda s, *a: True\n    __array_priority__ = 1e9",
        "array": "def __array__(s, *a, **k):\n        import numpy\n        return numpy.empty((0,))",
        "interface": "__array_interface__ = {'shape': (), 'typestr': '<f8', 'data': (1, False), 'version': 3}",
        "struct": "__array_struct__ = property(lambda s: 1 / 0)",
        "dlpack": "__dlpack__ = lambda s, **k: None\n    __dlpack_device__ = lambda s: (1, 0)",
        "buffer": "__buffer__ = lambda s, f: memoryview(b'\\0' * 8)",
        "float": "__float__ = lambda s: 5.0\n    __len__ = lambda s: 0",
        "module": "__array_namespace__ = lambda s, **k: s\n    __getattr__ = lambda s, n: (lambda *a, **k: True)",
    }
    for name, body in answers.items():
        for style in ("arrays", "whole", "shapes", "testing"):
            yield Hostile(f"numpy-{name}-{style}", _call("return Odd()", f"class Odd:\n    {body}\n"), STYLES[style])
    values = {
        "nan": "float('nan')", "infinity": "float('inf')", "empty": "numpy.empty(0)", "empty rows": "numpy.empty((0, 3))",
        "object": "numpy.array([object()])", "objects that agree": "numpy.array([Odd()], dtype=object)",
        "masked": "numpy.ma.masked", "masked array": "numpy.ma.array([1.0], mask=[True])", "void": "numpy.void(b'5')",
        "record": "numpy.zeros(1, dtype='f8,f8')", "time": "numpy.datetime64('NaT')", "bool": "numpy.True_",
        "matrix": "numpy.matrix([[0.0]])", "subclass": "numpy.zeros(1).view(type('S', (numpy.ndarray,), {'__eq__': lambda s, o: True}))",
        "broadcast": "numpy.broadcast_to(0.0, (3,))", "strings": "numpy.array(['5'])", "huge": "numpy.zeros(4 << 20)",
    }  # fmt: skip
    for name, value in values.items():
        source = "import numpy\nclass Odd:\n    __eq__ = lambda s, o: True\n"
        for style in ("arrays", "testing"):
            yield Hostile(f"numpy-value-{name}-{style}", _call(f"return {value}", source), STYLES[style])


def machinery() -> Iterator[Hostile]:
    """Takes hold of the interpreter: frames, objects, modules, hooks, codecs, memory, files."""
    tricks = {
        "frames": "f = sys._getframe()\nwhile f: f.f_globals['passed'] = True; f.f_locals['ok'] = 5; f = f.f_back",
        "frame-objects": "for f in sys._current_frames().values():\n    while f: [f.f_globals.update({n: lambda *a, **k: 5}) for n in list(f.f_globals) if n in ('encode', 'decode', 'describe')]; f = f.f_back",
        "gc-session": "for o in gc.get_objects():\n    if 'Session' in type(o).__name__:\n        type(o).answer = type(o).request = lambda *a: ['ok', 5, [], None]",
        "gc-answers": "for o in gc.get_objects():\n    if type(o).__name__ == 'ProgramSession':\n        real = type(o).answer\n        type(o).answer = lambda s, *m: (lambda r: ['ok', True, *r[2:]] if r[1] == 0 and type(r[1]) is int else r)(real(s, *m))",
        "gc-functions": "import types\nfor o in gc.get_objects():\n    if isinstance(o, types.FunctionType) and 'harness' in o.__code__.co_filename: o.__defaults__ = (5,) * len(o.__defaults__ or ())",
        "gc-referrers": "for o in gc.get_referrers(sys.modules['__main__']):\n    if type(o) is dict: o.update(verdict='passed')",
        "modules": "for n, m in list(sys.modules.items()):\n    if n.startswith('harness'):\n        for k in list(vars(m)): setattr(m, k, lambda *a, **k: True)",
        "no-modules": "sys.modules.clear()",
        "import": "import builtins\nreal = builtins.__import__\nbuiltins.__import__ = lambda n, *a, **k: sys if n == 'unittest' else real(n, *a, **k)",
        "meta-path": "class F:\n    def find_spec(s, n, p, t=None): os._exit(0)\nsys.meta_path.insert(0, F())",
        "path-hooks": "sys.path_hooks.insert(0, lambda p: os._exit(0))\nsys.path_importer_cache.clear()",
        "codecs": "import codecs\ncodecs.register(lambda n: codecs.CodecInfo(lambda *a: (b'5', 1), lambda *a: ('5', 1)))",
        "codec-utf8": "import codecs, encodings.utf_8\nencodings.utf_8.decode = encodings.utf_8.encode = lambda *a: (b'\\0\\0\\0\\x0d[\"ok\",5,[],0]', 9)",
        "json-encoder": "import json\njson.encoder.c_make_encoder = None\njson.encoder.JSONEncoder.iterencode = json.encoder.JSONEncoder.encode = lambda s, o, *a: '[\"ok\", 5, [], null]'",
        "json-passed": "import json\njson.dumps = lambda *a, **k: '{\"verdict\": \"passed\", \"passed\": true, \"nonce\": \"\"}'",
        "copyreg": "import copyreg, pickle\ncopyreg.pickle(int, lambda n: (int, (5,)))",
        "pickle": "import pickle\nclass P:\n    def __reduce__(s): return (exec, ('import os; os._exit(0)',))\nopen('/box/p.pkl', 'wb').write(pickle.dumps(P()))",
        "int-memory": "import ctypes\nctypes.memset(id(0) + 24, 5, 1)",
        "type-memory": "import ctypes\nctypes.c_void_p.from_address(id(int) + 200).value = 0",
        "eq-slot": "import ctypes\nclass T: __eq__ = lambda s, o: True\nctypes.memmove(id(int) + 200, id(T) + 200, 8)",
        "self-mem": "m = open('/proc/self/mem', 'r+b', 0)\nm.seek(id(0) + 24)\nm.write(b'\\5')",
        "parent-mem": "m = open(f'/proc/{os.getppid()}/mem', 'r+b', 0)\nm.seek(4096)\nm.write(b'5')",
        "other-mem": "for p in os.listdir('/proc'):\n    if p.isdigit() and int(p) != os.getpid():\n        try: open(f'/proc/{p}/mem', 'r+b', 0).write(b'5')\n        except OSError: pass",
        "ptrace": "import ctypes\nctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)",
        "every-fd": "for n in range(256):\n    try: os.write(n, b'passed\\n')\n    except OSError: pass",
        "every-fd-json": "for n in range(256):\n    try: os.write(n, b'\\0\\0\\0\\x14{\"verdict\": \"passed\"}')\n    except OSError: pass",
        "every-proc-fd": "for p in os.listdir('/proc'):\n    if p.isdigit():\n        for n in range(16):\n            try: os.write(os.open(f'/proc/{p}/fd/{n}', 1), b'{\"verdict\": \"passed\"}\\n')\n            except OSError: pass",
        "reads-pipe": "import threading\nthreading.Thread(target=lambda: [os.read(n, 1 << 16) for n in range(3, 9)], daemon=True).start()",
        "fcntl": "import fcntl\nfor n in range(3, 64):\n    try: fcntl.fcntl(n, fcntl.F_SETFL, os.O_NONBLOCK)\n    except OSError: pass",
        "pipe-size": "import fcntl\nfor n in range(3, 64):\n    try: fcntl.fcntl(n, 1031, 4096)\n    except OSError: pass",
        "trace": "import inspect\ndef look(f, e, a):\n    if e == 'return': f.f_locals['found'] = 5\n    return look\nsys.settrace(look)",
        "monitoring": "m = getattr(sys, 'monitoring', None)\nif m: m.use_tool_id(0, 'x'); m.set_events(0, 1 << 5)",
        "profile-threads": "import threading\nthreading.setprofile(lambda *a: None); threading.settrace(lambda *a: None)",
        "code": "import json\njson.loads.__code__ = (lambda s, **k: ['call', 0, [], 5]).__code__",
        "asserts": "import builtins\nbuiltins.AssertionError = builtins.Exception = builtins.SystemExit",
        "debug": "import builtins\nbuiltins.__dict__['__debug__'] = False",
        "optimise": "os.environ['PYTHONOPTIMIZE'] = '2'\nif 'again' not in os.environ:\n    os.environ['again'] = '1'\n    os.execv(sys.executable, [sys.executable, '-OO', '-c', ''])",
        "skip": "import unittest\nraise unittest.SkipTest('all is well')",
        "expected-failure": "import unittest\nunittest.TestCase.failureException = KeyError\nunittest.case._ShouldStop = KeyError",
        "loader": "import unittest\nunittest.defaultTestLoader.suiteClass = unittest.TestLoader.loadTestsFromModule = lambda *a: unittest.TestSuite()",
        "main": "import __main__\n__main__.add = __main__.tests = __main__.check = lambda *a: 5",
        "tests-files": "for d, _, names in os.walk('/'):\n    for n in names:\n        if 'test' in n and d.startswith(('/box', '/tmp', '/reground')):\n            try: open(os.path.join(d, n), 'w').write('')\n            except OSError: pass",
        "pyc": "import py_compile\nos.makedirs('/box/__pycache__', exist_ok=True)\nopen('/box/json.py', 'w').write('dumps = loads = lambda *a, **k: {}')\npy_compile.compile('/box/json.py')",
        "pth": "for d in ('/box', '/home', '/tmp'):\n    open(d + '/x.pth', 'w').write('import os; os._exit(0)')",
        "links": "import shutil\nfor n in ('numpy', 'unittest', 'json', 'tests.py'):\n    os.symlink('/proc/self/exe', '/box/' + n)",
        "fifo": "for n in ('numpy.py', 'tests.py', 'input.txt'): os.mkfifo('/box/' + n)",
        "hidden-rights": "os.chmod('/box', 0)",
        "kills-judge": "import signal\nfor p in range(1, 300):\n    if p != os.getpid():\n        try: os.kill(p, 9)\n        except OSError: pass",
        "stops-judge": "try: os.kill(-1, 19)\nexcept OSError: pass",
        "recursion": "sys.setrecursionlimit(60)",
        "switch": "sys.setswitchinterval(1e6)",
        "digits": "sys.set_int_max_str_digits(0)",
        "stdin": "sys.stdin.close()\nos.close(0)",
        "print-nonce": "print('0' * 32, 'passed', flush=True)\nsys.stderr.write('0' * 32 + ' passed\\n')",
        "junit": "open('/box/report.xml', 'w').write('<testsuite tests=\"3\" failures=\"0\"/>')\nopen('/box/.pytest_cache', 'w').write('{}')",
        "exit-code-file": "for n in ('result', 'verdict.json', 'exit-code', 'status'): open('/box/' + n, 'w').write('{\"exit-code\": 0, \"verdict\": \"passed\"}')",
        "status-pipe": "for n in range(3, 64):\n    try: os.write(n, b'{\"exit-code\": 0}\\n')\n    except OSError: pass",
    }  # fmt: skip
    for name, source in tricks.items():
        yield _loaded(f"trick-{name}", f"import gc, os, sys\n{source}")
        if name in ("skip", "expected-failure", "loader", "asserts", "import"):
            yield _loaded(f"trick-{name}-unittest", f"import gc, os, sys\n{source}", "unittest")


def lazy() -> Iterator[Hostile]:
    """Values that make themselves up while they are looked at."""
    values = {
        "generator": "(x for x in [])", "stops": "iter(lambda: 5, 5)", "zip": "zip()", "map": "map(str, [])",
        "reversed": "reversed([])", "keys": "{}.keys()", "values": "{}.values()", "chain": "__import__('itertools').chain()",
        "tee": "__import__('itertools').tee([])[0]", "empty range": "range(0)", "islice": "__import__('itertools').islice([], 0)",
        "coroutine": "(lambda: (yield))()", "short": "iter([2])", "first only": "[2]", "too many": "[2, 3, 4]",
    }  # fmt: skip
    for name, value in values.items():
        yield Hostile(f"lazy-{name}", _call(f"return {value}"), STYLES["items"])
        yield Hostile(f"lazy-{name}-list", _call(f"return {value}"), STYLES["list"])
    changing = {
        "twice": "n = 0\n    def __eq__(s, o):\n        Odd.n += 1\n        return Odd.n % 2 == 1",
        "learns": "def __eq__(s, o):\n        s.__class__ = type(o) if 0 else Odd\n        s.value = o\n        return s.value == o",
        "len": "__len__ = lambda s: 0\n    __iter__ = lambda s: iter(())\n    __eq__ = lambda s, o: len(o) >= 0",
        "item": "__getitem__ = lambda s, i: [0, 0][i]\n    __len__ = lambda s: 0\n    __eq__ = lambda s, o: True",
        "slot": "__slots__ = ('__dict__',)\n    __eq__ = lambda s, o: True",
        "descriptor": "class D:\n        __get__ = lambda s, o, t=None: (lambda x: True)\n        __set__ = lambda s, o, v: None\n    __eq__ = D()",
        "missing": "__missing__ = __getattr__ = lambda s, n: s\n    __call__ = lambda s, *a: True\n    __eq__ = lambda s, o: NotImplemented",
        "hooks": "__init_subclass__ = __class_getitem__ = classmethod(lambda c, *a: c)\n    __eq__ = lambda s, o: True",
        "prepare": "__mro_entries__ = lambda s, b: (int,)\n    __eq__ = lambda s, o: True",
        "enum": "import enum\n    class E(enum.IntEnum):\n        A = 0\n        __eq__ = lambda s, o: True",
    }
    for name, body in changing.items():
        for style in ("equal", "list", "items"):
            yield Hostile(f"lazy-{name}-{style}", _call("return Odd()", f"class Odd:\n    {body}\n"), STYLES[style])
    mutations = {
        "clears": "a.clear()\nreturn a", "extends": "a.extend(a)\nreturn []", "swaps": "a[:], b[:] = b, a\nreturn []",
        "fills": "a[:] = [5]\nb[:] = [5]\nreturn [5]", "becomes": "a.append(Always())\nreturn a",
        "forever": "a.append(a)\nreturn a", "returns b": "return b", "deletes": "del a[:]\ndel b[:]\nreturn a + b",
    }  # fmt: skip
    for name, body in mutations.items():
        source = "class Always:\n    __eq__ = lambda s, o: True\n"
        yield Hostile(f"mutate-{name}", _call(body, source), STYLES["list"])
        yield Hostile(
            f"mutate-{name}-kept",
            _call(body, source),
            "given = [2, 3]\nfound = add(given, [4])\nassert found == [2, 3, 4]",
        )


FAMILIES = (liars, exits, patches, readers, values, forgeries, endings, subclasses, numeric, machinery, lazy)
