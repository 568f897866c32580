"""The options of what stays open: servers, tools and conversations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reground.app.options import DEFAULT_METHOD, DEFAULT_MODEL
from reground.app.options_documents import Searching
from reground.app.options_web import Web
from reground.core.budget import Budget
from reground.models.options import ModelOptions


@dataclass(frozen=True, kw_only=True)
class Offering(Searching, Web):
    """Which methods, over which models and documents, are offered, and what one question may cost."""

    method: list[str] = field(default_factory=lambda: [DEFAULT_METHOD], metadata={"short": "-m"})
    """A method's name, or name+preset. May be repeated; the first is the default."""

    model: list[str] = field(default_factory=lambda: [DEFAULT_MODEL])
    """provider/model; see `reground models`. May be repeated; the first is the default. none searches documents alone,
    for POST /retrieve."""

    corpus: list[str] | None = field(default=None, metadata={"short": "-c", "metavar": "[NAME=]PATH"})
    """A folder of documents, a JSONL file, or an index, and the name that it is offered by: docs=./handbook; by default
    the folder's own. May be repeated; the first is the default."""

    settings: Mapping[str, object] = field(default_factory=dict, metadata={"name": "--set", "metavar": "KEY=VALUE"})
    """A setting of the methods that have it, e.g. k=3, or of one method: rag.k=3. May be repeated."""

    model_options: ModelOptions = field(default_factory=ModelOptions, metadata={"panel": "Model"})
    """Where and how to reach the models."""

    budget: Budget = field(default_factory=Budget, metadata={"prefix": "budget_", "min": 1, "panel": "Budget"})
    """The most that one question may cost, whatever a request asks for."""

    support: str = "words"
    """How the sentences of an answer are checked against the passages, as in `ask`; or none."""

    concurrency: int = field(default=8, metadata={"short": "-j", "min": 1})
    """Questions in work at once."""

    waiting: int = field(default=64, metadata={"file": True, "min": 0})
    """Questions that may wait for their turn; further ones are refused."""

    home: Path | None = None
    """The folder for runs; the user's state folder by default. A question that was answered before is replayed."""


@dataclass(frozen=True, kw_only=True)
class Serve(Offering):
    """The options of `serve`."""

    host: str = "127.0.0.1"
    """The address to listen at; by default this machine alone can reach it. Another one needs keys, or --no-keys."""

    port: int = field(default=8000, metadata={"min": 0})
    """The port; 0 takes a free one."""

    keys: Path | None = None
    """The file of API keys, as --new-key writes it; by default keys.jsonl in the user's configuration folder. Where it
    has a key, every request needs one."""

    no_keys: bool = False
    """Ask for no key, whoever can reach the address."""

    allow_origin: list[str] | None = field(default=None, metadata={"metavar": "ORIGIN"})
    """A web page's origin that may ask from a browser, such as https://chat.example.org; or *. May be repeated."""

    keep: float = field(default=90.0, metadata={"min": 0, "metavar": "DAYS"})
    """Days after which the run of a question that nobody asked again is removed; 0 keeps all. Asked later, it is
    answered and paid for again. Runs of other commands stay."""

    max_body: int = field(default=4, metadata={"file": True, "min": 1, "metavar": "MIB"})
    """The largest body of a request."""

    heartbeat: float = field(default=10.0, metadata={"file": True, "min": 0.05, "metavar": "SECONDS"})
    """Seconds without news after which a stream gets a comment, so that nothing between takes it for dead."""

    grace: float = field(default=30.0, metadata={"min": 0, "metavar": "SECONDS"})
    """After SIGTERM, how long questions in work may take to their end; then they are cancelled."""


@dataclass(frozen=True, kw_only=True)
class View:
    """The options of `view`."""

    place: Path = field(kw_only=False, metadata={"argument": True})
    """A run folder or a folder of runs, or a trajectory file (JSONL)."""

    host: str = "127.0.0.1"
    """The address to listen at; by default this machine alone can reach it."""

    port: int = field(default=0, metadata={"min": 0})
    """The port; 0 takes a free one."""

    open: bool = field(default=True, metadata={"name": "--open/--no-open"})
    """Open the page in the browser."""

    export: Path | None = None
    """Write the page with all questions to this HTML file, which needs no server, and end."""
