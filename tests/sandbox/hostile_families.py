"""Hostile programs, alone and in families: each computes nothing and wants to pass, or to exceed its limits.

A program is its source and the tests that it is up against; the right answer is always Python's own `a + b`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

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


ALONE = (
    Hostile("breaks the parser", '(' * 20000, expect="syntax, exception, memory"),
    Hostile("calls back for more", """
def add(function, b):
    return function.__globals__["__builtins__"]["open"]
""", tests="assert add(lambda x: x, 5) == 5", expect="exception"),
    Hostile("contains everything", """
class Everything:
    def __contains__(self, item):
        return True
    def __iter__(self):
        return iter([1])
def add(a, b):
    return Everything()
""", tests="assert 5 in add(2, 3)", expect="wrong answer"),
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
    Hostile("nests deeply", """
import sys
sys.setrecursionlimit(10**6)
def add(a, b):
    value = []
    for _ in range(20000):
        value = [value]
    return value
""", expect="wrong answer, exception"),
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
    for file in (
        "conftest.py",
        "tests.py",
        "unittest.py",
        "numpy.py",
        "json.py",
        "sitecustomize.py",
        "usercustomize.py",
    ):
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


def hostile_programs() -> list[Hostile]:
    """All of them."""
    families = (liars, exits, patches, readers, values, forgeries)
    return [program for family in families for program in family()]
