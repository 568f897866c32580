"""What only a journal on a server has: shared commits, lost connections, restarts, crashes, other versions."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from reground.core.errors import JournalError
from reground.core.journal import Effect
from reground.core.run import Run
from reground.models.scripted import ScriptedModel
from reground.postgres.journal import PostgresJournal
from tests.data import ROOT
from tests.postgres.cutting import way_to
from tests.postgres_server import Postgres


def effect(number: int, result: str = "paid") -> Effect:
    return Effect("/a.0", number, "f", result, 1.5)


async def test_appends_of_one_turn_share_one_commit(postgres: Postgres) -> None:
    url = postgres.fresh()
    journal = PostgresJournal(url)
    await asyncio.gather(*(journal.append("r", "q", effect(n)) for n in range(300)))
    assert postgres.rows(url, "SELECT count(DISTINCT xmin::text), count(*) FROM reground_effects") == [(1, 300)]
    journal.close()


async def test_two_processes_make_the_tables_and_write_together(postgres: Postgres) -> None:
    url = postgres.fresh()
    names = ("one", "two")
    running = [
        await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.postgres.writer", url, name, "200", cwd=ROOT)
        for name in names
    ]
    assert [await each.wait() for each in running] == [0, 0]
    journal = PostgresJournal(url)
    found = {place: each.result for place, each in journal.load("run", "q").items()}
    assert found == {(f"/{name}.0", n): f"{name} {n}" for name in names for n in range(200)}
    assert postgres.rows(url, "SELECT count(*) FROM reground_journal") == [(1,)]
    journal.close()


async def test_what_is_confirmed_outlives_a_crash_of_a_server_that_commits_late(postgres: Postgres) -> None:
    url = postgres.fresh()
    assert postgres.rows(url, "SHOW synchronous_commit") == [("off",)]
    journal = PostgresJournal(url)
    await asyncio.gather(*(journal.append("r", "q", effect(n)) for n in range(5)))
    postgres.stop("immediate")
    postgres.start()
    assert len(journal.load("r", "q")) == 5
    journal.close()


async def test_a_server_that_restarts_is_waited_for_while_the_loop_goes_on(postgres: Postgres) -> None:
    url = postgres.fresh()
    journal = PostgresJournal(url)
    await journal.append("r", "q", effect(0))
    postgres.stop()
    waiting = asyncio.gather(journal.read("r", "q"), *(journal.append("r", "q", effect(n)) for n in range(1, 4)))
    for _ in range(30):
        await asyncio.sleep(0.01)
    assert not waiting.done()
    await asyncio.to_thread(postgres.start)
    await waiting
    assert sorted(number for _, number in journal.load("r", "q")) == [0, 1, 2, 3]
    assert postgres.rows(url, "SELECT count(*) FROM reground_effects") == [(4,)]
    journal.close()


async def test_a_server_that_stays_away_is_told_after_a_while_and_used_when_it_is_back(postgres: Postgres) -> None:
    url = postgres.fresh()
    journal = PostgresJournal(url, patience=0.3)
    postgres.stop()
    try:
        told = await asyncio.gather(*(journal.append("r", "q", effect(n)) for n in range(2)), return_exceptions=True)
        assert [type(each) for each in told] == [JournalError] * 2
        assert f"cannot write the journal {journal.place}: " in str(told[0])
        began = time.monotonic()
        with pytest.raises(JournalError, match="cannot read the journal"):
            journal.load("r", "q")
        assert time.monotonic() - began < 10
        with pytest.raises(JournalError, match="cannot open the journal"):
            PostgresJournal(url)
    finally:
        postgres.start()
    await journal.append("r", "q", effect(7))
    assert [*journal.load("r", "q")] == [("/a.0", 7)]
    journal.close()


async def test_a_connection_that_the_server_ends_is_opened_again(postgres: Postgres) -> None:
    url = postgres.fresh()
    journal = PostgresJournal(url)
    for number in range(5):
        await journal.append("r", "q", effect(number))
        postgres.rows(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'reground'")
    assert len(journal.load("r", "q")) == 5
    journal.close()


async def test_a_commit_whose_reply_is_lost_is_not_written_twice(postgres: Postgres) -> None:
    url = postgres.fresh()
    with way_to(postgres.port) as way:
        journal = PostgresJournal(url.replace(f":{postgres.port}", f":{way.port}"))
        await journal.append("r", "q", effect(0))
        way.cut = 1
        await asyncio.gather(*(journal.append("r", "q", effect(n)) for n in range(1, 6)))
        assert way.lost == 1
        assert len(journal.load("r", "q")) == 6
        journal.close()
    assert postgres.rows(url, "SELECT count(*) FROM reground_effects") == [(6,)]


async def test_a_write_that_the_server_refuses_is_told_to_everyone_who_waits(postgres: Postgres) -> None:
    url = postgres.fresh()
    journal = PostgresJournal(url)
    postgres.rows(url, "ALTER TABLE reground_effects ADD CHECK (ordinal < 2)")
    told = await asyncio.gather(*(journal.append("r", "q", effect(n)) for n in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [JournalError] * 3
    assert "violates check constraint" in str(told[0])
    assert journal.load("r", "q") == {}
    await journal.append("r", "q", effect(1))
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        await journal.append("r", "q", effect(0))


async def test_a_damaged_record_is_named_and_asked_again_and_then_replayed(postgres: Postgres) -> None:
    url = postgres.fresh()
    for number, said in enumerate((["one"], [], ["again"], [])):
        journal = PostgresJournal(url)
        model = ScriptedModel([*said])
        text = await Run(journal=journal).ask(model, "q", name="n")
        assert len(model.calls) == len(said)
        assert bool(journal.notices) == (number == 2)
        for notice in journal.notices:
            assert notice.startswith(f"{journal.place}, row 1: its checksum does not match")
        journal.close()
        if number == 1:
            postgres.rows(url, "UPDATE reground_effects SET result = replace(result, 'one', 'two')")
    assert text == "again"


async def test_bytes_that_the_disk_changed_are_noticed_even_if_they_are_no_text(postgres: Postgres) -> None:
    url = postgres.fresh()
    journal = PostgresJournal(url)
    await journal.append("r", "q", effect(0, "the quick brown fox"))
    await journal.append("r", "q", effect(1, "jumps"))
    ((file,),) = postgres.rows(url, "SELECT pg_relation_filepath('reground_effects')")
    postgres.stop()
    path = postgres.folder / "data" / file
    path.write_bytes(path.read_bytes().replace(b"quick", b"qu\xffck"))
    postgres.start()
    assert [*journal.load("r", "q")] == [("/a.0", 1)]
    (notice,) = journal.notices
    assert notice.startswith(f"{journal.place}, row 1: its checksum does not match")
    journal.close()


async def test_a_journal_of_a_newer_format_is_refused(postgres: Postgres) -> None:
    url = postgres.fresh()
    PostgresJournal(url).close()
    postgres.rows(url, "UPDATE reground_journal SET version = 99")
    with pytest.raises(JournalError, match="is a journal of format 99; this reground reads 1"):
        PostgresJournal(url)


async def test_a_database_that_cannot_hold_every_text_is_refused(postgres: Postgres) -> None:
    postgres.rows(postgres.url, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(JournalError, match="has the encoding LATIN1, and a journal needs UTF8"):
        PostgresJournal(postgres.address("latin"))


async def test_tables_that_are_gone_are_told(postgres: Postgres) -> None:
    url = postgres.fresh()
    journal = PostgresJournal(url)
    postgres.rows(url, "DROP TABLE reground_effects")
    with pytest.raises(JournalError, match="cannot read the journal"):
        journal.load("r", "q")
    with pytest.raises(JournalError, match="cannot write the journal"):
        await journal.append("r", "q", effect(0))
    journal.close()


async def test_a_user_who_may_only_write_rows_can_use_tables_that_are_there(postgres: Postgres) -> None:
    url = postgres.fresh()
    PostgresJournal(url).close()
    schema = url.rpartition("%3D")[2]
    postgres.rows(url, f"CREATE ROLE writer_{schema} LOGIN PASSWORD 'pen'")
    postgres.rows(url, f"GRANT USAGE ON SCHEMA {schema} TO writer_{schema}")
    postgres.rows(url, f"GRANT SELECT, INSERT, DELETE ON ALL TABLES IN SCHEMA {schema} TO writer_{schema}")
    journal = PostgresJournal(url.replace(url.partition("://")[2].partition("@")[0], f"writer_{schema}:pen"))
    await journal.append("r", "q", effect(0))
    assert len(journal.load("r", "q")) == 1
    journal.close()


async def test_a_task_that_is_cancelled_waits_for_no_lost_server(postgres: Postgres) -> None:
    journal = PostgresJournal(postgres.fresh())
    postgres.stop("immediate")

    async def work() -> None:
        try:
            await journal.append("r", "q", effect(1))
        finally:
            journal.close()

    task = asyncio.create_task(work())
    await asyncio.sleep(0.3)
    task.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 2
    postgres.start()
