"""Trees whose calls go through a run: its journal is enough to go on with a search, and its budget ends one."""

import asyncio
from random import Random

import pytest

from reground.core.budget import Budget
from reground.core.errors import BudgetExceeded, ModelError
from reground.core.journal import SqliteJournal
from reground.core.run import Run
from reground.models.scripted import ScriptedModel
from reground.treesearch.mcts import Child, search
from reground.treesearch.tree import Settings, address, walk

SETTINGS = Settings(simulations=24, in_flight=6, c=0.7, max_depth=3)


class Words:
    """What a planner does: a model gives candidates, and finishes the answer, which is scored."""

    def __init__(self, model, run):
        self.model = model
        self.run = run

    async def expand(self, state, path, /):
        with self.run.span("expand-" + address(path)) as span:
            words = (await span.ask(self.model, f"continue {state}", name="candidates")).split()
        return [Child(state=f"{state} {word}", label=word, key=word) for word in words]

    async def simulate(self, state, path, visit, /):
        with self.run.span("simulate-" + address(path, visit)) as span:
            draft = await span.ask(self.model, f"draft {visit} of {state}", name="draft")
            return float(await span.ask(self.model, f"finish {draft}", name="finish"))


class Slow(ScriptedModel):
    """A model whose calls take uneven time, another each time it is made; it may give out."""

    def __init__(self, timing, gives_out_after=None):
        super().__init__(self._say)
        self.timing = timing
        self.left = gives_out_after
        self.tenth = asyncio.Event()

    def _say(self, messages, sampling):
        prompt = messages[-1].content
        if prompt.startswith("continue"):
            return "sea hill sea moor"
        if prompt.startswith("draft"):
            return prompt.removeprefix("draft ")
        return str(prompt.count("sea") / (1 + len(prompt.split())))

    async def generate(self, messages, sampling, /):
        if self.left is not None:
            if not self.left:
                raise ModelError("gone")
            self.left -= 1
        for _ in range(Random(f"{self.timing} {messages[-1].content}").randrange(7)):
            await asyncio.sleep(0)
        replies = await super().generate(messages, sampling)
        if len(self.calls) == 10:
            self.tenth.set()
        return replies


def rows(tree):
    return [(path, node.label, node.visits, node.value, node.copies) for path, node in walk(tree.root)]


async def grow(model, journal=None, **options):
    run = Run(journal=journal, budget=options.pop("budget", None))
    return await search(Words(model, run), "the", SETTINGS, **options), run


@pytest.mark.parametrize("calls", [0, 1, 5, 20, 45])
async def test_a_search_goes_on_from_its_journal(tmp_path, calls):
    model = Slow(0)
    expected, run = await grow(model)
    total = len(model.calls)
    assert total == run.usage.calls

    journal = SqliteJournal(tmp_path / "journal.db")
    first, second = Slow(1, gives_out_after=calls), Slow(2)
    with pytest.raises(ModelError, match="gone"):
        await grow(first, journal)
    journal.close()
    journal = SqliteJournal(tmp_path / "journal.db")
    tree, run = await grow(second, journal)
    journal.close()

    assert rows(tree) == rows(expected)
    assert len(first.calls) == calls
    assert len(first.calls) + len(second.calls) == run.usage.calls == total


async def test_a_search_that_was_cancelled_goes_on_from_its_journal(tmp_path):
    expected, run = await grow(Slow(0))
    journal = SqliteJournal(tmp_path / "journal.db")
    first, second = Slow(1), Slow(2)
    task = asyncio.create_task(grow(first, journal))
    await first.tenth.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    tree, _ = await grow(second, journal)
    journal.close()
    assert rows(tree) == rows(expected)
    assert 0 < len(second.calls) < run.usage.calls


async def test_a_budgets_end_gives_the_tree_so_far_and_more_budget_goes_on(tmp_path):
    expected, _ = await grow(Slow(0))
    journal = SqliteJournal(tmp_path / "journal.db")
    tree, run = await grow(Slow(1), journal, budget=Budget(calls=25), until=(BudgetExceeded,))
    assert tree.stopped is not None
    assert "25" in tree.stopped
    assert 0 < tree.root.visits < SETTINGS.simulations
    assert run.usage.calls <= 25
    again, _ = await grow(Slow(2), journal)
    journal.close()
    assert again.stopped is None
    assert rows(again) == rows(expected)
