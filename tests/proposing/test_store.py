from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError, DataError
from reground.evaluation.tasks import load_task
from reground.proposing.propose import Proposal
from reground.proposing.store import ProposalFile, open_proposals


def proposal(number: int) -> Proposal:
    return Proposal(
        id=f"q{number:03}", question=f"Größe {number}?", answer=str(number), passages=("a.md#1", "b.md"), link="x",
        evidence=("one", "two"),
    )  # fmt: skip


def test_the_file_can_be_read_by_people_and_given_to_compare(tmp_path: Path) -> None:
    with open_proposals(tmp_path / "questions.jsonl") as file:
        file.write([proposal(1)])
        file.write([proposal(1), proposal(2)])
    lines = file.path.read_text(encoding="utf-8").splitlines()
    assert [list(json.loads(line)) for line in lines] == [
        ["id", "question", "answer", "passages", "link", "evidence"]
    ] * 2
    assert "Größe 1?" in lines[0]
    one, _ = load_task(f"questions:{file.path}").examples()
    assert (one.id, one.golden_answers, one.metadata["gold_ids"]) == ("q001", ("1",), ["a.md#1", "b.md"])


def opened(path: Path, *, fresh: bool = False) -> ProposalFile:
    with open_proposals(path, fresh=fresh) as file:
        return file


def test_what_a_person_edited_is_never_replaced(tmp_path: Path) -> None:
    file = opened(tmp_path / "q.jsonl")
    file.write([proposal(1)])
    opened(file.path)
    file.path.write_text(file.path.read_text() + "\n")
    for fresh in (False, True):
        with pytest.raises(ConfigurationError, match="was edited"):
            opened(file.path, fresh=fresh)
    (tmp_path / "theirs.jsonl").write_text("mine")
    with pytest.raises(ConfigurationError, match="not of this command"):
        opened(tmp_path / "theirs.jsonl")
    with pytest.raises(ConfigurationError, match="is a folder"):
        opened(tmp_path)


def test_one_process_at_a_time_writes_the_file(tmp_path: Path) -> None:
    with open_proposals(tmp_path / "q.jsonl") as file:
        file.journal.write_text("in use")
        with pytest.raises(ConfigurationError, match=r"another process is writing .*q\.jsonl"):
            opened(file.path, fresh=True)
        assert file.journal.exists()
    opened(file.path)


def test_an_end_between_the_two_files_leaves_both_usable(tmp_path: Path) -> None:
    file = opened(tmp_path / "q.jsonl")
    file.write([proposal(1)])
    before = file.path.read_bytes()
    file.write([proposal(1), proposal(2)])
    file.path.write_bytes(before)  # as if the process had ended before the second file
    opened(file.path)


def test_a_fresh_start_forgets_what_was_recorded(tmp_path: Path) -> None:
    file = opened(tmp_path / "q.jsonl")
    file.journal.write_text("old")
    opened(file.path)
    assert file.journal.exists()
    opened(file.path, fresh=True)
    assert not file.journal.exists()


def test_a_broken_note_of_what_was_written_is_named(tmp_path: Path) -> None:
    file = opened(tmp_path / "q.jsonl")
    file.write([proposal(1)])
    (file.work / "written.json").write_text("{")
    with pytest.raises(DataError, match=r"written\.json"):
        opened(file.path)
