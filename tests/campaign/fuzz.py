"""Command lines with bad values: every command, option, setting and key of the configuration file. Nothing is uncaught.

The commands and their options are read from the parser itself, so that a new one is tried without a word here. Every
attempt runs in a worker, a process of its own, with a time bound and a limit on memory: an attempt that hangs or kills
its process is a promise that fell, and the next one gets a new worker. The worker's stack is then on standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import faulthandler
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path
from typing import Any

from reground.app.catalogue import method, methods
from reground.app.cli import run
from reground.app.cli.commands import cli
from reground.models.options import ModelOptions
from reground.testing.openai_server import MockOpenAI
from tests.app.reference import each_command
from tests.campaign.runner import Part, Trial
from tests.evaluation import benchmark_files
from tests.servers import serving

HUGE = 99999999999999999999
TEXTS = (
    "", " ", "\n", "\t\x00", "\x00", "\x1b[31m", "\u202e", "\ud800", "x\udcff", "\ufeff", "x" * 5_000, "é" * 300, "的", "🧪",
    "null", "none", "true", "NaN", "inf", "-inf", "1e999", "-1", "0", "0.5", "1,2,3", ",", ",,", "[", "]", "{}", "[[1]]",
    "{a = 1}", '"', "'", "\\", "../..", "/dev", "/etc", "/dev/null", "~", "absent/none", "a:b", ":", "=", "a=b", "--", "-",
    "%s", "{0}", "{}", "${HOME}", "<|im_end|>", "1-", "5-1", "0x10", "١٢", "²", "1_000", "1 000", str(HUGE), f"-{HUGE}",
    "1" * 5_000, "9" * 400, "k", "openai/", "/x", "openai/mock", "hf/", "gguf/", "gguf/absent.gguf", "http://", "ftp://x",
    "http://[::1", "http://x:99999", "rar", "rar+", "+paper", "a.py", "prompted:", "random:x",
)  # fmt: skip

VALUES = (
    None, True, False, 0, 1, -1, 5, HUGE, -HUGE, 2**31, 2**63, 10**6, 10**400, 0.5, -0.5, 1e308, 5e-324,
    float("inf"), float("-inf"), float("nan"), [], {}, [[]], [{}], [None], [1], ["a"], {"a": 1}, {"": None},
    {"id": "x"}, [True], [0.5, "x"], {"question": "x"},
)  # fmt: skip


_ONCE = b"attempts = 1\n"
"""A server that nobody reaches is tried once, not for a minute."""
DOCUMENTED = {0, 1, 2, 3, 4}
_LONGEST_LINE = 2_000
_SAID = (
    *("Answer: A [1].", "The Danube is longer.\n\nAnswer: yes", "OK", "1", ""),
    *("Thought: x\nAction: Search[x]", "```python\nx = 1\n```"),
)


@cache
def _url() -> str:
    """A model's server in this process; it replies by the prompt's length, so that a trial is the same every time."""
    server = MockOpenAI(lambda body: _SAID[len(str(body["messages"])) % len(_SAID)], models=("mock", "x"))
    holder = contextlib.ExitStack()
    holder.enter_context(serving(server))
    _OPEN.append(holder)
    return server.url


_OPEN: list[contextlib.ExitStack] = []


@cache
def _template() -> Path:
    """A folder with documents, an index, a run, a trace, benchmark data, and things that are no such thing."""
    folder = Path(tempfile.mkdtemp(prefix="reground-fuzz-home-"))
    (folder / "docs").mkdir()
    (folder / "docs" / "danube.md").write_text("# Danube\n\nThe Danube is 2850 km long.\n")
    (folder / "docs" / "rhine.txt").write_text("The Rhine is 1230 km long.\n")
    benchmark_files.write(folder / "data")
    model = ["--model", "openai/mock", "--base-url", _url()]
    for made in (
        ["index", "docs", "--out", "index"],
        ["ask", "Which is longer?", "--method", "rag", "--corpus", "docs", "--trace", "trace.jsonl", *model],
        ["eval", "--task", "gsm8k", "--data", "data", "--limit", "1", "--out", "run", "--cache", "cache.db", *model],
    ):
        code, said = _here(made, folder)
        assert code in DOCUMENTED, said
    (folder / "binary").write_bytes(random.Random(0).randbytes(2_000))
    (folder / "empty").mkdir()
    (folder / "nothing").write_bytes(b"")
    (folder / "broken.py").write_text("def (")
    (folder / "broken.toml").write_text("a = ")
    return folder


_PLACES = ("docs", "index", "run", "trace.jsonl", "data", "binary", "empty", "nothing", "broken.py", "broken.toml", "absent", "absent/x", "docs/danube.md", "cache.db")  # fmt: skip


@cache
def commands() -> dict[tuple[str, ...], Any]:
    """Every command with something to do, by its words."""
    return {tuple(path.split()): command for path, command in sorted(each_command(cli))}


def _good(words: tuple[str, ...]) -> list[str]:
    """Arguments with which a command does its work at little cost."""
    model = ["--model", "openai/mock", "--base-url", _url()]
    few = ["--limit", "1", "--budget-calls", "6", "--quiet"]
    return {
        ("ask",): ["Which is longer?", "--corpus", "docs", "--quiet", "--budget-calls", "12", *model],
        ("eval",): ["--task", "gsm8k", "--method", "direct", "--out", "out", *few, *model],
        ("compare",): ["--task", "nq_open", "--methods", "direct,rag", "--budgets", "1k", "--corpus", "docs", "--out", "out", *few[:2], "--quiet", *model],
        ("report",): ["run"],
        ("judge",): ["run", "--judges", "openai/mock", "--base-url", _url(), "--out", "out", "--quiet"],
        ("show",): ["trace.jsonl"],
        ("index",): ["docs", "--out", "new"],
        ("train", "critics", "collect"): ["--task", "nq_open_train", "--corpus", "docs", "--simulations", "1", "--out", "out", *few, *model],
        ("models", "pull"): ["absent"],
        ("demo",): ["Which is longer?", "--model", "openai/mock", "--method", "direct"],
    }.get(words, [])  # fmt: skip


def _command(number: int, folder: Path) -> list[Trial]:
    """One command line, tried in a fresh folder."""
    chance = random.Random(f"commands {number}")
    shutil.copytree(_template(), folder, dirs_exist_ok=True)
    kind, arguments, config = _KINDS[number % len(_KINDS)](chance)
    (folder / "reground.toml").write_bytes(_ONCE if config is None else config)
    if arguments[:1] == ["demo"] and "--model" not in arguments:
        arguments.insert(1, "--model=openai/mock")  # a real model may be installed here, and takes its time
    arguments = [argument.replace("\x00", "\ufffd") for argument in arguments]
    if not arguments:
        return []  # help, on standard output
    code, said = _here(arguments, folder)
    why = _flaw(code, said)
    what = f"number {number}: {_short(arguments)}" + ("" if config is None else f" with {_short(config)}")
    return [Trial(kind, not why, f"{what}: {why}")]


def _flaw(code: int | str, said: str) -> str:
    """What is wrong with how a command ended; empty for nothing."""
    if code not in DOCUMENTED:
        return f"exit code {code}: {said[-700:]}"
    if "Traceback" in said or "internal error" in said:
        return said[-700:]
    if code != 2:
        return ""
    lines = [line for line in said.splitlines() if line.startswith("error:")]
    if not lines and "Usage:" not in said and "\nError: " not in f"\n{said}":
        return f"exit code 2 without a line that says why: {said[-300:]!r}"
    longest = max(map(len, said.splitlines()), default=0)
    return f"a line of {longest} characters" if longest > _LONGEST_LINE else ""


def _environment(folder: Path) -> dict[str, str]:
    return {
        "REGROUND_HOME": str(folder / "home"),
        "REGROUND_DATA": str(folder / "data"),
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": _url(),
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "OLLAMA_HOST": "http://127.0.0.1:9",
        **{"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "0"},  # no model is brought
        "COLUMNS": "120",
    }


def _here(arguments: list[str], folder: Path) -> tuple[int | str, str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    with _within(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: int | str = run(arguments)
        except BaseException as error:
            code = _uncaught(error)
    said = err.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    return code, said


@contextlib.contextmanager
def _within(folder: Path) -> Iterator[None]:
    before, place = dict(os.environ), Path.cwd()
    os.environ.update(_environment(folder))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(place)
        os.environ.clear()
        os.environ.update(before)


_Tried = tuple[str, list[str], bytes | None]
"""The kind of a command line, its words, and the configuration file."""


def _value(chance: random.Random) -> str:
    """A value that an option may not expect; paths are given to options of every kind now and then."""
    roll = chance.random()
    if roll < 0.25:
        return chance.choice(_PLACES)
    if roll < 0.5:
        found = str(chance.choice(VALUES))
        return found if len(found) < 5_000 else "9" * 400
    return chance.choice(TEXTS)


def _options(chance: random.Random) -> _Tried:
    words, command = chance.choice(list(commands().items()))
    arguments = [*_good(words)]
    for _ in range(chance.choice((1, 1, 2, 4))):
        parameter = chance.choice([each for each in command.params if each.name != "help"] or [None])
        if parameter is None:
            arguments.append(_value(chance))
        elif getattr(parameter, "is_flag", False):
            arguments.append(chance.choice(parameter.opts))
        elif parameter.param_type_name == "argument":
            arguments.insert(0, _value(chance))
        else:
            arguments += [chance.choice(parameter.opts), _value(chance)]
    if chance.random() < 0.1 and arguments:
        del arguments[chance.randrange(len(arguments))]
    return f"Options of {' '.join(words)}", [*words, *arguments], None


def _settings(chance: random.Random) -> _Tried:
    name = chance.choice(sorted(methods()))
    fields = [f.name for f in dataclasses.fields(method(name).cls)]  # type: ignore[arg-type]
    given: list[str] = []
    for _ in range(chance.choice((1, 1, 2))):
        key = chance.choice(fields) if chance.random() < 0.95 else _value(chance)
        given += ["--set", f"{key}={_value(chance)}"]
    form = ["--form", chance.choice(("phrase", "text", "program", "pal", "number", "plan", "choice"))]
    words = ["ask", *_good(("ask",)), "--method", name, *given, *(form if chance.random() < 0.4 else [])]
    return "Settings of methods", words, None


def _toml(value: Any, chance: random.Random) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "1979-05-27T07:32:00Z"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(_toml(each, chance) for each in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each, chance)}" for key, each in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else str(value)


def _configuration(chance: random.Random) -> _Tried:
    words = chance.choice([("ask",), ("eval",), ("compare",), ("train", "critics", "collect")])
    options = [opt[2:].replace("-", "_") for p in commands()[words].params for opt in p.opts if opt.startswith("--")]
    keys = [*options, *(f.name for f in dataclasses.fields(ModelOptions))]
    lines, tables = [], []
    for _ in range(chance.choice((1, 1, 2, 4))):
        shown = _toml(chance.choice((*TEXTS, *VALUES)), chance)
        roll = chance.random()
        if roll < 0.65:
            lines.append(f"{chance.choice(keys)} = {shown}")
        elif roll < 0.75:
            lines.append(f"{json.dumps(chance.choice(TEXTS))} = {shown}")
        elif roll < 0.87:
            tables.append(f"[budget]\n{chance.choice(('tokens', 'calls', 'seconds', 'usd', 'x'))} = {shown}")
        else:
            tables.append(f"[settings]\n{chance.choice(('k', 'max_tokens', 'temperature', 'prompts', 'x'))} = {shown}")
    written = _ONCE + "\n".join([*lines, *tables]).encode("utf-8", "surrogatepass")
    if chance.random() < 0.2:
        at = chance.randrange(len(written))
        more = (b"", b"\xff", b"\xed\xa0\x80", b"\x00", b"\r", b"[" * 200_000, b"1" * 5_000, chance.randbytes(40))
        written = written[:at] + chance.choice(more) + written[at + chance.choice((0, 1, 5)) :]
    drop = {"--budget-calls", "--limit", "--base-url"} if chance.random() < 0.3 else set()
    good = _good(words)
    kept = [each for i, each in enumerate(good) if each not in drop and (i == 0 or good[i - 1] not in drop)]
    named = ["--config", "reground.toml"] if chance.random() < 0.7 else []
    return "The configuration file", [*words, *kept, *named], written


def _words(chance: random.Random) -> _Tried:
    count = chance.randrange(6)
    known = [word for words in commands() for word in words]
    words = [chance.choice(known) if chance.random() < 0.4 else _value(chance) for _ in range(count)]
    return "Words at random", words, None


_KINDS = (_options, _settings, _configuration, _options, _settings, _configuration, _options, _words)


def _short(given: object) -> str:
    """What was tried, for the record."""
    said = ascii(given)
    return said if len(said) <= 600 else f"{said[:450]}...{said[-150:]}"


def _uncaught(error: BaseException) -> str:
    """An exception that should not have come through, with where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "reground" in frame.filename] or frames
    where = ", ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in own[-3:])
    return f"{type(error).__name__}: {_short(str(error))[:200]} at {where}"


SECONDS = 60
"""What one attempt may take. It takes well below one second; a machine that is busy with other work needs room."""
MEMORY = 6 << 30
"""Bytes of address space; what asks for more gets a MemoryError."""
_workers: list[ProcessPoolExecutor] = []


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)


def _tried(number: int) -> list[Trial]:
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        with tempfile.TemporaryDirectory(prefix="reground-fuzz-", ignore_cleanup_errors=True) as folder:
            trials = _command(number, Path(folder))
    finally:
        faulthandler.cancel_dump_traceback_later()
    return [
        dataclasses.replace(trial, what=trial.what.encode("utf-8", "backslashreplace").decode()) for trial in trials
    ]


async def attempt(number: int) -> Sequence[Trial]:
    """One command line; one trial that fell where its worker did not come back."""
    if not _workers:
        spawning = multiprocessing.get_context("spawn")
        _workers.append(ProcessPoolExecutor(1, mp_context=spawning, initializer=_limit))
    try:
        return await asyncio.wrap_future(_workers[0].submit(_tried, number))
    except BrokenProcessPool as error:
        _workers.pop().shutdown()
        return [Trial("A command that ends the process or hangs", False, f"number {number}: {error}")]


PART = Part(
    name="fuzz",
    promise="No command line ends in a stack trace, an internal error or a hang",
    short=16,
    long=4_000,
    attempt=attempt,
)
