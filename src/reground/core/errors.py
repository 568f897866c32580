"""The errors that reground raises on purpose.

The command line shows a `RegroundError` as one line and exits with the class's code. Any other exception is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

EXIT_SURROUNDINGS = 2
EXIT_FAILED_QUESTIONS = 3
EXIT_UNGROUNDED = 4
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
"""The exit codes of the commands, apart from 0 and 1; `app.cli` says what each means."""


class RegroundError(Exception):
    """An error that the user can act on. The message says what happened and what to do."""

    exit_code = 1


class SurroundingsError(RegroundError):
    """What a question needs is wrong or missing: a setting, a file, a server, a sandbox, the disk."""

    exit_code = EXIT_SURROUNDINGS


class ConfigurationError(SurroundingsError):
    """A setting, a name or an argument is wrong; nothing was spent."""


class IndexBusy(ConfigurationError):
    """Another process is building the index."""


class MissingExtra(ConfigurationError):
    """An optional dependency is absent; the message names the extra that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra [{extra}]: pip install 'reground[{extra}]'")
        self.extra = extra


class DataError(SurroundingsError):
    """A file has invalid content; the message names the file and the line."""

    def __init__(self, why: str, *, path: Path | str | None = None, line: int | None = None) -> None:
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + why)
        self.path = path
        self.line = line


class ModelError(SurroundingsError):
    """A language model gave no usable reply.

    paid: the replies of the same call that arrived and are to be paid for.
    """

    paid: Sequence[Any] = ()


class TransientModelError(ModelError):
    """The same call may succeed later.

    retry_after: the seconds to wait, if the server named them.
    """

    def __init__(self, why: str, *, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class AuthenticationError(ModelError):
    """The server refused the key."""


class ContextLengthExceeded(ModelError):
    """The prompt and the requested completion do not fit the model's context."""


class CapabilityError(ModelError):
    """The model cannot do what the method needs. lacks: what it has not, log-probabilities or decoding by a grammar."""

    def __init__(self, message: str, *, lacks: Literal["logprobs", "grammar"] = "logprobs") -> None:
        super().__init__(message)
        self.lacks: Literal["logprobs", "grammar"] = lacks


class EmptyAnswer(RegroundError):
    """The model's last reply has no text, so there is no answer."""


class RetrievalError(RegroundError):
    """A retriever failed for one query; a method may note it and go on."""


class IndexRefused(RetrievalError, SurroundingsError):
    """The index is corrupt, foreign or of another format version."""


class SandboxUnavailable(SurroundingsError):
    """No isolation is available here, so generated code is not run."""


class ParseError(RegroundError):
    """A model's reply did not have the form that a parser asked for."""


class BudgetExceeded(RegroundError):
    """The next effect would exceed the budget and was not started, or the time ran out while it ran."""

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(why)
        self.limit = limit


class StorageError(SurroundingsError):
    """The disk cannot be written: it is full, read-only, or the permission is missing."""


class TrainingFailed(RegroundError):
    """A fit cannot go on, for example because its loss is not finite; its checkpoints are kept."""


class JournalError(SurroundingsError):
    """The journal cannot be read or written."""


def did_you_mean(name: str, names: Iterable[str], then: str = "") -> str:
    """The end of an error message: near names if there are any, else all of them. then: a sentence behind them."""
    import difflib

    lowered = {each.lower(): each for each in sorted(names)}
    near = [lowered[each] for each in difflib.get_close_matches(name[:200].lower(), lowered, n=3, cutoff=0.5)]
    ending = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(lowered.values())}"
    return f"{ending}{'' if near else '.'} {then}" if then else ending
