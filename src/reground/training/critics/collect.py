"""Collecting what critics are trained on: trees of planning with gold answers as reward (CR-Planner, section 2.3).

A node's value says what came of the answers found from there. `pairs` makes the training pairs of them.

One folder a collection, kept like an evaluation's run: config.json, journal.sqlite, questions.json (which questions),
and trees/<question>.json as `reground.evaluation.trees` writes them. The same call again goes on where it was, and no
call is paid twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from reground.core.answers import Answer
from reground.core.concurrency import gather
from reground.core.errors import BudgetExceeded, ConfigurationError, DataError
from reground.core.journal import Journal, SqliteJournal
from reground.core.language import Usage
from reground.core.programs import Execution, Program, Sandbox
from reground.core.run import Run, Solved
from reground.core.trajectory import Trajectory
from reground.evaluation import runner
from reground.evaluation.results import open_run
from reground.evaluation.task import Example, Task, hidden_documents
from reground.evaluation.tasks.retrieval import Retrieval
from reground.evaluation.trees import read_tree, tree_of, tree_text, write_tree
from reground.methods.cr_planner import CRPlanner
from reground.methods.cr_planner.states import State
from reground.methods.cr_planner.tree import PlannerProblem, Rollout, decode, encode
from reground.training.rows import record_questions
from reground.treesearch.mcts import Settings, Tree, search

RUN_ID = "trees"


@dataclass(frozen=True)
class Searching:
    """How a tree is searched. rollout: how a simulation plays on."""

    settings: Settings
    rollout: Rollout = "answer"


@dataclass(frozen=True, kw_only=True)
class Growing:
    """Searches a planner's choices for one question; the answer is the tree as JSON. A method.

    task: its primary metric of the example is the reward. If the budget ends, the tree stays as it is, and `stopped`
    says so.
    """

    planner: CRPlanner
    task: Task
    example: Example
    searching: Searching
    sandbox: Sandbox | None = None

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Grow the tree; a note tells of every simulation that has entered it."""

        def watch(number: int, reward: float) -> None:
            run.note(runner.SIMULATION, number=number, reward=reward)

        problem = PlannerProblem(planner=self.planner, run=run, reward=self._reward, rollout=self.searching.rollout)
        tree = await search(problem, State(question), self.searching.settings, until=(BudgetExceeded,), watch=watch)
        return Answer(text=tree_text(tree, encode))

    async def _reward(self, answer: Answer, run: Run) -> float:
        """The primary metric of the answer; a ranking is the simulation's last retrieval.

        Executions for it are recorded, so a resumed run gets the same reward.
        """
        example = self.example
        trajectory = Trajectory(
            id=example.id, question=example.question, method="cr_planner", steps=run.within, answer=answer
        )
        sandbox = None if self.sandbox is None else _Recorded(self.sandbox, run)
        score = (await self.task.score(example, trajectory, sandbox))[self.task.primary]
        if score.value is None:
            raise DataError(f"{self.task.name} {example.id} cannot be scored: {score.why}")
        return score.value


class _Recorded:
    """A sandbox whose executions are a run's."""

    def __init__(self, sandbox: Sandbox, run: Run) -> None:
        self.name, self.packages = sandbox.name, getattr(sandbox, "packages", True)
        self._sandbox, self._run = sandbox, run

    async def execute(self, program: Program, /) -> Execution:
        return await self._run.execute(self._sandbox, program, name="reward")


@dataclass(frozen=True)
class GrownTree:
    """A finished tree: its question and its cost, which is nothing if the tree existed already."""

    example: str
    tree: Tree[State]
    usage: Usage = field(default_factory=Usage)


@dataclass
class Collected:
    """The result of a collection. `failed`: questions without a tree, and why; they are tried again next time."""

    trees: list[GrownTree] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


async def collect_trees(
    task: Task,
    planner: CRPlanner,
    settings: runner.EvalSettings,
    searching: Searching,
    out: Path,
    *,
    sandbox: Sandbox | None = None,
    elsewhere: runner.Elsewhere | None = None,
    on_tree: Callable[[GrownTree, int], None] = lambda tree, total: None,
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
    examples = runner.choose(task, settings)
    search = {**dataclasses.asdict(searching.settings), "rollout": searching.rollout}
    options = {"search": search, **settings.method_settings}
    config = runner.configuration(task, dataclasses.replace(settings, method_settings=options))
    about = {
        "task": task.name,
        "reward": task.primary,
        "model": planner.model.name,
        "rollout": searching.rollout,
        "passage_tokens": planner.passage_tokens,
    }
    collected = Collected()
    queue = iter(examples)
    missing = sum(not tree_file(out, example.id).exists() for example in examples)

    async def solved(example: Example, journal: Journal) -> Solved:
        entered = 0

        def tell(update: runner.Update) -> None:
            nonlocal entered
            for _ in range(entered, update.simulations):  # none twice where a lost worker's tree is grown again
                on_simulation(missing)
            entered = max(entered, update.simulations)

        request = runner.Request(
            example.id,
            example.question,
            settings.method,
            settings.budget,
            settings.seed,
            hidden_documents(task, example),
            RUN_ID,
            example,
        )
        if elsewhere is not None:
            return await elsewhere(request, journal, tell)
        growing = Growing(planner=planner, task=task, example=example, searching=searching, sandbox=sandbox)
        return await runner.solve_here(growing, request, journal, tell)

    async def work(journal: Journal) -> None:
        for example in queue:
            path = tree_file(out, example.id)
            if path.exists():
                result = GrownTree(example.id, _read(path))
            else:
                outcome = await solved(example, journal)
                if outcome.trajectory.answer is None:
                    collected.failed[example.id] = _failure(outcome)
                    continue
                own = {**about, "example": example.id, "golden_answers": list(example.golden_answers)}
                tree = tree_of(outcome.trajectory.answer.text, decode)
                tree = dataclasses.replace(tree, metadata=own)
                write_tree(path, tree, encode)
                result = GrownTree(example.id, tree, outcome.trajectory.usage)
            collected.trees.append(result)
            on_tree(result, len(examples))

    with open_run(out, config) as folder:
        record_questions(out, task.name, examples)
        journal = SqliteJournal(folder.journal)
        try:
            await gather(*(work(journal) for _ in range(min(settings.concurrency, len(examples)))))
        finally:
            journal.close()
    return collected


def _failure(solved: Solved) -> str:
    """Why a question has no tree. Raises what is wrong with the run itself."""
    if isinstance(solved.error, runner.FATAL):
        raise solved.error
    failure = solved.trajectory.failure
    return f"{failure.type}: {failure.message}" if failure else "it was not searched"


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


def _read(path: Path) -> Tree[State]:
    try:
        return read_tree(path, decode)
    except DataError as error:
        raise DataError(f"{error}; delete it to have it grown again") from None  # it names the file
