"""Where the journals of run folders are: each in its folder, or all in a place that several machines share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reground.core.errors import ConfigurationError
from reground.core.journal import Journal, SqliteJournal


class KeptJournal(Journal, Protocol):
    """A journal that outlives its process. notices: messages for the user about damaged rows."""

    notices: list[str]

    def forget(self, run: str) -> None:
        """Drop everything that one run has recorded."""
        ...

    def close(self) -> None:
        """Write what waits and close it."""
        ...


@dataclass(frozen=True)
class Kept:
    """An open journal, and the name of the run in it."""

    journal: KeptJournal
    run: str


class Journals(Protocol):
    """Opens the journals of run folders."""

    async def open(self, file: Path, run: str, identity: str) -> Kept:
        """Open the journal that is, or stands for, this file of a run folder.

        run: the run's name where the journal is its folder's alone. identity: tells this run from all that have the
        same name elsewhere. Raises ConfigurationError where the run began in another journal, JournalError.
        """
        ...


class InFolders:
    """Every run's journal is a SQLite file in its folder."""

    async def open(self, file: Path, run: str, identity: str) -> Kept:
        """Open the file. Raises ConfigurationError, JournalError."""
        if marker_of(file).exists():
            raise ConfigurationError(
                f"{file.parent} has its journal in PostgreSQL: give its address with --journal or REGROUND_JOURNAL"
            )
        return Kept(SqliteJournal(file), run)


def marker_of(file: Path) -> Path:
    """The file that says which run of a shared journal is meant, in place of the journal's own file."""
    return file.with_suffix(".json")
