"""kill -9 at random moments: the run goes on where it was, and nothing that was recorded is paid for again.

Run as a program, it asks several questions at once over HTTP, recorded in a journal on disk, until all are answered.
"""

import asyncio
import random
import sys
from pathlib import Path

from reground.core.answers import Answer
from reground.core.concurrency import gather
from reground.core.journal import SqliteJournal
from reground.core.run import Run, solve
from reground.core.trajectory import read_trajectories, write_trajectories
from reground.models.openai import OpenAIModel
from reground.models.options import ModelOptions
from reground.models.wrappers import wrap
from reground.testing.openai_server import MockOpenAI
from tests.killing import Bell, recorded, rung_or_ended

QUESTIONS, STEPS, BRANCHES = 4, 6, 2


class Steps:
    """Each step asks twice at once; each prompt holds the replies before it, so a wrong replay shows."""

    def __init__(self, model):
        self.model = model

    async def solve(self, question, run):
        so_far = question
        for _ in range(STEPS):
            branches = []
            for number in range(BRANCHES):
                with run.span("branch") as branch:
                    branches.append(branch.ask(self.model, f"{so_far} {number}", name="call"))
            so_far = f"{question} {' '.join(text[-12:] for text in await gather(*branches))}"
        return Answer(text=so_far)


async def main(url, folder):
    options = ModelOptions(base_url=url)
    model = wrap(OpenAIModel("mock", options), options)
    journal = SqliteJournal(folder / "journal.db")

    async def question(number):
        run = Run(run_id="killed", question_id=str(number), journal=journal)
        return (await solve(Steps(model), f"question {number}:", run, id=str(number), name="steps")).trajectory

    trajectories = await asyncio.gather(*(question(number) for number in range(QUESTIONS)))
    write_trajectories(folder / "trajectories.jsonl", trajectories)
    await model.aclose()
    journal.close()


ROOT = Path(__file__).resolve().parents[2]
CALLS = QUESTIONS * STEPS * BRANCHES
KILLS = 4


async def start(server, folder):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.core.test_kill", server.url, str(folder), cwd=ROOT
    )


async def test_no_recorded_call_is_paid_twice_however_often_a_run_is_killed(tmp_path):
    chance = random.Random()
    in_flight = QUESTIONS * BRANCHES
    kills = 0
    bell = Bell()
    async with MockOpenAI(bell, latency=0.01) as server:
        paid_at_kill = {}
        while kills < KILLS:
            bell.ring_after(chance.randint(1, CALLS // KILLS))
            process = await start(server, tmp_path)
            await rung_or_ended(bell, process)
            await asyncio.sleep(chance.uniform(0, 0.015))
            if process.returncode is not None:
                break
            process.kill()
            await process.wait()
            kills += 1
            for key in recorded(tmp_path):
                paid_at_kill.setdefault(key, bell.counts[key])
        process = await start(server, tmp_path)
        assert await process.wait() == 0
        finished = bell.counts.copy()

        assert kills >= 1
        assert len(paid_at_kill) >= 1
        for key, count in paid_at_kill.items():
            assert finished[key] == count, "a recorded call was made again"
        # Whatever was asked twice was in flight at a kill.
        assert len(finished) == CALLS
        assert finished.total() - CALLS <= kills * in_flight

        before = bell.counts.total()
        again = await start(server, tmp_path)
        assert await again.wait() == 0
        assert bell.counts.total() == before, "a finished run asked for something"

    stories = list(read_trajectories(tmp_path / "trajectories.jsonl"))
    assert [story.failure for story in stories] == [None] * QUESTIONS
    assert all(step.replayed for story in stories for step in story.steps)
    assert sum(story.usage.calls for story in stories) == CALLS
    assert sorted(recorded(tmp_path)) == sorted(finished)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
