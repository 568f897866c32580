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
from reground.models.scripted import ScriptedModel
from reground.models.wrappers import Cache
from reground.treesearch.files import TreeFileError, read_tree, tree_to_dict, write_tree
from reground.treesearch.tree import Node, Settings, Tree

FLIPS = 200
WORDS = "the quick brown fox " * 20


def story(number):
    note = NoteStep(span="", ordinal=0, name="n", data={"text": WORDS, "n": number})
    return Trajectory(id=str(number), question="why é", method="m", steps=(note,), answer=Answer(text=WORDS))


def flipped(data, chance, begin=0, end=None):
    """The data with one bit changed."""
    at = chance.randrange(begin, len(data) if end is None else end)
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


def tree():
    leaves = tuple(Node(state=f"{WORDS}{n}", rewards=(0.5,), visits=1, value=0.5) for n in range(3))
    root = Node(state="root", children=leaves, visits=3, value=1.5, expanded=True)
    return Tree(root=root, settings=Settings(simulations=3), stopped=None, metadata={"a": WORDS})


def as_it_is(state, parent):
    return state


def plain(found):
    return tree_to_dict(found, as_it_is)


def test_every_flipped_bit_of_a_tree_is_noticed(tmp_path):
    path, chance = tmp_path / "t.json", random.Random(7)
    write_tree(path, tree(), as_it_is)
    whole = path.read_bytes()
    for _ in range(2000):
        path.write_bytes(flipped(whole.strip(), chance))
        with contextlib.suppress(TreeFileError):
            assert plain(read_tree(path)) == plain(tree())


def reply(number):
    return json.dumps([{"text": f"{WORDS}{number}"}])


async def journal_with(path, count=4):
    journal = SqliteJournal(path)
    for number in range(count):
        await journal.append("r", "q", Effect("/a.0", number, "f" * 32, reply(number), 1.5 + number))
    journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    journal.close()


def loaded(path):
    journal = SqliteJournal(path)
    try:
        return journal.load("r", "q"), journal.notices
    finally:
        journal.close()


async def test_no_flipped_bit_of_a_journal_is_replayed(tmp_path):
    path, chance = tmp_path / "j.db", random.Random(1)
    await journal_with(path)
    whole = path.read_bytes()
    told = 0
    good, _ = loaded(path)
    for _ in range(FLIPS):
        begin = whole.index(b"the quick")
        path.write_bytes(flipped(whole, chance, begin - 60))
        for side in ("-wal", "-shm"):
            path.with_name(path.name + side).unlink(missing_ok=True)
        try:
            effects, notices = loaded(path)
        except JournalError:
            continue
        assert all(good.get(place) == effect for place, effect in effects.items())
        told += bool(notices)
        assert all(f"{path}, row " in notice for notice in notices)
    assert told > FLIPS / 4


async def test_a_damaged_record_is_asked_again_and_then_replayed(tmp_path):
    for expected in (["one"], [], ["again"], []):
        journal = SqliteJournal(tmp_path / "j.db")
        model = ScriptedModel(list(expected))
        text = await Run(journal=journal).ask(model, "q", name="n")
        journal.close()
        assert len(model.calls) == len(expected)
        if expected == [] and text == "one":
            db = sqlite3.connect(tmp_path / "j.db")
            db.execute("UPDATE effects SET result=replace(result, 'one', 'two')")
            db.commit()
            db.close()
    assert text == "again"


async def test_no_flipped_bit_of_the_cache_is_replayed(tmp_path):
    path, chance = tmp_path / "c.db", random.Random(2)
    ask = (Message(role="user", content="q"),)
    cache = Cache(ScriptedModel([Reply(text=WORDS)]), path)
    await cache.generate(ask, Sampling())
    cache._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await cache.aclose()
    whole = path.read_bytes()
    asked = 0
    for _ in range(FLIPS):
        begin = whole.rindex(b"the quick", 0, whole.index(WORDS.encode()) + 9)
        path.write_bytes(flipped(whole, chance, begin - 60))
        model = ScriptedModel([Reply(text=WORDS)])
        cache = Cache(model, path)
        (said,) = await cache.generate(ask, Sampling())
        await cache.aclose()
        asked += len(model.calls)
        assert said.text == WORDS
    assert asked > FLIPS / 4


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
