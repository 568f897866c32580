"""One thought of the draft on its way through phase 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import Thought
from reground.core.run import Run


@dataclass
class Step:
    """y_i^thought, q_i, V_i, the reflection and y_i^RaR. run: the step's span."""

    draft: str
    run: Run
    query: str = ""
    markers: Sequence[int] = ()
    reflection: str | None = None
    text: str = ""
    grounded: bool = False

    def thought(self) -> Thought:
        """The step as the answer records it."""
        return Thought(
            text=self.text or self.draft,
            draft=self.draft,
            reflection=self.reflection,
            query=self.query or None,
            citations=tuple(self.markers) if self.grounded else (),
        )
