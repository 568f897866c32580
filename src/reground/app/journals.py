"""Where the options say that the journals of runs are."""

from __future__ import annotations

import os

from reground.app.options import SQLITE, Recorded
from reground.core.errors import ConfigurationError
from reground.core.journals import InFolders, Journals

VARIABLE = "REGROUND_JOURNAL"


def journals_of(order: object) -> Journals:
    """The journals of a command's runs: those of its options, else of REGROUND_JOURNAL, else files in their folders.

    A command without these options has files. Raises ConfigurationError, which quotes no address; MissingExtra.
    """
    if not isinstance(order, Recorded):
        return InFolders()
    where = order.journal or os.environ.get(VARIABLE, "").strip() or SQLITE
    if where == SQLITE:
        if order.journal_run is not None:
            raise ConfigurationError("--journal-run names a run in PostgreSQL: give --journal postgresql://...")
        return InFolders()
    from reground.postgres.runs import InDatabase

    return InDatabase(where, name=order.journal_run)
