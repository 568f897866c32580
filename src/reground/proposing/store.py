"""The file of proposals, and the folder beside it with what a later command continues from.

questions.jsonl                     a line a question, to be read, edited and given to `compare --questions`
questions.jsonl.work/journal.sqlite every call to the model
questions.jsonl.work/written.json   what this program wrote, to notice that a person has edited the file
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from reground.core.errors import ConfigurationError, DataError
from reground.core.files import replace_lines
from reground.core.paths import locked
from reground.proposing.propose import Proposal


class ProposalFile:
    """A file that is written whole, and never over the work of a person."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path.with_name(f"{path.name}.work")

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.work / "journal.sqlite"

    def write(self, proposals: Sequence[Proposal]) -> None:
        """Replace the file. Raises StorageError."""
        lines = [f"{json.dumps(each.model_dump(mode='json'), ensure_ascii=False)}\n".encode() for each in proposals]
        old = [_sum(self.path.read_bytes())] if self.path.exists() else []
        # The old sum stays until the new file is there: the process may end between the two.
        known = json.dumps([*old, _sum(b"".join(lines))])
        replace_lines(self.work / "written.json", [f"{known}\n".encode()])
        replace_lines(self.path, lines)

    def check(self) -> None:
        """Raise ConfigurationError if the file is not as this program left it, or is a folder."""
        if self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a folder: give a file with --out")
        if self.path.exists() and _sum(self.path.read_bytes()) not in self._written():
            raise ConfigurationError(
                f"{self.path} was edited, or is not of this command: give another --out, so that nothing is lost"
            )

    def _written(self) -> list[str]:
        file = self.work / "written.json"
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise DataError(f"cannot be read: {error}", path=file) from None
        return [str(each) for each in found] if isinstance(found, list) else []


@contextmanager
def open_proposals(path: Path, *, fresh: bool = False) -> Iterator[ProposalFile]:
    """The file and its folder of work, for this process alone. fresh: forget what was recorded.

    Raises ConfigurationError if the file is not as this program left it, or if another process writes it.
    """
    file = ProposalFile(path)
    file.check()
    file.work.mkdir(parents=True, exist_ok=True)
    with locked(file.work / ".lock", "writing", path):
        if fresh:
            for each in file.work.glob("journal.sqlite*"):
                each.unlink()
        yield file


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
