"""The cost of each stage of a method: its calls, its tokens and its share of the wall-clock time (RaR, table 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reground.core.language import Value
from reground.core.trajectory import ExecuteStep, GenerateStep, RetrieveStep, Trajectory


class Stage(Value):
    """One stage's cost. prompt, completion: tokens. seconds: wall-clock time; the stages add up to the question's."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    seconds: float = 0.0

    def __add__(self, other: Stage) -> Stage:
        return Stage(
            calls=self.calls + other.calls,
            prompt=self.prompt + other.prompt,
            completion=self.completion + other.completion,
            seconds=self.seconds + other.seconds,
        )


def stages_of(trajectory: Trajectory) -> dict[str, Stage]:
    """The cost of each stage of one question, by the names of its steps ("draft", "retrieve", ...).

    The time between the ends of two steps counts for the later one. For sequential calls this is their duration;
    concurrent calls share their total time.
    """
    found: dict[str, Stage] = {}
    began = 0.0
    for step in trajectory.steps:
        if not isinstance(step, GenerateStep | RetrieveStep | ExecuteStep):
            continue
        usages = [reply.usage for reply in step.replies] if isinstance(step, GenerateStep) else []
        cost = Stage(
            calls=1,
            prompt=sum(usage.prompt for usage in usages),
            completion=sum(usage.completion for usage in usages),
            seconds=max(0.0, step.elapsed - began),
        )
        found[step.name] = found.get(step.name, Stage()) + cost
        began = max(began, step.elapsed)
    return found


def add_stages(several: Iterable[Mapping[str, Stage]]) -> dict[str, Stage]:
    """The sum over questions, in the order in which the stages first appear."""
    total: dict[str, Stage] = {}
    for stages in several:
        for name, stage in stages.items():
            total[name] = total.get(name, Stage()) + stage
    return total
