"""Finds a plan for any reachable item. The simulator accepts it, and no step or piece in it is superfluous."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil, inf

from reground.core.errors import ConfigurationError
from reground_minecraft import rules
from reground_minecraft.names import Names
from reground_minecraft.parser import Goal, PlanStep
from reground_minecraft.simulator import Done, Wanted, carry_out
from reground_minecraft.world import FUELS, Way, World

_FUEL = "coal"


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
        wanted = self._pruned(self._expanded(target, count), target, count)
        outcome = carry_out(wanted, target, self.world, count=count)
        return [
            PlanStep(number, (Goal(self.names.display(done.item), goal.count),), True, self._describe(done))
            for number, (goal, done) in enumerate(zip(wanted, outcome.done, strict=True), start=1)
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
        used = sum(slot.count * min(costs.get(item, inf) for item in slot.items) for slot in way.uses)
        tools = sum(min(costs.get(item, inf) for item in group) for group in way.tools)
        return 1.0 + (way.effort + used) / way.gives + tools  # 1 for the step itself

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
        for item in sorted(self.world.reachable):
            self._height(item, heights)
        return heights

    def _height(self, item: str, heights: dict[str, int]) -> int:
        if item not in heights:
            heights[item] = 1 + max((self._height(need, heights) for need in self._needs(self._best[item])), default=0)
        return heights[item]

    def _needs(self, way: Way) -> list[str]:
        fuel = [_FUEL] if way.kind == "smelt" and self.world.fuel else []
        return [self._cheapest(group) for group in (*(slot.items for slot in way.uses), *way.tools)] + fuel

    def _cheapest(self, items: Sequence[str]) -> str:
        return min(items, key=lambda item: (self._costs.get(item, inf), items.index(item)))

    def _expanded(self, target: str, count: int) -> list[Wanted]:
        """Demands passed down from the target, highest item first; then the steps, lowest item first."""
        made: dict[str, int] = defaultdict(int, {target: count})
        held: set[str] = set()
        steps: list[Wanted] = []
        while waiting := {item for item in (*made, *held) if item not in {step.items[0] for step in steps}}:
            item = max(waiting, key=lambda name: (self._heights[name], name))
            way = self._best[item]
            times = way.times(made[item] + (item in held))
            steps.append(Wanted((item,), times * way.gives))
            self._pass_down(way, times, made, held)
        return steps[::-1]

    def _pass_down(self, way: Way, times: int, made: dict[str, int], held: set[str]) -> None:
        below = self._heights[way.item]
        for slot in way.uses:
            made[self._choose(slot.items, {*made, *held}, below)] += slot.count * times
        for group in way.tools:
            held.add(self._choose(group, {*made, *held}, below))
        if way.kind == "smelt" and self.world.fuel:
            made[_FUEL] += ceil(times / FUELS[_FUEL])

    def _choose(self, items: Sequence[str], present: set[str], below: int) -> str:
        """The alternative that is already needed, otherwise the cheapest."""
        shared = [item for item in items if item in present and self._heights.get(item, below) < below]
        return self._cheapest(shared or items)

    def _pruned(self, wanted: list[Wanted], target: str, count: int) -> list[Wanted]:
        """Drop steps and batches until none can be dropped."""
        before: list[Wanted] = []
        while before != wanted:
            before = wanted
            for index in reversed(range(len(wanted))):
                wanted = self._lowered(wanted, index, target, count)
            wanted = [goal for goal in wanted if goal.count]
        return wanted

    def _lowered(self, wanted: list[Wanted], index: int, target: str, count: int) -> list[Wanted]:
        gives = self._best[wanted[index].items[0]].gives
        while wanted[index].count:
            fewer = [*wanted]
            fewer[index] = replace(fewer[index], count=fewer[index].count - gives)
            if not carry_out([goal for goal in fewer if goal.count], target, self.world, count=count).executable:
                break
            wanted = fewer
        return wanted

    def _describe(self, done: Done) -> str:
        """The step in words. A done goal of a pruned plan always has a way."""
        way = done.way
        assert way is not None
        used = join_words([f"{number} {rules.name_of(item)}" for item, number in (done.used or {}).items()])
        tool = way.tools[0][0] if way.tools else ""
        if way.kind == "gather":
            needed = f" with {rules.a_or_an(tool)}" if tool.endswith("_pickaxe") else ""
            return f"{way.how[0].upper()}{way.how[1:]}{needed}."
        place = f" with the {rules.name_of(tool)}" if tool else ""
        name = rules.name_of(way.item)
        return {
            "craft": f"Craft {name} from {used}{place}.",
            "smelt": f"Smelt {used} into {name}{place}.",
            "upgrade": f"Upgrade {used} to {name}{place}.",
        }[way.kind]


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
