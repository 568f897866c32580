"""Files that reground wrote and something else has changed: each is read, or refused in a line that names it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from reground.core.lines import set_aside, with_sum
from reground.core.solve import solve
from reground.evaluation.records import Record, RunConfig
from reground.evaluation.summary import summarise
from reground.models.wrappers.cache import Cache

from reground.core.answers import PHRASE
from reground.core.errors import RegroundError
from reground.core.journal import SqliteJournal, checksum
from reground.core.language import Message, Sampling, Usage
from reground.core.run import Run
from reground.core.trajectory import append_trajectory, parse_trajectory, read_trajectories
from reground.evaluation.compare import Cell, Plan, read_plan
from reground.evaluation.report import build_reports, write_report
from reground.evaluation.results import open_run, read_records, read_run
from reground.evaluation.task import Score
from reground.evaluation.tuning import Choice, Tuning, read_tuning
from reground.evaluation.tuning import Trial as Tried
from reground.methods.cr_planner.states import SAYS, Observation, State
from reground.methods.cr_planner.tree import encode
from reground.models.gguf import read_header
from reground.retrieval.index import build_index, open_index
from reground.training.critics.collect import read_trees
from reground.treesearch.files import write_tree
from reground.treesearch.tree import Node, Settings, Tree
from tests.campaign import fuzz_bad as bad
from tests.campaign.trial import Trial
from tests.methods import every

_ASK = (Message(role="user", content="Which is longer?"),)


@cache
def _template() -> Path:
    """One folder with a good file of every kind, made once for a process."""
    folder = Path(tempfile.mkdtemp(prefix="reground-fuzz-good-"))
    _write_run(folder / "run")
    (folder / "docs").mkdir()
    (folder / "docs" / "danube.md").write_text("# Danube\n\nThe Danube is 2850 km long.\n")
    (folder / "docs" / "rhine.txt").write_text("The Rhine is 1230 km long.\n")
    build_index(folder / "docs", folder / "index")
    root = State("Which is longer?")
    child = root.after(Observation("REASON", SAYS["REASON"]))
    leaf = Node(state=child, label="REASON", visits=1, value=1.0, rewards=(1.0,), data={"a": 1}, expanded=False)
    tree = Tree(
        root=Node(state=root, visits=1, value=1.0, expanded=True, children=(leaf,)),
        settings=Settings(),
        metadata={},
    )
    write_tree(folder / "trees" / "q1.json", tree, encode)
    (folder / "model.gguf").write_bytes(_gguf())
    asyncio.run(_write_cache(folder / "cache.sqlite"))
    return folder


def _write_run(folder: Path) -> None:
    config = RunConfig(task="sums", data="d", primary="em", form="phrase", method="cr_planner", model="openai/mock")
    with open_run(folder, config) as run:
        journal = SqliteJournal(run.journal)
        for name in ("cr_planner", "rar", "search_agent"):
            method = every.build(name, PHRASE)
            assert method is not None
            solved = asyncio.run(
                solve(
                    method,
                    every.QUESTION,
                    Run(run_id="r", question_id=name, journal=journal),
                    id=f"{name}~0",
                    name=name,
                )
            )
            append_trajectory(run.trajectories, solved.trajectory)
        journal.close()
        records = [
            Record(
                id=f"q{i}~0",
                example=f"q{i}",
                repeat=0,
                scores={"em": Score(value=i % 2)},
                usage=Usage(calls=1, usd=0.1),
            )
            for i in range(3)
        ]
        for record in records:
            run.append_record(record)
        run.write_summary(summarise(config, records, expected=3))
    cell = Cell(method="cr_planner", tokens=1000)
    (folder / "compare.json").write_text(Plan(task="sums", baseline="cr_planner", cells=(cell,)).model_dump_json())
    trial = Tried(settings={"k": 1}, mean=0.5, tokens=10, failed=0)
    tuning = Tuning(task="sums", choices=(Choice(cell=cell, questions=2, trials=(trial, trial), chosen=0),))
    (folder / "tuning.json").write_text(tuning.model_dump_json())


async def _write_cache(path: Path) -> None:
    model = Cache(every.model(), path)
    await model.generate(_ASK, Sampling())
    await model.aclose()


def _gguf() -> bytes:
    def text(said: bytes) -> bytes:
        return struct.pack("<Q", len(said)) + said

    pairs = [
        text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
        text(b"llama.context_length") + struct.pack("<II", 4, 2048),
        text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"<s>") + text(b"a"),
        text(b"tokenizer.ggml.token_type") + struct.pack("<IIQii", 9, 5, 2, 3, 1),
    ]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)


def attempt(number: int, folder: Path) -> list[Trial]:
    """One file spoiled, and read by what reads it."""
    chance = random.Random(f"files {number}")
    name = list(_KINDS)[number % len(_KINDS)]
    spoil, read = _KINDS[name]
    shutil.copytree(_template(), folder, dirs_exist_ok=True)
    what = f"number {number}: {spoil(folder, chance)}"
    try:
        read(folder)
    except RegroundError as error:
        return [Trial(name, str(folder) in str(error), f"{what}: {error}")]
    except Exception as error:
        return [Trial(name, False, f"{what}: {bad.uncaught(error)}")]
    return [Trial(name, True, what)]


def _lines_of(name: str) -> Callable[[Path, random.Random], str]:
    """Spoil one line of a file of lines; with a checksum that fits, with one that does not, or without."""

    def spoil(folder: Path, chance: random.Random) -> str:
        path = folder / name
        lines = path.read_bytes().splitlines()
        at = chance.randrange(len(lines))
        line = bad.line(json.loads(lines[at]), chance)
        if chance.random() < 0.4:
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict):
                    record.pop("sum", None)
                    line = with_sum(json.dumps(record)).strip()
        path.write_bytes(b"\n".join([*lines[:at], line, *lines[at + 1 :]]) + b"\n" * chance.randrange(2))
        return f"{name}: {bad.short(line)}"

    return spoil


def _json_of(*names: str) -> Callable[[Path, random.Random], str]:
    """Spoil a file that is one JSON value."""

    def spoil(folder: Path, chance: random.Random) -> str:
        name = chance.choice(names)
        (path,) = folder.glob(name)
        record = json.loads(path.read_bytes())
        if chance.random() < 0.6 and isinstance(record, dict):
            record.pop("sum", None)
        content = bad.line(record, chance)
        path.write_bytes(content)
        return f"{name}: {bad.short(content)}"

    return spoil


def _bytes_of(*names: str) -> Callable[[Path, random.Random], str]:
    """Spoil a file's bytes, or put something else in its place."""

    def spoil(folder: Path, chance: random.Random) -> str:
        path = chance.choice(sorted(file for name in names for file in folder.glob(name) if file.is_file()))
        content = path.read_bytes()
        if chance.random() < 0.1:
            path.unlink()
            if chance.random() < 0.5:
                path.mkdir()
            return f"{path.relative_to(folder)} gone or a folder"
        path.write_bytes(bad.data(content, chance))
        return f"{path.relative_to(folder)}: {bad.short(path.read_bytes())}"

    return spoil


def _rows_of(name: str, table: str, column: str, others: tuple[str, ...]) -> Callable[[Path, random.Random], str]:
    """Spoil the JSON of one row of a database, with a checksum that fits it, or none."""

    def spoil(folder: Path, chance: random.Random) -> str:
        with contextlib.closing(sqlite3.connect(folder / name)) as db:
            rows = db.execute(f"SELECT {', '.join(others)}, {column} FROM {table}").fetchall()
            *values, found = chance.choice(rows)
            changed = bad.line(json.loads(found), chance).decode("utf-8", "replace")
            at = others.index("elapsed") if "elapsed" in others else len(others)
            mark = checksum(*values[:at], changed, *values[at:]) if chance.random() < 0.8 else None
            db.execute(f"UPDATE {table} SET {column}=?, sum=? WHERE {column}=?", (changed, mark, found))
            if chance.random() < 0.1:
                with contextlib.suppress(sqlite3.IntegrityError):
                    other = chance.choice((None, 5, 0.5, b"x", "x"))
                    db.execute(f"UPDATE {table} SET {chance.choice(others)}=?", (other,))
            db.commit()
        return f"{name}: {bad.short(changed)}"

    return spoil


def _read_trajectories(folder: Path) -> None:
    path = folder / "run" / "trajectories.jsonl"
    try:
        list(read_trajectories(path))
    finally:
        set_aside(path, parse_trajectory)
        list(read_trajectories(path))


def _read_scores(folder: Path) -> None:
    path = folder / "run" / "scores.jsonl"
    try:
        list(read_records(path))
    finally:
        set_aside(path, Record.model_validate_json)


def _read_run(folder: Path) -> None:
    run = read_run(folder / "run")
    run.summary()
    run.records()
    read_tuning(folder / "run")
    read_plan(folder / "run")


def _report(folder: Path) -> None:
    write_report(build_reports([folder / "run"]), folder / "out")


def _replay(folder: Path) -> None:
    journal = SqliteJournal(folder / "run" / "journal.sqlite")
    try:
        for name in ("cr_planner", "rar"):
            method = every.build(name, PHRASE)
            assert method is not None
            run = Run(run_id="r", question_id=name, journal=journal)
            solved = asyncio.run(solve(method, every.QUESTION, run, id=name, name=name))
            if solved.error is not None:
                raise solved.error
    finally:
        journal.close()


def _cached(folder: Path) -> None:
    async def ask() -> None:
        model = Cache(every.model(), folder / "cache.sqlite")
        try:
            assert list(await model.generate(_ASK, Sampling()))
        finally:
            await model.aclose()

    asyncio.run(ask())


def _search(folder: Path) -> None:
    retriever = open_index(folder / "index")
    asyncio.run(retriever.retrieve("How long is the Danube?", k=2))


def _search_and_build(folder: Path) -> None:
    try:
        _search(folder)
    finally:
        build_index(folder / "docs", folder / "index")


_KINDS: dict[str, tuple[Callable[[Path, random.Random], Any], Callable[[Path], None]]] = {
    "Trajectories with a line changed": (_lines_of("run/trajectories.jsonl"), _read_trajectories),
    "Trajectories with bytes changed": (_bytes_of("run/trajectories.jsonl"), _read_trajectories),
    "Scores with a line changed": (_lines_of("run/scores.jsonl"), _read_scores),
    "Scores with bytes changed": (_bytes_of("run/scores.jsonl"), _read_scores),
    "A run's JSON files changed": (
        _json_of("run/config.json", "run/summary.json", "run/tuning.json", "run/compare.json"),
        _read_run,
    ),
    "A run's files with bytes changed": (_bytes_of("run/*.json"), _read_run),
    "A report on a changed run": (
        lambda folder, chance: chance.choice(
            (
                _lines_of("run/scores.jsonl"),
                _json_of("run/config.json", "run/tuning.json", "run/compare.json"),
                _bytes_of("run/*.json*"),
            )
        )(folder, chance),
        _report,
    ),
    "A tree changed": (_json_of("trees/q1.json"), lambda folder: list(read_trees(folder)) and None),
    "A tree with bytes changed": (_bytes_of("trees/q1.json"), lambda folder: list(read_trees(folder)) and None),
    "A journal with a row changed": (
        _rows_of(
            "run/journal.sqlite", "effects", "result", ("run", "question", "span", "ordinal", "fingerprint", "elapsed")
        ),
        _replay,
    ),
    "A journal with bytes changed": (_bytes_of("run/journal.sqlite*"), _replay),
    "A cache with a row changed": (_rows_of("cache.sqlite", "replies", "replies", ("key",)), _cached),
    "A cache with bytes changed": (_bytes_of("cache.sqlite*"), _cached),
    "An index's manifest changed": (_json_of("index/manifest.json"), _search_and_build),
    "An index with bytes changed": (_bytes_of("index/manifest.json", "index/*/*", "index/*/*/*"), _search_and_build),
    "A GGUF file changed": (_bytes_of("model.gguf"), lambda folder: read_header(folder / "model.gguf") and None),
}
