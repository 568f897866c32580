"""The cost of each stage of a method: its calls, its tokens and its share of the wall-clock time (RaR, table 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reground.core.language import Value
from reground.core.trajectory import ExecuteStep, GenerateStep, RetrieveStep, Step, Trajectory


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
    for step, seconds in timed(trajectory.steps):
        usages = [reply.usage for reply in step.replies] if isinstance(step, GenerateStep) else []
        cost = Stage(
            calls=1,
            prompt=sum(usage.prompt for usage in usages),
            completion=sum(usage.completion for usage in usages),
            seconds=seconds,
        )
        found[step.name] = found.get(step.name, Stage()) + cost
    return found


def timed(steps: Iterable[Step]) -> Iterator[tuple[GenerateStep | RetrieveStep | ExecuteStep, float]]:
    """The steps that cost time, each with the seconds between the end of the one before and its own."""
    began = 0.0
    for step in steps:
        if isinstance(step, GenerateStep | RetrieveStep | ExecuteStep):
            yield step, max(0.0, step.elapsed - began)
            began = max(began, step.elapsed)


def add_stages(several: Iterable[Mapping[str, Stage]]) -> dict[str, Stage]:
    """The sum over questions, in the order in which the stages first appear."""
    total: dict[str, Stage] = {}
    for stages in several:
        for name, stage in stages.items():
            total[name] = total.get(name, Stage()) + stage
    return total
