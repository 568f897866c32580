import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.errors import JournalError
from reground.core.journal import Effect, MemoryJournal, SqliteJournal
from tests.core.strategies import text

effects = st.builds(
    Effect,
    span=st.sampled_from(["", "/a.0", "/a.0/b.1", "/é.2"]),
    ordinal=st.integers(0, 3),
    fingerprint=text,
    result=text,
    elapsed=st.floats(0, 100),
)
entries = st.lists(st.tuples(st.sampled_from(["run", "other"]), st.sampled_from(["q1", "q2"]), effects), max_size=20)


@pytest.fixture(scope="module")
def new_place(tmp_path_factory) -> Callable[[], Callable[[], SqliteJournal]]:
    """Makes places for a journal; each opens the journal that is there."""

    def made() -> Callable[[], SqliteJournal]:
        path = tmp_path_factory.mktemp("journal") / "sub" / "j.db"
        return lambda: SqliteJournal(path)

    return made


@settings(max_examples=40)
@given(entries=entries)
def test_what_was_appended_is_there_after_opening_again(new_place, entries):
    opened = new_place()
    memory = MemoryJournal()

    async def write():
        journal = opened()
        for run, question, effect in entries:
            await memory.append(run, question, effect)
        half = len(entries) // 2
        for entry in entries[:half]:
            await journal.append(*entry)
        await asyncio.gather(*(journal.append(*entry) for entry in entries[half:]))
        journal.close()

    asyncio.run(write())
    again = opened()
    for run in ("run", "other"):
        for question in ("q1", "q2", "never"):
            assert again.load(run, question) == memory.load(run, question)
    again.close()


@pytest.fixture
def journal(new_place):
    opened = new_place()()
    yield opened
    opened.close()


async def test_a_cancelled_append_is_written_all_the_same(journal):
    task = asyncio.create_task(journal.append("r", "q", Effect("", 0, "f", "paid", 1.0)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert journal.load("r", "q")["", 0].result == "paid"


async def test_of_two_records_of_one_place_the_later_one_counts(journal):
    await asyncio.gather(*(journal.append("r", "q", Effect("", 0, "f", str(n), 1.0)) for n in range(30)))
    assert journal.load("r", "q")["", 0].result == "29"
    await journal.append("r", "q", Effect("", 0, "f", "last", 1.0))
    assert journal.load("r", "q")["", 0].result == "last"


async def test_one_run_can_be_forgotten(journal):
    for run in ("old", "new"):
        await journal.append(run, "q", Effect("", 0, "f", run, 1.0))
    journal.forget("old")
    assert journal.load("old", "q") == {}
    assert journal.load("new", "q")["", 0].result == "new"


async def test_two_processes_may_write_one_journal(new_place):
    opened = new_place()
    journals = [opened() for _ in range(2)]
    for number in range(10):
        await asyncio.gather(
            *(journal.append(f"r{n}", "q", Effect("", number, "f", "", 0.0)) for n, journal in enumerate(journals))
        )
    assert [len(journals[1].load(run, "q")) for run in ("r0", "r1")] == [10, 10]
    for journal in journals:
        journal.close()


@pytest.mark.parametrize("closes", [False, True])
async def test_the_loop_goes_on_while_another_process_holds_the_file(journal, closes):
    with contextlib.closing(sqlite3.connect(journal.path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = [asyncio.ensure_future(journal.append("r", "q", Effect("", n, "f", "", 0.0))) for n in range(2)]
        for _ in range(20):
            await asyncio.sleep(0.02)
        writing.append(asyncio.ensure_future(journal.append("r", "q", Effect("", 2, "f", "", 0.0))))
        await asyncio.sleep(0)
        assert not any(each.done() for each in writing)
        let_go = threading.Timer(0.3, other.rollback)
        let_go.start()
        if closes:
            journal.close()
        await asyncio.wait_for(asyncio.gather(*writing), 10)
        await asyncio.to_thread(let_go.join)
    again = SqliteJournal(journal.path)
    assert len(again.load("r", "q")) == 3
    again.close()


async def test_a_write_that_fails_is_told_to_everyone_who_waits(journal):
    with contextlib.closing(sqlite3.connect(journal.path)) as db:
        db.execute("CREATE TRIGGER full BEFORE INSERT ON effects BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    results = await asyncio.gather(
        *(journal.append("r", "q", Effect("", n, "f", "", 0.0)) for n in range(3)), return_exceptions=True
    )
    assert [type(each) for each in results] == [JournalError] * 3
    assert "disk full" in str(results[0])


@pytest.mark.parametrize("version", [1, 99, None])
def test_a_file_of_another_format_or_that_is_no_journal_is_refused(tmp_path, version):
    path = tmp_path / "j.db"
    if version is None:
        path.write_bytes(b"not a database but long enough to be taken for one" * 100)
    else:
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA user_version={version}")
    with pytest.raises(JournalError, match="cannot open the journal" if version is None else f"format {version}"):
        SqliteJournal(path)
