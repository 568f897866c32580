"""What a disk changes is noticed, in every file that is read back; lines and trees without checksums are read too."""

import contextlib
import json
import random
import sqlite3

import pytest

from reground.core.answers import Answer
from reground.core.errors import DataError, JournalError
from reground.core.journal import Effect, SqliteJournal
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import NoteStep, Trajectory, append_trajectory, read_trajectories
from reground.evaluation.trees import read_tree, tree_text, write_tree
from reground.models.scripted import ScriptedModel
from reground.models.wrappers import Cache
from reground.treesearch.mcts import Node, Settings, Tree

FLIPS = 200
WORDS = "the quick brown fox " * 20


def story(number):
    note = NoteStep(span="", ordinal=0, name="n", data={"text": WORDS, "n": number})
    return Trajectory(id=str(number), question="why é", method="m", steps=(note,), answer=Answer(text=WORDS))


def flipped(data, chance, begin=0):
    """The data with one bit changed."""
    at = chance.randrange(begin, len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def test_every_flipped_bit_of_a_trajectory_is_noticed(tmp_path):
    path = tmp_path / "t.jsonl"
    append_trajectory(path, story(1))
    whole = path.read_bytes()
    for at in range(len(whole) - 1):
        for bit in range(8):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
            try:
                assert list(read_trajectories(path)) == [story(1)]
            except DataError as error:
                assert error.line in (1, 2)


def test_every_flipped_bit_of_a_tree_is_noticed(tmp_path):
    def as_it_is(state, parent):
        return state

    leaves = tuple(Node(state=f"{WORDS}{n}", rewards=(0.5,), visits=1, value=0.5) for n in range(3))
    root = Node(state="root", children=leaves, visits=3, value=1.5, expanded=True)
    tree = Tree(root=root, settings=Settings(simulations=3), stopped=None, metadata={"a": WORDS})
    path, chance = tmp_path / "t.json", random.Random(7)
    write_tree(path, tree, as_it_is)
    whole = path.read_bytes()
    for _ in range(2000):
        path.write_bytes(flipped(whole.strip(), chance))
        with contextlib.suppress(DataError):
            assert tree_text(read_tree(path), as_it_is) == tree_text(tree, as_it_is)


def opened(path, whole, chance, begin):
    """The file with one bit changed after `begin`, without what a connection left beside it."""
    path.write_bytes(flipped(whole, chance, begin))
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    return path


async def test_no_flipped_bit_of_a_journal_is_replayed(tmp_path):
    path, chance = tmp_path / "j.db", random.Random(1)
    with contextlib.closing(SqliteJournal(path)) as journal:
        for number in range(4):
            result = json.dumps([{"text": f"{WORDS}{number}"}])
            await journal.append("r", "q", Effect("/a.0", number, "f" * 32, result, 1.5 + number))
        good = journal.load("r", "q")
    whole = path.read_bytes()
    told = 0
    for _ in range(FLIPS):
        try:
            with contextlib.closing(
                SqliteJournal(opened(path, whole, chance, whole.index(b"the quick") - 60))
            ) as journal:
                effects, notices = journal.load("r", "q"), journal.notices
        except JournalError:
            continue
        assert all(good.get(place) == effect for place, effect in effects.items())
        assert all(f"{path}, row " in notice for notice in notices)
        told += bool(notices)
    assert told > FLIPS / 4


async def test_a_damaged_record_is_asked_again_and_then_replayed(tmp_path):
    for expected in (["one"], [], ["again"], []):
        model = ScriptedModel(list(expected))
        with contextlib.closing(SqliteJournal(tmp_path / "j.db")) as journal:
            text = await Run(journal=journal).ask(model, "q", name="n")
        assert len(model.calls) == len(expected)
        if expected == [] and text == "one":
            with contextlib.closing(sqlite3.connect(tmp_path / "j.db", isolation_level=None)) as db:
                db.execute("UPDATE effects SET result=replace(result, 'one', 'two')")
    assert text == "again"


async def test_no_flipped_bit_of_the_cache_is_replayed(tmp_path):
    path, chance = tmp_path / "c.db", random.Random(2)
    models = [ScriptedModel([Reply(text=WORDS)]) for _ in range(FLIPS + 1)]
    whole, begin = b"", 0
    for model in models:
        cache = Cache(model, opened(path, whole, chance, begin) if whole else path)
        (said,) = await cache.generate((Message(role="user", content="q"),), Sampling())
        await cache.aclose()
        assert said.text == WORDS
        whole = whole or path.read_bytes()
        begin = whole.rindex(b"the quick", 0, whole.index(WORDS.encode()) + 9) - 60
    assert sum(len(model.calls) for model in models[1:]) > FLIPS / 4


@pytest.mark.parametrize("count", [1, 3])
def test_a_line_after_a_torn_one_is_a_line_of_its_own(tmp_path, count):
    path = tmp_path / "t.jsonl"
    for number in range(count):
        append_trajectory(path, story(number))
    path.write_bytes(path.read_bytes()[:-300])
    append_trajectory(path, story(9))
    lines = path.read_bytes().splitlines()
    assert len(lines) == count + 1
    assert json.loads(lines[-1])["id"] == "9"
