"""The metrics of a fit: cut back when it resumes, whole at every moment."""

from __future__ import annotations

from pathlib import Path

from reground.training.fitting import METRICS, append_metrics, forget_after, read_metrics


def written(folder: Path) -> Path:
    for step in (1, 2, 3):
        append_metrics(folder, step, {"loss": 0.5})
    return folder / METRICS


def test_later_steps_are_dropped_by_a_new_file_in_the_place_of_the_old_one(tmp_path: Path) -> None:
    file = written(tmp_path)
    before = file.read_text()
    with file.open() as old:
        forget_after(tmp_path, 2)
        assert old.read() == before, "a kill in between would have left nothing"
    assert [row["step"] for row in read_metrics(file)] == [1, 2]
    assert [each.name for each in tmp_path.iterdir()] == [METRICS]


def test_a_line_that_a_kill_cut_short_goes(tmp_path: Path) -> None:
    file = written(tmp_path)
    with file.open("a") as more:
        more.write('{"step": 4, "lo')
    forget_after(tmp_path, 4)
    append_metrics(tmp_path, 4, {"loss": 0.4})
    assert [row["step"] for row in read_metrics(file)] == [1, 2, 3, 4]
