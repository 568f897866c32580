"""The names of runs in a database that many run folders share."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from reground.core.daemons import in_daemon
from reground.core.errors import ConfigurationError, DataError
from reground.core.journals import Kept, marker_of
from reground.core.language import Value
from reground.core.lines import writing
from reground.core.storable import storable_text
from reground.postgres.address import address_of
from reground.postgres.journal import PATIENCE, THREAD, PostgresJournal

_LONGEST = 200


class Marker(Value):
    """journal.json: which run of which database is this folder's. database: its id, whatever its address."""

    format: Literal[1] = 1
    run: str
    database: str


class InDatabase:
    """The journals of all run folders are in one PostgreSQL database.

    A run's name there is NAME/IDENTITY: a name, and what tells it from other runs of that name. The name is made of the
    folder's name and 16 random hexadecimal digits, so no two folders have the same, and kept in the folder. name: the
    user's own instead, by which a run is taken up from another folder or machine. patience: as for PostgresJournal.

    Raises ConfigurationError for an address or a name that cannot be used, MissingExtra without the driver.
    """

    def __init__(self, url: str, *, name: str | None = None, patience: float = PATIENCE) -> None:
        if name is not None and (not name.strip() or not name.isprintable() or "/" in name or len(name) > _LONGEST):
            raise ConfigurationError(f"a run's name is at most {_LONGEST} characters, without /, not {name[:99]!r}")
        address_of(url)  # a wrong one is refused before anything is opened
        self._url, self._name, self._patience = url, name, patience
        self._reached = False

    async def open(self, file: Path, run: str, identity: str) -> Kept:
        """Open the journal, and find or make the run's name. Raises ConfigurationError, DataError, JournalError."""
        return await in_daemon(lambda: self._opened(file, identity), name=THREAD)

    def _opened(self, file: Path, identity: str) -> Kept:
        if file.exists():
            raise ConfigurationError(f"{file.parent} has its journal in {file.name}: give --journal sqlite to go on")
        journal = PostgresJournal(self._url, patience=self._patience, reached=self._reached)
        try:
            marker = _kept(marker_of(file), lambda: self._marker(file, identity, journal.id))
            if marker.database != journal.id:
                raise ConfigurationError(f"{file.parent} has its journal in another database than {journal.place}")
            if self._name is not None and not marker.run.startswith(f"{self._name}/"):
                raise ConfigurationError(f"{file.parent} is the run {marker.run!r} of the journal, not {self._name!r}")
        except BaseException:
            journal.close()
            raise
        self._reached = True
        return Kept(journal, marker.run)

    def _marker(self, file: Path, identity: str, database: str) -> Marker:
        name = self._name or f"{storable_text(file.parent.resolve().name)[:_LONGEST]}-{secrets.token_hex(8)}"
        return Marker(run=f"{name}/{identity}", database=database)


def _put(part: Path, path: Path) -> None:
    """Give a whole file its name, unless another has it."""
    try:
        os.link(part, path)
    except FileExistsError:
        pass
    except OSError:  # some file systems have no links
        part.replace(path)


def _kept(path: Path, make: Callable[[], Marker]) -> Marker:
    """The marker in a file, made if there is none. Of several processes, the first one's counts."""
    if not path.exists():
        part = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_text(make().model_dump_json() + "\n", encoding="utf-8")
                _put(part, path)
            finally:
                part.unlink(missing_ok=True)
    try:
        return Marker.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from None
    except ValidationError as error:
        raise DataError(f"does not say where the journal is: {error.errors()[0]['msg']}", path=path) from None
