"""The file of proposals, and the folder beside it with what a later command continues from.

questions.jsonl                     a line a question, to be read, edited and given to `compare --questions`
questions.jsonl.work/journal.sqlite every call to the model
questions.jsonl.work/written.json   what this program wrote, to notice that a person has edited the file
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from reground.core.errors import ConfigurationError, DataError
from reground.core.lines import replace_lines
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

    def open(self, *, fresh: bool = False) -> None:
        """Make the folder of work. fresh: forget what was recorded.

        Raises ConfigurationError if the file is not as this program left it, or is a folder.
        """
        if self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a folder: give a file with --out")
        if self.path.exists() and _sum(self.path.read_bytes()) not in self._written():
            raise ConfigurationError(
                f"{self.path} was edited, or is not of this command: give another --out, so that nothing is lost"
            )
        self.work.mkdir(parents=True, exist_ok=True)
        if fresh:
            for file in self.work.glob("journal.sqlite*"):
                file.unlink()

    def write(self, proposals: Sequence[Proposal]) -> None:
        """Replace the file. Raises StorageError."""
        lines = [f"{json.dumps(each.model_dump(mode='json'), ensure_ascii=False)}\n".encode() for each in proposals]
        old = [_sum(self.path.read_bytes())] if self.path.exists() else []
        # The old sum stays until the new file is there: the process may end between the two.
        known = json.dumps([*old, _sum(b"".join(lines))])
        replace_lines(self.work / "written.json", [f"{known}\n".encode()])
        replace_lines(self.path, lines)

    def _written(self) -> list[str]:
        file = self.work / "written.json"
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise DataError(f"cannot be read: {error}", path=file) from None
        return [str(each) for each in found] if isinstance(found, list) else []


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
