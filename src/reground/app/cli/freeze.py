"""`reground freeze`: keep what a run found on the web."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from reground.app.cli.console import say
from reground.app.cli.show import trajectory_files
from reground.core.errors import DataError
from reground.core.files import expanded
from reground.core.trajectory import read_trajectories
from reground.web.frozen import searches, write


def freeze(
    place: Annotated[Path, typer.Argument(help="A run's folder, or a file of trajectories.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of the snapshot.")] = Path("web.jsonl"),
    full: Annotated[
        bool, typer.Option("--full", help="Keep snippets also of engines whose terms forbid it, for yourself alone.")
    ] = False,
) -> None:
    """Keep what a run found on the web, so that it can be repeated when the web has moved on.

    The snapshot holds every search, its date, and a hash of each text. Snippets of engines whose terms forbid to keep
    them are left out; --web frozen:FILE then fetches nothing and finds the same.

    Example:  reground freeze runs/rat --out rat-web.jsonl
    """
    trajectories = (each for file in trajectory_files(expanded(place)) for each in read_trajectories(file))
    frozen = list(searches(trajectories, all_texts=full))
    if not frozen:
        raise DataError("no search of the web is in it; run a method with --web first", path=place)
    count = write(expanded(out), frozen, made=datetime.now(UTC).isoformat(timespec="seconds"))
    texts = [bool(passage.text) for each in frozen for passage in each.passages]
    say(f"{count} searches with {sum(texts)} of {len(texts)} texts in {out}: --web frozen:{out}")
