"""The choice among a fit's passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.training.agent import keep, kept
from reground.training.sft import epoch_place, epochs_of


def test_the_earliest_best_pass_is_kept_and_the_others_go(tmp_path: Path) -> None:
    place = tmp_path / "small"
    for folder, text in [(place, "last"), *((epoch_place(place, n), f"pass {n}") for n in (1, 2, 3))]:
        folder.mkdir()
        (folder / "weights").write_text(text)
    assert len(epochs_of(place)) == 3
    assert kept(place) is None
    assert keep([0.1, 0.5, 0.5], place) == 2
    assert (place / "weights").read_text() == "pass 2"
    assert kept(place) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small", "small.json"]
    assert json.loads((tmp_path / "small.json").read_text()) == {"epoch": 2, "scores": [0.1, 0.5, 0.5]}


def test_an_interrupted_choice_is_made_again(tmp_path: Path) -> None:
    epoch_place(tmp_path / "small", 1).mkdir()
    (tmp_path / "small.json").write_text('{"epoch": 1, "scores": [0.5]}')
    assert kept(tmp_path / "small") is None


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_choice_stands_where_its_other_models_were_being_removed(left: int, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    for number in range(1, left + 1):  # of three; the best was the last, and went first
        epoch_place(tmp_path / "small", number).mkdir()
    (tmp_path / ".small.gone").mkdir()
    (tmp_path / "small.json").write_text('{"epoch": 3, "scores": [0.1, 0.2, 0.9]}')
    assert kept(tmp_path / "small") == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small", "small.json"]
