"""What an observer of a run is told while it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from reground.core.language import Usage
from reground.core.trajectory import Step


@dataclass(frozen=True)
class Event:
    """Something an observer can show while it happens: an effect begins, or a step is done."""

    type: Literal["begin", "end"]
    span: str
    name: str
    usage: Usage
    step: Step | None = None


Observer = Callable[[Event], None]
