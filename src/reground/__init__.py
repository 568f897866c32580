"""reground answers hard questions, with evidence for every step.

    import reground
    result = reground.ask("Which river flows past ...?", corpus="docs/")
    print(result.text, result.quotes, result.shown, result.usage)

    checked = reground.check("The Seine is 775 km long.", corpus="docs/")  # anyone's answer, sentence by sentence

`aask` and `acheck` are the same as coroutines; `help(reground.ask)` lists the options. Import everything else from its
own package:
`reground.core`, `reground.methods`, `reground.retrieval`, `reground.evaluation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reground.app.checking import acheck, check
    from reground.app.session import aask, ask
    from reground.core.budget import Budget

__version__ = "0.1.0"
__all__ = ["Budget", "__version__", "aask", "acheck", "ask", "check"]
_PLACES = {"Budget": "core.budget", "aask": "app.session", "ask": "app.session"}
"""The modules of the public names; the others are in `app.checking`."""


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `import reground` loads no third-party package."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"reground.{_PLACES.get(name, 'app.checking')}"), name)
