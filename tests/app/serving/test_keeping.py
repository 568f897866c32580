"""A server removes the runs that nobody has asked for long, and no others."""

import asyncio
import os
import time

from reground.app.options import Serve
from reground.app.runs import MARK, TRASH, Keeping, folder_lock
from reground.app.serving.engine import open_engine
from reground.core.budget import Budget
from reground.core.language import Message
from tests.app.serving.served import Slow, engine_of


def answering():
    return Slow(lambda messages, sampling: "An answer.", seconds=0.01)


def keeping(home, model=None, *, keep=30):
    return engine_of(home, model or answering(), keep=() if keep is None else (keep,))


async def run_of(engine, text, *, budget=None):
    """Ask; the folder of the run."""
    found = await engine.ask("", [Message(role="user", content=text)], budget=budget)
    return found.trajectory_path.parent


def aged(folder, days):
    at = time.time() - days * 86400
    os.utime(folder / MARK, (at, at))


def folders(home, pattern):
    return [*home.rglob(pattern)]


def sweep(engine):
    assert engine.keeping is not None
    return engine.keeping.sweep()


async def test_old_runs_go_and_young_ones_stay(tmp_path):
    model = answering()
    engine = keeping(tmp_path, model)
    old, young = await run_of(engine, "old?"), await run_of(engine, "young?")
    limited = await run_of(engine, "old?", budget=Budget(calls=9))
    assert sweep(engine) == 0
    for folder, days in ((old, 31), (young, 29), (limited, 31)):
        aged(folder, days)
    assert sweep(keeping(tmp_path)) == 2, "also of another server over an old home"
    assert [each.exists() for each in (old, young, limited)] == [False, True, False]
    assert not folders(tmp_path, f"{TRASH}*")
    assert await run_of(engine, "old?") == old
    assert model.ended == 4, "answered again"


async def test_of_too_many_runs_those_that_nobody_asked_for_longest_go(tmp_path):
    engine = keeping(tmp_path)
    runs = [await run_of(engine, f"{number}?") for number in range(4)]
    for days, folder in enumerate(reversed(runs), start=1):
        aged(folder, days)
    (runs[2] / "more").write_bytes(b"x" * 1_000_000)
    assert Keeping(tmp_path, 30, most=2_000_000).sweep() == 0
    assert Keeping(tmp_path, 0, most=1_000_000).sweep() == 3
    assert [each.exists() for each in runs] == [False, False, False, True]


async def test_who_asked_stands_behind_a_line_that_was_cut_short(tmp_path):
    keeping, folder = Keeping(tmp_path, 30), tmp_path / "ask-1"
    for line in ("alice\tWhy?", "bob\tHow?"):
        async with keeping.hold(folder, line=line):
            (folder / MARK).write_bytes((folder / MARK).read_bytes() + b"carol\tW\xff")
    assert [what for who in ("alice", "bob") for _, _, what in keeping.questions_of(who)] == ["Why?", "How?"]


async def test_what_follow_ups_were_understood_as_goes_with_the_folders_of_a_budget(tmp_path):
    engine = keeping(tmp_path)
    turns = [Message(role=role, content=text) for role, text in (("user", "a?"), ("assistant", "b"), ("user", "c?"))]
    for _ in range(2):
        await engine.ask("", turns, budget=Budget(calls=9))
    assert len(folders(tmp_path, MARK)) == 2
    for mark in folders(tmp_path, MARK):
        aged(mark.parent, 31)
    assert (sweep(engine), [*tmp_path.iterdir()]) == (2, [])
    assert (await engine.ask("", turns, budget=Budget(calls=9))).text


async def test_a_run_that_is_asked_again_is_kept_longer(tmp_path):
    model = answering()
    engine = keeping(tmp_path, model)
    folder = await run_of(engine, "one?")
    aged(folder, 31)
    assert await run_of(engine, "one?") == folder
    assert (sweep(engine), model.ended) == (0, 1), "replayed"


async def test_a_question_in_work_keeps_its_folder_whatever_its_age(tmp_path):
    engine = keeping(tmp_path, Slow(lambda messages, sampling: "An answer.", seconds=1))
    working = asyncio.create_task(run_of(engine, "one?"))
    await asyncio.sleep(0.2)
    (folder,) = folders(tmp_path, "ask-*")
    aged(folder, 31)
    assert sweep(keeping(tmp_path)) == 0
    assert await working == folder
    assert (folder / "trajectory.jsonl").exists()
    assert sweep(engine) == 1


async def test_runs_of_other_commands_stay(tmp_path):
    folder = await run_of(keeping(tmp_path, keep=None), "one?")
    assert not (folder / MARK).exists()
    engine = keeping(tmp_path)
    assert await run_of(engine, "one?") == folder
    assert not (folder / MARK).exists(), "the server only replayed it"
    (tmp_path / "ask-of-my-own").mkdir()
    assert sweep(engine) == 0


async def test_a_folder_is_held_by_one_at_a_time_and_made_where_it_can_be(tmp_path):
    held_now = []

    async def hold():
        async with folder_lock(tmp_path / "run") as is_new:
            held_now.append(is_new)
            await asyncio.sleep(0.1)
            assert len(held_now) == 1
            held_now.clear()

    await asyncio.gather(hold(), hold(), hold())
    (tmp_path / "file").write_text("")
    async with folder_lock(tmp_path / "file" / "run"):
        pass  # nothing to hold; who writes there says why


async def test_nothing_is_removed_where_all_is_kept(tmp_path):
    engine = keeping(tmp_path, keep=0)
    folder = await run_of(engine, "one?")
    aged(folder, 10_000)
    assert engine.keeping is not None
    await asyncio.wait_for(engine.keeping.watch(), 5)
    assert folder.exists()


async def test_a_server_cleans_an_old_home_and_says_so_in_one_line(tmp_path, caplog):
    caplog.set_level("INFO", "reground.serve")
    folder = await run_of(keeping(tmp_path), "one?")
    aged(folder, 89)
    for options in (Serve(), Serve(keep=80)):
        assert folder.exists(), "90 days by default"
        async with open_engine(keeping(tmp_path).session, options):
            await asyncio.sleep(0.5)
    assert not folder.exists()
    removed = "removed 1 run that nobody asked for lately (keep, keep_mib)"
    assert [record.getMessage() for record in caplog.records] == [removed]
