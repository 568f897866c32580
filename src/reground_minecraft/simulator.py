"""Simulates plans from an empty inventory, and finds plans that the simulator accepts.

The simulator says whether a plan can be executed, and if not, at which step it fails and why. Its rules (RAT, appendix
C.3, made precise): a step obtains at least the stated number *more* of its item, in any way
that is possible at that moment. Ingredients are consumed, whole batches are made and the surplus is kept. Tools, the
crafting table and the furnace must be held and are kept. A step whose item cannot be obtained again but is already held
in that number changes nothing ("place the crafting table"). Steps without an item change nothing. If steps have several
ways, the plan is executable if some choice of them leads to the end. Tools do not wear out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from math import inf

from reground.core.errors import ConfigurationError
from reground_minecraft.names import Names
from reground_minecraft.parser import Goal, PlanStep
from reground_minecraft.world import COLOURS, FLOWERS, WOODS, Way, World, a_or_an, name_of

Inventory = dict[str, int]

MOST_STATES = 4000
"""Maximum number of inventories that one simulation visits while it tries the plan's open choices."""
_MOST_MIXES = 12


@dataclass(frozen=True)
class ItemGoal:
    """A resolved goal: `count` more of any of `items`. items: empty if no item has the name."""

    items: tuple[str, ...]
    count: int
    step: int = 0
    name: str = ""
    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True)
class GoalResult:
    """The result of one goal: the item, the way (None if it was already held), how often, and what it consumed."""

    item: str
    way: Way | None = None
    times: int = 0
    ingredients: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of a plan.

    executable: whether every step succeeded and the target is held at the end. step: the number of the first step that
    fails, None if the plan only ends without the target. why: the reason, "" on success. results: of the goals before.
    """

    executable: bool
    why: str = ""
    step: int | None = None
    results: tuple[GoalResult, ...] = ()
    inventory: Mapping[str, int] | None = None

    @property
    def obtained(self) -> set[str]:
        """The distinct items that were obtained."""
        return {result.item for result in self.results if result.way is not None}


def simulate(plan: Sequence[PlanStep], target: str, *, world: World, names: Names, count: int = 1) -> Outcome:
    """Carry out the plan, which has to end with at least `count` of the item `target`."""
    goals = resolve_goals(plan, target, names)
    if not goals:
        return Outcome(False, "the plan names no Minecraft item that a step obtains")
    return carry_out(goals, target, world, count=count)


def resolve_goals(plan: Sequence[PlanStep], target: str, names: Names) -> list[ItemGoal]:
    """The plan's goals as items.

    A family's name ("planks") means the woods and colours that the plan names, or else the first.
    """
    goals = [goal for step in plan for item in step.goals for goal in _item_goals(item, step, names)]
    sure = [target, *(goal.items[0] for goal in goals if len(goal.items) == 1)]
    kinds = {kind for kind in (*WOODS, *COLOURS) if any(f"_{kind}_" in f"_{item}" for item in sure)}
    return [replace(goal, items=_narrowed(goal.items, kinds)) for goal in goals]


def _item_goals(goal: Goal, step: PlanStep, names: Names) -> list[ItemGoal]:
    match = names.resolve(goal.name)
    if not match.items and " and " in goal.name:
        parts = [names.resolve(part) for part in goal.name.split(" and ")]
        if all(part.items for part in parts):
            return [ItemGoal(part.items, goal.count, step.number, goal.name) for part in parts]
    if not match.items and not step.certain:
        return []
    return [ItemGoal(match.items, goal.count, step.number, goal.name, match.suggestions)]


def _narrowed(items: tuple[str, ...], kinds: set[str]) -> tuple[str, ...]:
    if len(items) < 4 or items == FLOWERS:  # few enough to try all; flowers differ in their dye
        return items
    matches = tuple(item for item in items if any(item.startswith(f"{kind}_") for kind in kinds))
    return tuple(dict.fromkeys((*matches, items[0])))


@dataclass
class _State:
    """A point of the search: what is held, the goals done, and the untried ways to the next one."""

    inventory: Inventory
    results: tuple[GoalResult, ...]
    choices: Iterator[tuple[Inventory, GoalResult]]


def carry_out(goals: Sequence[ItemGoal], target: str, world: World, *, count: int = 1) -> Outcome:
    """Search depth-first over the goals' open choices. Reports the failure of the attempt that got furthest."""
    best = _State({}, (), _choices(goals[0], {}, world))
    stack = [best]
    visited: set[tuple[int, frozenset[tuple[str, int]]]] = set()
    while stack and len(visited) < MOST_STATES:
        choice = next(stack[-1].choices, None)
        if choice is None:
            stack.pop()
            continue
        inventory, result = choice
        node = (len(stack), frozenset(inventory.items()))
        if node in visited:
            continue
        visited.add(node)
        is_last = len(stack) == len(goals)
        untried = iter(()) if is_last else _choices(goals[len(stack)], inventory, world)
        state = _State(inventory, (*stack[-1].results, result), untried)
        if len(state.results) > len(best.results):
            best = state
        if not is_last:
            stack.append(state)
        elif inventory.get(target, 0) >= count:
            return Outcome(True, results=state.results, inventory=inventory)
        elif not any(target in goal.items for goal in goals):
            break
    inventory, number = best.inventory, len(best.results)
    if number == len(goals):
        why = f"the plan ends without {target}: have {inventory.get(target, 0)}, need {count}"
        return Outcome(False, why, None, best.results, inventory)
    goal = goals[number]
    return Outcome(False, f"step {goal.step}: {_explain(goal, inventory, world)}", goal.step, best.results, inventory)


def _choices(goal: ItemGoal, inventory: Inventory, world: World) -> Iterator[tuple[Inventory, GoalResult]]:
    """Every way to reach the goal now, and then the case that it is already reached."""
    for item in goal.items:
        for way in world.ways.get(item, ()):
            yield from _do(way, goal.count, inventory)
    for item in goal.items:
        if inventory.get(item, 0) >= goal.count:
            yield inventory, GoalResult(item)


def _do(way: Way, count: int, inventory: Inventory) -> Iterator[tuple[Inventory, GoalResult]]:
    if not all(any(inventory.get(tool, 0) for tool in group) for group in way.tools):
        return
    times = way.times(count)
    for rest, ingredients in _consume(way, times, inventory):
        for item, back in way.left_over(ingredients).items():
            rest[item] = rest.get(item, 0) + back
        rest[way.item] = rest.get(way.item, 0) + times * way.gives
        yield rest, GoalResult(way.item, way, times, ingredients)


def _consume(way: Way, times: int, inventory: Inventory) -> Iterator[tuple[Inventory, Inventory]]:
    """The rest and the ingredients, for each choice of the alternative that an ingredient takes first."""
    firsts = [[item for item in slot.items if inventory.get(item, 0)] for slot in way.uses]
    for choice in islice(product(*firsts), _MOST_MIXES):
        rest, lacks = dict(inventory), 0
        ingredients: Inventory = {}
        for slot, first in zip(way.uses, choice, strict=True):
            missing = slot.count * times
            for item in (first, *slot.items):
                amount = min(missing, rest.get(item, 0))
                if amount:
                    rest[item] -= amount
                    ingredients[item] = ingredients.get(item, 0) + amount
                    missing -= amount
            lacks += missing
        if not lacks:
            yield {item: number for item, number in rest.items() if number}, ingredients


def _explain(goal: ItemGoal, inventory: Inventory, world: World) -> str:
    if not goal.items:
        hint = f"; did you mean {' or '.join(goal.suggestions)}?" if goal.suggestions else ""
        return f"no item is called {goal.name!r}{hint}"
    ways = [way for item in goal.items for way in world.ways.get(item, ())]
    if not ways:
        return f"{goal.items[0]} cannot be obtained: no recipe or source of it is known"
    lacks = [(way, _lacking(way, goal.count, inventory)) for way in ways]
    way, lacking = min(lacks, key=lambda entry: (len(entry[1]), sum("have" in lack for lack in entry[1])))
    return f"{way.item} needs {' and '.join(lacking) or 'ingredients that are used twice'}"


def _lacking(way: Way, count: int, inventory: Inventory) -> list[str]:
    lacking = []
    for slot in way.uses:
        have, need = sum(inventory.get(item, 0) for item in slot.items), slot.count * way.times(count)
        if have < need:
            lacking.append(f"{need} {any_of(slot.items)}, have {have}")
    lacking += [f"{any_of(group)} to be held" for group in way.tools if not any(map(inventory.get, group))]
    return lacking


def any_of(items: Sequence[str]) -> str:
    """Short text for alternatives: "stick", "wooden_pickaxe or better", "planks of any kind", "coal or charcoal"."""
    if len(items) == 1:
        return items[0]
    if items[0].endswith("_pickaxe"):
        return f"{items[0]} or better"
    tails = {item.rsplit("_", 1)[-1] for item in items}
    if len(tails) == 1:
        return f"{tails.pop()} of any kind"
    return " or ".join(items) if len(items) < 4 else f"{items[0]} or the like"


class Planner:
    """Chains backward from the target along every item's cheapest way, then prunes the plan with the simulator."""

    def __init__(self, world: World, names: Names | None = None) -> None:
        self.world = world
        self.names = names or Names(world)

    def plan(self, target: str, count: int = 1) -> list[PlanStep]:
        """Steps that end with `count` of the item `target`; every step and every batch in it is needed.

        Raises ConfigurationError for an item that cannot be obtained.
        """
        if target not in self.world.reachable:
            raise ConfigurationError(f"{target} cannot be obtained in Minecraft {self.world.version}: no plan exists")
        goals = self._pruned(self._expanded(target, count), target, count)
        outcome = carry_out(goals, target, self.world, count=count)
        return [
            PlanStep(number, (Goal(self.names.display(result.item), goal.count),), True, self._describe(result))
            for number, (goal, result) in enumerate(zip(goals, outcome.results, strict=True), start=1)
        ]

    def milestones(self, plan: Sequence[PlanStep]) -> list[str]:
        """The items of a plan made here, in order."""
        return [self.names.resolve(goal.name).items[0] for step in plan for goal in step.goals]

    @cached_property
    def _costs(self) -> dict[str, float]:
        """The effort for one piece of each item by its cheapest way: the least fixed point, by relaxation."""
        costs: dict[str, float] = dict.fromkeys(self.world.reachable, inf)
        changed = True
        while changed:
            changed = False
            for item in sorted(self.world.reachable):
                best = min(self._cost(way, costs) for way in self.world.ways[item])
                if best < costs[item] - 1e-9:
                    costs[item] = best
                    changed = True
        return costs

    def _cost(self, way: Way, costs: dict[str, float]) -> float:
        ingredients = sum(slot.count * min(costs.get(item, inf) for item in slot.items) for slot in way.uses)
        tools = sum(min(costs.get(item, inf) for item in group) for group in way.tools)
        return 1.0 + (way.effort + ingredients) / way.gives + tools  # 1 for the step itself

    @cached_property
    def _best(self) -> dict[str, Way]:
        """Every item's cheapest way; the first of equals."""
        return {
            item: min(self.world.ways[item], key=lambda way: round(self._cost(way, self._costs), 6))
            for item in self.world.reachable
        }

    @cached_property
    def _heights(self) -> dict[str, int]:
        """The number of ways between bare hands and each item. An item's needs are always lower than the item."""
        heights: dict[str, int] = {}

        def height(item: str) -> int:
            if item not in heights:
                way = self._best[item]
                needs = map(self._cheapest, way.needs)
                heights[item] = 1 + max(map(height, needs), default=0)
            return heights[item]

        for item in sorted(self.world.reachable):
            height(item)
        return heights

    def _cheapest(self, items: Sequence[str]) -> str:
        return min(items, key=lambda item: (self._costs.get(item, inf), items.index(item)))

    def _expanded(self, target: str, count: int) -> list[ItemGoal]:
        """Demands passed down from the target, highest item first; then the steps, lowest item first."""
        demand: dict[str, int] = defaultdict(int, {target: count})
        tools: set[str] = set()
        steps: dict[str, ItemGoal] = {}
        while waiting := (demand.keys() | tools) - steps.keys():
            way = self._best[max(waiting, key=lambda name: (self._heights[name], name))]
            times = way.times(demand[way.item] + (way.item in tools))
            steps[way.item] = ItemGoal((way.item,), times * way.gives)
            for slot in way.uses:
                demand[self._choose(slot.items, demand.keys() | tools, way.item)] += slot.count * times
            for group in way.tools:
                tools.add(self._choose(group, demand.keys() | tools, way.item))
        return list(steps.values())[::-1]

    def _choose(self, items: Sequence[str], present: set[str], above: str) -> str:
        """The alternative that is already needed and lower than an item, otherwise the cheapest."""
        top = self._heights[above]
        shared = [item for item in items if item in present and self._heights.get(item, top) < top]
        return self._cheapest(shared or items)

    def _pruned(self, goals: list[ItemGoal], target: str, count: int) -> list[ItemGoal]:
        """Drop steps and batches until none can be dropped."""
        before: list[ItemGoal] = []
        while before != goals:
            before = goals
            for index in reversed(range(len(goals))):
                batch = self._best[goals[index].items[0]].gives
                while goals[index].count:
                    fewer = [*goals]
                    fewer[index] = replace(fewer[index], count=fewer[index].count - batch)
                    steps = [goal for goal in fewer if goal.count]
                    if not steps or not carry_out(steps, target, self.world, count=count).executable:
                        break
                    goals = fewer
            goals = [goal for goal in goals if goal.count]
        return goals

    def _describe(self, result: GoalResult) -> str:
        """The step in words. A goal of a pruned plan always has a way."""
        way = result.way
        assert way is not None
        ingredients = join_words([f"{number} {name_of(item)}" for item, number in (result.ingredients or {}).items()])
        tool = way.tools[0][0] if way.tools else ""
        if way.kind == "gather":
            needed = f" with {a_or_an(tool)}" if tool.endswith("_pickaxe") else ""
            return f"{way.how[0].upper()}{way.how[1:]}{needed}."
        place = f" with the {name_of(tool)}" if tool else ""
        name = name_of(way.item)
        return {
            "craft": f"Craft {name} from {ingredients}{place}.",
            "smelt": f"Smelt {ingredients} into {name}{place}.",
            "upgrade": f"Upgrade {ingredients} to {name}{place}.",
        }[way.kind]


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
