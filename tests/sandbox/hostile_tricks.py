"""More hostile families: tricks that are public from training runs in which a program was rewarded for its verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tests.sandbox.hostile_families import _BASES, STYLES, Hostile, _call


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


_VALUES = {"int": "5", "float": "5.0", "str": "'5'", "bytes": "b'5'", "bool": "1", "complex": "5j"}


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


TRICKS = (endings, subclasses, numeric, machinery, lazy)
