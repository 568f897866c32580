"""metrics.jsonl: one JSON object a step, written while a fit runs and cut back when it resumes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reground.core.lines import replace_lines

METRICS = "metrics.jsonl"


def append_metrics(folder: Path, step: int, values: Mapping[str, Any]) -> None:
    """Add a step's metrics."""
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step, **values}, default=float) + "\n")


def forget_after(folder: Path, step: int) -> None:
    """Drop the metrics of later steps, which a resumed fit makes again. A kill leaves the old file or the new one."""
    file = folder / METRICS
    if not file.exists():
        return
    kept = "".join(line for line in _whole(file) if json.loads(line)["step"] <= step).encode()
    if kept != file.read_bytes():
        replace_lines(file, [kept])


def read_metrics(file: Path) -> list[dict[str, float]]:
    """The metrics of a fit, each row with its step."""
    return [json.loads(line) for line in _whole(file)]


def _whole(file: Path) -> Iterator[str]:
    """The whole lines; one that a kill cut short is left out."""
    if file.exists():
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        yield from (line for line in lines if line.endswith("}\n"))
