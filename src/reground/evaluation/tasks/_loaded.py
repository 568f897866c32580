"""The part that tasks with loaded questions share."""

from __future__ import annotations

from collections.abc import Sequence

from reground.core.answers import Demonstration
from reground.evaluation.task import Example


class Loaded:
    """Questions and worked examples that a task's fields hold."""

    loaded: tuple[Example, ...]
    shots: tuple[Demonstration, ...]

    def examples(self) -> Sequence[Example]:
        """All questions of the split."""
        return self.loaded

    def demonstrations(self) -> Sequence[Demonstration]:
        """The worked examples."""
        return self.shots

    def solutions(self) -> Sequence[str]:
        """The questions, because a page that quotes one is a leak. A corpus may contain the answers."""
        return [example.question for example in self.loaded]
