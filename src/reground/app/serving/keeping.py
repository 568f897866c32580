"""Removes the runs of a server's questions that nobody has asked for long."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from reground.app.run_folder import GONE, in_use, removed
from reground.core.concurrency import in_daemon

MARK = "served"
"""An empty file in the folder of a run that a server began. Its time is that of the last question. Runs without it
belong to somebody else, such as `reground ask`, and stay."""
WITHIN = "within-"
"""How the name of a folder begins that holds the runs within one budget."""
_DAY = 86400.0
_OFTEN, _SELDOM = 1.0, 3600.0
"""The seconds between two looks: a tenth of the time that runs are kept, within these bounds."""
_log = logging.getLogger("reground.serve")


class Keeping:
    """How long the runs under a server's home are kept. days: since they were last asked; 0 keeps all."""

    def __init__(self, home: Path, days: float) -> None:
        self._home = home
        self._days = days

    @contextmanager
    def asked(self, folder: Path) -> Iterator[None]:
        """Hold the folder of a question that is asked now, and note when that was."""
        with in_use(folder) as is_new:
            mark = folder / MARK
            with suppress(OSError):
                if is_new or mark.exists():
                    mark.touch()
            yield

    async def watch(self) -> None:
        """Remove what is too old, now and from time to time, beside the questions. Ends when it is cancelled."""
        while self._days:
            try:
                count = await in_daemon(self.sweep, name="sweep")
                if count:
                    runs = "1 run" if count == 1 else f"{count} runs"
                    _log.info("removed %s that nobody asked for in %g days (--keep)", runs, self._days)
            except OSError as error:
                _log.warning("old runs in %s cannot be removed: %s", self._home, error.strerror)
            await asyncio.sleep(min(_SELDOM, max(_OFTEN, self._days * _DAY / 10)))

    def sweep(self) -> int:
        """Remove what is too old, and what an earlier removal left. Returns how many runs are gone."""
        for left in (*self._home.glob(f"{GONE}*"), *self._home.glob(f"{WITHIN}*/{GONE}*")):
            shutil.rmtree(left, ignore_errors=True)
        return sum(removed(mark.parent, wanted=partial(self._is_old, mark)) for mark in self._marks())

    def _marks(self) -> Iterator[Path]:
        for pattern in (f"ask-*/{MARK}", f"{WITHIN}*/ask-*/{MARK}"):
            yield from (mark for mark in self._home.glob(pattern) if self._is_old(mark))

    def _is_old(self, mark: Path) -> bool:
        try:
            return mark.stat().st_mtime < time.time() - self._days * _DAY
        except OSError:
            return False
