"""The options of `arena`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reground.app.options import Data
from reground.core.errors import ConfigurationError
from reground.models.options import ModelOptions

_SERVER, _RESULTS, _MODEL = ({"panel": title} for title in ("Server", "Results", "Model"))


@dataclass(frozen=True, kw_only=True)
class Arena(Data):
    """The options of `arena`."""

    folders: list[Path] = field(metadata={"argument": True})
    """Run folders, or folders that contain run folders, of at least two methods on the same questions."""

    tasks: str = ""
    """The runs' tasks that are in files of your own, FILE.py or FILE.py:NAME, separated by commas."""

    votes: Path | None = None
    """The file of votes (SQLite); by default arena.sqlite beside the first run, or in the user's state folder where
    that cannot be written. Several sessions can share one file."""

    limit: int | None = field(default=None, metadata={"min": 1})
    """The number of questions, drawn by the seed; all by default."""

    seed: int = 0
    """The seed that draws the questions."""

    host: str = field(default="127.0.0.1", metadata=_SERVER)
    """The address to listen at; by default this machine alone can reach it."""

    port: int = field(default=8767, metadata={"min": 0, **_SERVER})
    """The port; 0 takes a free one."""

    open: bool = field(default=True, metadata={"name": "--open/--no-open", **_SERVER})
    """Open the page in the browser."""

    results: bool = field(default=False, metadata=_RESULTS)
    """Print what the votes say, and serve nothing."""

    judges: Literal["people", "models", "all"] = field(default="all", metadata=_RESULTS)
    """Whose votes are in the results; people and models have rows of their own."""

    csv: Path | None = field(default=None, metadata=_RESULTS)
    """Also write the ratings to this file, and serve nothing."""

    judge: str | None = field(default=None, metadata=_MODEL)
    """A model (provider/model) that votes on all pairs, each in both orders; then the results are printed."""

    concurrency: int = field(default=8, metadata={"min": 1, **_MODEL})
    """Pairs that the model judges at once."""

    dry_run: bool = field(default=False, metadata=_MODEL)
    """Print the number of pairs to judge and stop."""

    model_options: ModelOptions = field(default_factory=ModelOptions, metadata=_MODEL)
    """Where and how to reach the model."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"there is no port {self.port}: they go up to 65535")
