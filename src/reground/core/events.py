"""Events that a run reports to its observer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from reground.core.language import Usage
from reground.core.trajectory import Step


@dataclass(frozen=True)
class Event:
    """The begin of an effect, or the end of a step."""

    type: Literal["begin", "end"]
    span: str
    name: str
    usage: Usage
    step: Step | None = None


Observer = Callable[[Event], None]
