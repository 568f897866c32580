"""The live line of a collection."""

from __future__ import annotations

import io

from rich.console import Console

from reground.app.cli.collect_progress import CollectProgress


def test_a_terminal_sees_how_far_it_is_and_a_file_only_the_trees() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    with CollectProgress(screen, 4) as progress:
        assert "on their way" in progress.line()
        for _ in range(3):
            progress.on_simulation(2)
        progress.on_tree("q1 (of 2): 4 visits", kept=False)
        assert progress.line().startswith("collecting trees: 1 of 2 grown, 3 of 8 simulations, ")
        assert progress.line().endswith(" left")
    file = Console(file=io.StringIO())
    with CollectProgress(file, 4) as progress:
        progress.on_simulation(2)
        progress.on_tree("q1 (of 2): kept", kept=True)
    assert file.file.getvalue() == "q1 (of 2): kept\n"  # type: ignore[attr-defined]
    silent = Console(file=io.StringIO(), force_terminal=True)
    with CollectProgress(silent, 4, shown=False) as progress:
        progress.on_simulation(2)
        progress.on_tree("q1", kept=False)
    assert silent.file.getvalue() == ""  # type: ignore[attr-defined]
