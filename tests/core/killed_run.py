"""Run by test_kill: several questions at once over HTTP, recorded in a journal on disk, until all are answered."""

import asyncio
import sys
from pathlib import Path

from reground.core.answers import Answer
from reground.core.concurrency import gather
from reground.core.journal import SqliteJournal
from reground.core.method import solve
from reground.core.run import Run
from reground.core.trajectory import write_trajectories
from reground.models.openai import OpenAIModel
from reground.models.options import ModelOptions
from reground.models.wrappers import wrap

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


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
