"""The file of --trace, looked at before anything is asked."""

from __future__ import annotations

from pathlib import Path

from reground.core.errors import ConfigurationError
from reground.core.files import without_sum
from reground.core.trajectory import parse_trajectory


def check_trace(trace: str | Path | None) -> None:
    """Refuse a trace file that cannot be written or that holds something else. Raises ConfigurationError."""
    if trace is None:
        return
    path = Path(trace)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
        other = path.is_file() and not _takes_traces(path)  # a pipe is not read
    except OSError as error:
        raise ConfigurationError(f"cannot write the trace {trace}: {error.strerror}") from None
    if other:
        raise ConfigurationError(f"{trace} holds something else than trajectories: give --trace another file")


def _takes_traces(path: Path) -> bool:
    """Whether a file is empty or begins with a trajectory. Of a trajectory that a crash cut short the start counts."""
    with path.open("rb") as file:
        while (start := file.readline(len(_START))) and not start.strip():
            pass
        line = start if start.endswith(b"\n") or start[:1] != b"{" else start + file.readline()
    if line.endswith(b"\n"):
        try:
            parse_trajectory(without_sum(line))
        except ValueError:
            return False
        return True
    return line == b"" or start == _START


_START = b'{"version":'
