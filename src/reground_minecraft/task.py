"""Planning in Minecraft (RAT, section 3.1, appendix C.3; RaR, appendix): whether a plan works, and how far it gets.

The corpus for retrieval is written here too: a wiki-like article on every item, from its recipes and sources.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from pydantic import JsonValue

from reground.core.answers import PLAN, AnswerForm, Demonstration
from reground.core.errors import DataError
from reground.core.files import cache_dir, replace_lines
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.task import Example, Score, Task
from reground_minecraft.names import Names
from reground_minecraft.parser import parse_plan, readable_plan, render_plan
from reground_minecraft.simulator import Planner, join_words, simulate
from reground_minecraft.world import GAME, SHEARS, VERSION, WOODS, Slot, Way, World, a_or_an, load_world, name_of

TARGETS: dict[str, tuple[str, ...]] = {group: tuple(items) for group, items in GAME["targets"].items()}
"""The benchmark's targets: the project's own list, by group."""
DEMONSTRATED = ("ladder", "iron_bars")
"""Items of the worked examples, which are not targets."""
_MOST_USES = 15
_MOST_ALTERNATIVES = 4

EXECUTABILITY = "executability"
PARTIAL = "partial progress"

CRITERIA = (
    "relevance: the plan ends with the item that is asked for; accuracy: recipes, tools and numbers are those of the "
    "game; completeness: no step between nothing and the item is missing; readability: it is coherent; executability: "
    "a player could follow it step by step"
)
"""What annotators of plausibility were asked to look at (RAT, appendix C)."""

EXAMPLE = """\
STEP 1: Chop oak trees. - Minecraft items: 2x Oak Log
STEP 2: Make planks of the logs. - Minecraft items: 8x Oak Planks
STEP 3: Make a crafting table of planks. - Minecraft items: 1x Crafting Table
STEP 4: Make sticks of planks. - Minecraft items: 8x Stick
STEP 5: Make ladders of sticks at the crafting table. - Minecraft items: 3x Ladder"""
"""A plan for an item that is not a target. Small models take any item in an instruction as a part of their plan, so the
example is a whole plan, marked as another item's."""

ZERO_SHOT_FORM = replace(
    PLAN,
    instruction=f"{PLAN.instruction} Every step obtains something from what the steps before it obtained, "
    "crafting tables and tools too. End each line with ' - Minecraft items: ' and then how many of which item the "
    "step yields.",
)
"""Describes a plan whose steps name their yield. The papers give no example (RAT, appendix A.3)."""

FORM = replace(
    PLAN,
    instruction=f"For comparison, this is the plan for a ladder:\n\n{EXAMPLE}\n\n"
    f"Now write the plan for the item in the question, which is another one. {ZERO_SHOT_FORM.instruction}",
)
"""The same with an example, which small models need."""

_WOOD = re.compile(rf"^(stripped_)?(?:{'|'.join(sorted(WOODS, key=len, reverse=True))})_")


class MinecraftTask:
    """Plans for about 150 items, scored by the simulator on the recipes of one version of the game.

    executability: 1 if every step succeeds from an empty inventory and the target is held at the end, else 0.
    partial progress: 1 for an executable plan, otherwise the share of the solver's items that the steps before the
    first failure obtained. If the target does not name a wood, any wood counts.
    """

    primary = EXECUTABILITY
    criteria = CRITERIA

    def __init__(
        self,
        data: Path,
        *,
        version: str = VERSION,
        form: AnswerForm = FORM,
        name: str = "minecraft",
    ) -> None:
        self._data, self.form, self.name = data, form, name
        self.world: World = load_world(data, version=version)
        self._planner = Planner(self.world)

    @cached_property
    def _examples(self) -> tuple[Example, ...]:
        """The reachable targets. Raises DataError if there are none."""
        examples = []
        for group, item in ((group, item) for group, items in TARGETS.items() for item in items):
            if item in self.world.reachable:
                plan = self._planner.plan(item)
                metadata: dict[str, JsonValue] = {
                    "target": item,
                    "group": group,
                    "difficulty": len(plan),
                    "version": self.world.version,
                }
                golden = (render_plan(plan),)
                examples.append(
                    Example(id=f"minecraft-{item}", question=question(item), golden_answers=golden, metadata=metadata)
                )
        if not examples:
            raise DataError("these recipes make none of the targets reachable", path=self._data / "minecraft")
        return tuple(examples)

    def examples(self) -> Sequence[Example]:
        """One question per target; metadata: target, group, difficulty (steps of the solver's plan), version."""
        return self._examples

    def demonstrations(self) -> Sequence[Demonstration]:
        """The solver's plans for items that are not targets."""
        examples = []
        for item in DEMONSTRATED:
            if item in self.world.reachable:
                plan = self._planner.plan(item)
                things = join_words([name_of(name) for name in self._planner.milestones(plan)])
                reasoning = f"{name_of(item).capitalize()} takes, from first to last, {things}."
                examples.append(Demonstration(question=question(item), reasoning=reasoning, answer=render_plan(plan)))
        return examples

    def solutions(self) -> Sequence[str]:
        """The solver's plans for the targets."""
        return [example.golden_answers[0] for example in self._examples]

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Executability and partial progress; `why` names the first failing step.

        Without an answer both are unscored.
        """
        if trajectory.answer is None:
            missing = Score(value=None, why="there is no answer")
            return {EXECUTABILITY: missing, PARTIAL: missing}
        return await asyncio.to_thread(self._judge, str(example.metadata["target"]), trajectory.answer.text)

    def readable(self, text: str) -> str:
        """A plan as people and judges of plausibility read it: one step a line."""
        return readable_plan(text)

    def _judge(self, target: str, text: str) -> dict[str, Score]:
        steps = parse_plan(self.form.extract(text))
        outcome = simulate(steps, target, world=self.world, names=self._planner.names)
        milestones = self._planner.milestones(self._planner.plan(target))
        any_wood = not _WOOD.match(target)
        obtained = {_kind(item, any_wood) for item in outcome.obtained}
        missing = [item for item in milestones if _kind(item, any_wood) not in obtained]
        is_whole = outcome.executable or not missing
        return {
            EXECUTABILITY: Score(value=float(outcome.executable), why=outcome.why),
            PARTIAL: Score(
                value=1.0 if is_whole else 1 - len(missing) / len(milestones),
                why="" if is_whole else f"not obtained: {', '.join(missing)}",
            ),
        }

    @cached_property
    def corpus(self) -> Path:
        """A JSONL corpus with an article on every item, written into the user's cache folder."""
        path = cache_dir() / f"minecraft-{self.world.version}.jsonl"
        write_corpus(self._data, path, version=self.world.version)
        return path


def question(item: str) -> str:
    """The request for a plan, after RAT, appendix C.3. The form describes the plan, because this is also a query."""
    return f"How do you get this item in Minecraft, if you have nothing to begin with: {name_of(item)}?"


def _kind(item: str, any_wood: bool) -> str:
    return _WOOD.sub(r"\1", item) if any_wood else item


def write_corpus(data: Path, out: Path, *, version: str = VERSION) -> int:
    """Write an article on each item, and one on tools, to the JSONL file `out` (id, title, text).

    data: the data root, as for `load_world`, whose errors it raises. Returns the number of articles.
    """
    world = load_world(data, version=version)
    articles = [*_articles(world), _tools(world)]
    replace_lines(out, (json.dumps(article, ensure_ascii=False).encode() + b"\n" for article in articles))
    return len(articles)


def _articles(world: World) -> Iterator[dict[str, str]]:
    names = Names(world)
    products: dict[str, dict[str, None]] = defaultdict(dict)
    for item, ways in world.ways.items():
        for ingredient in {name for way in ways for slot in way.uses for name in slot.items}:
            products[ingredient][item] = None
    for item in world.display:
        ways, results = world.ways.get(item, ()), list(products.get(item, ()))
        if not ways and not results:
            continue
        title, name = names.display(item), name_of(item)
        sentences = [
            f"{title} is a Minecraft item." if title.lower() == name else f"{title} ({name}) is a Minecraft item."
        ]
        sentences += map(_sentence, ways)
        if not ways:
            sentences.append("It cannot be obtained in survival mode by ordinary means.")
        if results:
            more = [f"{len(results) - _MOST_USES} other items"] if len(results) > _MOST_USES else []
            sentences.append(f"{title} is used to make {join_words([*map(name_of, results[:_MOST_USES]), *more])}.")
        yield {"id": item, "title": title, "text": " ".join(sentences)}


def _sentence(way: Way) -> str:
    name, ingredients = name_of(way.item), [_slot(slot) for slot in way.uses]
    if way.kind == "craft":
        where = "at a crafting table" if way.tools else "in the 2x2 grid of the inventory, without a crafting table"
        return f"Recipe for {way.gives} {name}: {join_words(ingredients)}, crafted {where}."
    if way.kind == "smelt":
        return f"Smelting {ingredients[0]} in {' or '.join(map(a_or_an, way.tools[0]))} gives 1 {name}."
    if way.kind == "upgrade":
        return f"A smithing table upgrades {join_words(ingredients)} to 1 {name}."
    needs = [*map(_tool, way.tools), *ingredients]
    return f"To obtain {name}, {way.how}. " + (f"This needs {join_words(needs)}." if needs else "No tool is needed.")


def _tool(group: Sequence[str]) -> str:
    if group[0].endswith("_pickaxe"):
        return f"{a_or_an(group[0])} or a better pickaxe" if len(group) > 1 else a_or_an(group[0])
    return "shears" if group == SHEARS else f"any {group[0].rsplit('_', 1)[-1]}"


def _slot(slot: Slot) -> str:
    """A count and the alternatives; many of them by their last word: "3 planks of any kind"."""
    if len(slot.items) <= _MOST_ALTERNATIVES:
        return f"{slot.count} {' or '.join(name_of(item) for item in slot.items)}"
    tails = dict.fromkeys(item.rsplit("_", 1)[-1] for item in slot.items)
    return f"{slot.count} {' or '.join(tails)} of any kind (such as {name_of(slot.items[0])})"


def _tools(world: World) -> dict[str, str]:
    needed: dict[str, list[str]] = defaultdict(list)
    for item, ways in world.ways.items():
        for group in (group for way in ways if way.kind == "gather" for group in way.tools):
            needed[_tool(group)].append(name_of(item))
    sentences = [f"Gathering {join_words(items)} needs {tool}." for tool, items in needed.items()]
    opening = "What is gathered by hand needs no tool. A tool is kept when it is used."
    station = "Recipes wider or higher than 2x2 need a crafting table, and smelting needs a furnace."
    return {"id": "tools", "title": "Tools and mining", "text": " ".join([opening, *sentences, station])}


TASKS: dict[str, Callable[[Path], Task]] = {
    "minecraft": MinecraftTask,
    "minecraft_zero_shot": partial(MinecraftTask, form=ZERO_SHOT_FORM, name="minecraft_zero_shot"),
}
