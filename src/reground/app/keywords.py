"""Turns a function of one dataclass into a function of the dataclass's fields."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from reground.app.meanings import field_names, meanings
from reground.core.errors import did_you_mean

P = ParamSpec("P")
T = TypeVar("T")
Order = TypeVar("Order")


def spread(order: Callable[P, Order]) -> Callable[[Callable[[Order], T]], Callable[P, T]]:
    """Let a function of one order take the order's fields as keywords. Their types and help come from the dataclass."""
    cls: Any = order
    fields = inspect.signature(cls).parameters
    told = "\n".join(
        textwrap.fill(f"{name}: {text}", 116, subsequent_indent="    ") for name, text in meanings(cls).items()
    )

    def door(function: Callable[[Order], T]) -> Callable[P, T]:
        def ordered(*args: P.args, **named: P.kwargs) -> Order:
            for name in named:
                if name not in fields:
                    raise TypeError(f"{function.__name__}() takes no {name!r}; {did_you_mean(name, fields)}")
            return order(*args, **named)

        def opened(*args: P.args, **named: P.kwargs) -> T:
            return function(ordered(*args, **named))

        async def awaited(*args: P.args, **named: P.kwargs) -> Any:
            return await function(ordered(*args, **named))  # type: ignore[misc]

        found: Any = awaited if inspect.iscoroutinefunction(function) else opened
        found.__name__ = found.__qualname__ = function.__name__
        found.__doc__ = f"{inspect.getdoc(function)}\n\n{told}"
        found.__signature__ = inspect.Signature(
            sorted((fields[name] for name in field_names(cls)), key=lambda each: each.kind)
        )
        return found  # type: ignore[no-any-return]

    return door
