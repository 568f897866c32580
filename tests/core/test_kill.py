"""kill -9 at random moments: the run goes on where it was, and nothing that was recorded is paid for again."""

import asyncio
import hashlib
import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from reground.core.effects import REPLIES
from reground.core.trajectory import read_trajectories
from reground.testing.openai_server import MockOpenAI
from tests.core.killed_run import BRANCHES, QUESTIONS, STEPS

ROOT = Path(__file__).resolve().parents[2]
CALLS = QUESTIONS * STEPS * BRANCHES
KILLS = 4


def reply_to(prompt):
    """A text that tells its prompt, so that the journal's replies can be traced to the server's counts."""
    return f"re {hashlib.sha256(prompt.encode()).hexdigest()[:16]}"


class Script:
    """Replies, and rings when it has given so many."""

    def __init__(self):
        self.left = 0
        self.rung = asyncio.Event()

    def ring_after(self, replies):
        self.left = replies
        self.rung.clear()

    def __call__(self, body):
        self.left -= 1
        if self.left == 0:
            self.rung.set()
        return reply_to(body["messages"][-1]["content"])


def recorded(folder):
    """Every reply in the journal: text by place."""
    path = folder / "journal.db"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name='effects'").fetchone():
            return {}
        rows = db.execute("SELECT question, span, ordinal, result FROM effects").fetchall()
    texts = [(tuple(place), REPLIES.validate_json(result)[0].text) for *place, result in rows]
    assert len(dict(texts)) == len(texts), "an effect was recorded twice"
    return dict(texts)


async def start(server, folder):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.core.killed_run", server.url, str(folder), cwd=ROOT
    )


async def rung_or_ended(script, process):
    """Return when the script has rung or the run has ended."""
    waits = [asyncio.create_task(script.rung.wait()), asyncio.create_task(process.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()


async def test_no_recorded_call_is_paid_twice_however_often_a_run_is_killed(tmp_path):
    chance = random.Random()
    in_flight = QUESTIONS * BRANCHES
    kills = 0
    script = Script()
    async with MockOpenAI(script, latency=0.01) as server:
        paid_at_kill = {}
        while kills < KILLS:
            script.ring_after(chance.randint(1, CALLS // KILLS))
            process = await start(server, tmp_path)
            await rung_or_ended(script, process)
            await asyncio.sleep(chance.uniform(0, 0.015))
            if process.returncode is not None:
                break
            process.kill()
            await process.wait()
            kills += 1
            counts = {reply_to(prompt): count for prompt, count in server.completed.items()}
            for text in recorded(tmp_path).values():
                paid_at_kill.setdefault(text, counts[text])
        process = await start(server, tmp_path)
        assert await process.wait() == 0
        finished = {reply_to(prompt): count for prompt, count in server.completed.items()}

        assert kills >= 1
        assert len(paid_at_kill) >= 1
        for text, count in paid_at_kill.items():
            assert finished[text] == count, "a recorded call was made again"
        # Whatever was asked twice was in flight at a kill.
        assert len(finished) == CALLS
        assert sum(finished.values()) - CALLS <= kills * in_flight

        before = server.completed.total()
        again = await start(server, tmp_path)
        assert await again.wait() == 0
        assert server.completed.total() == before, "a finished run asked for something"

    stories = list(read_trajectories(tmp_path / "trajectories.jsonl"))
    assert [story.failure for story in stories] == [None] * QUESTIONS
    assert all(step.replayed for story in stories for step in story.steps)
    assert sum(story.usage.calls for story in stories) == CALLS
    assert sorted(recorded(tmp_path).values()) == sorted(finished)
