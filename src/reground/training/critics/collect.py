"""Collecting what critics are trained on: trees of planning with gold answers as reward (CR-Planner, section 2.3).

A node's value says what came of the answers found from there. `pairs` makes the training pairs of them.

One folder a collection, kept like an evaluation's run: config.json, journal.sqlite, questions.json (which questions),
and trees/<question>.json as `reground.treesearch.files` writes them. The same call again goes on where it was, and no
call is paid twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from reground.core.branches import gather
from reground.core.errors import ConfigurationError, DataError
from reground.core.journal import Journal, SqliteJournal
from reground.core.language import Usage
from reground.core.programs import Sandbox
from reground.core.trajectory import Failure
from reground.evaluation.asked import Asked, Elsewhere, solve_here
from reground.evaluation.progress import Told
from reground.evaluation.results import open_run
from reground.evaluation.runner import FATAL, EvalSettings, choose, configuration
from reground.evaluation.splits import record_questions
from reground.evaluation.task import Example, Task, hidden_documents
from reground.evaluation.tasks.retrieval import Retrieval
from reground.methods.cr_planner import CRPlanner
from reground.methods.cr_planner.states import State
from reground.methods.cr_planner.tree import decode, encode
from reground.training.critics.growing import Growing, Searching, tree_of
from reground.treesearch.files import TreeFileError, read_tree, write_tree
from reground.treesearch.tree import Tree

RUN_ID = "trees"

LABELS = 2
"""What a tree's values mean. Up to 1, simulations from a sub-goal had its parent's prompt and said nothing of it."""


@dataclass(frozen=True)
class Grown:
    """A finished tree: its question, its file and its cost, which is nothing if the tree existed already."""

    example: str
    path: Path
    tree: Tree[State]
    usage: Usage = field(default_factory=Usage)


@dataclass
class Collected:
    """The result of a collection. `failed`: questions without a tree, and why; they are tried again next time."""

    out: Path
    grown: list[Grown] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


async def collect_trees(
    task: Task,
    planner: CRPlanner,
    settings: EvalSettings,
    searching: Searching,
    out: Path,
    *,
    sandbox: Sandbox | None = None,
    elsewhere: Elsewhere | None = None,
    on_tree: Callable[[Grown, int], None] = lambda grown, total: None,
    on_simulation: Callable[[int], None] = lambda trees: None,
) -> Collected:
    """Grow one tree a question, `settings.concurrency` questions at once.

    task: its primary metric is the reward. planner: whose candidates the trees hold. settings: which questions, and the
    budget of each. searching: how a tree is searched. elsewhere: grows the trees in other processes; they are written
    here. on_tree: called with every finished tree and the number of all trees.
    on_simulation: called with each simulation that has entered a tree, and the number of trees to be grown now.

    If a question's budget ends, its tree stays as it is, and `stopped` says so. Raises ConfigurationError
    when `out` holds something else or a task of rankings has a planner that gives none, DataError when a tree's file is
    broken, and what is wrong with the run itself.
    """
    if ranks(task) and not planner.ranks:
        raise ConfigurationError(
            f"the answers of {task.name} are rankings: the planner needs the setting answer=ranking"
        )
    examples = choose(task, settings)
    search = {**dataclasses.asdict(searching.settings), "rollout": searching.rollout}
    named = {"search": search, **settings.method_settings}
    config = configuration(task, dataclasses.replace(settings, method_settings=named))
    with open_run(out, config) as folder:
        record_questions(out, task.name, examples)
        journal = SqliteJournal(folder.journal)
        try:
            missing = sum(not tree_file(out, example.id).exists() for example in examples)
            session = _Session(
                task, planner, settings, searching, sandbox, elsewhere, journal, Collected(out),
                on_tree, lambda: on_simulation(missing),
            )  # fmt: skip
            left = iter(examples)
            await gather(*(session.work(left, len(examples)) for _ in range(min(settings.concurrency, len(examples)))))
        finally:
            journal.close()
    return session.collected


def ranks(task: Task) -> bool:
    """Whether a task's answers are rankings of documents; then the last retrieval is scored."""
    return isinstance(task, Retrieval)


def tree_file(out: Path, question: str) -> Path:
    """Where the tree of a question is kept, by the question's id."""
    return out / "trees" / f"{quote(question, safe='')}.json"


def read_trees(out: Path) -> Iterator[Tree[State]]:
    """Every tree of a collection, by file name. Raises DataError where a file is broken or there is none."""
    files = sorted((out / "trees").glob("*.json"))
    if not files:
        raise DataError("no trees here: collect some with reground train critics collect", path=out)
    for file in files:
        yield _read(file)


@dataclass
class _Session:
    task: Task
    planner: CRPlanner
    settings: EvalSettings
    searching: Searching
    sandbox: Sandbox | None
    elsewhere: Elsewhere | None
    journal: Journal
    collected: Collected
    on_tree: Callable[[Grown, int], None]
    on_simulation: Callable[[], None]

    async def work(self, left: Iterator[Example], total: int) -> None:
        """Take questions until there are none left."""
        for example in left:
            path = tree_file(self.collected.out, example.id)
            if path.exists():
                grown = Grown(example.id, path, _read(path))
            else:
                found = await self._grow(example, path)
                if isinstance(found, Failure):
                    self.collected.failed[example.id] = f"{found.type}: {found.message}"
                    continue
                grown = found
            self.collected.grown.append(grown)
            self.on_tree(grown, total)

    async def _grow(self, example: Example, path: Path) -> Grown | Failure:
        """A question's tree, in its file; or why it has none. Raises what is wrong with the run itself."""
        settings, entered = self.settings, 0
        hidden = hidden_documents(self.task, example)
        asked = Asked(
            example.id, example.question, settings.method, settings.budget, settings.seed, hidden, RUN_ID, example
        )

        def tell(told: Told) -> None:
            nonlocal entered
            for _ in range(entered, told.simulations):  # none twice where a lost worker's tree is grown again
                self.on_simulation()
            entered = max(entered, told.simulations)

        if self.elsewhere is None:
            growing = Growing(
                planner=self.planner, task=self.task, example=example, searching=self.searching, sandbox=self.sandbox
            )
            solved = await solve_here(growing, asked, self.journal, lambda event: tell(Told.of(event)))
        else:
            solved = await self.elsewhere.solve(asked, self.journal, tell)
        if isinstance(solved.error, FATAL):
            raise solved.error
        if solved.trajectory.answer is None:
            assert solved.trajectory.failure is not None
            return solved.trajectory.failure
        tree = dataclasses.replace(tree_of(solved.trajectory.answer), metadata=self._about(example))
        write_tree(path, tree, encode)
        return Grown(example.id, path, tree, solved.trajectory.usage)

    def _about(self, example: Example) -> dict[str, object]:
        """What a tree's file says of it."""
        return {
            "task": self.task.name,
            "example": example.id,
            "reward": self.task.primary,
            "model": self.planner.model.name,
            "rollout": self.searching.rollout,
            "passage_tokens": self.planner.passage_tokens,
            "labels": LABELS,
            "golden_answers": list(example.golden_answers),
        }


def _read(path: Path) -> Tree[State]:
    try:
        tree = read_tree(path, decode)
    except TreeFileError as error:
        raise DataError(f"{error}; delete it to have it grown again") from None  # it names the file
    if tree.metadata.get("labels") != LABELS:
        why = "an earlier version grew this tree, and its simulations did not see the sub-goals"
        raise DataError(f"{why}; delete it to have it grown again", path=path)
    return tree


def rewards(trees: Sequence[Tree[State]]) -> list[float]:
    """The mean reward at each root: how often the planner's answers are right before any critic is trained."""
    return [tree.root.mean or 0.0 for tree in trees]
