"""Fits: resumed after a kill as if nothing had happened, recorded, stopped at a loss that is not finite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reground.training.fitting import METRICS, append_metrics, forget_after, read_metrics

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("transformers", reason="needs the extra [train]")

import torch
from torch import nn
from transformers import default_data_collator

from reground.core.errors import ConfigurationError, TrainingFailed
from reground.training.fitting import (
    Parts,
    Step,
    arguments,
    begin,
    fit,
    has_room,
    make_room,
    newest_checkpoint,
    result,
    trainer_class,
)
from reground.training.settings import Fitting


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


def test_damaged_lines_of_metrics_are_left_out_and_set_aside(tmp_path: Path) -> None:
    file = written(tmp_path)
    with file.open("a") as more:
        more.write("[]\n" + '{"step": 4, "lo')
    assert [row["step"] for row in read_metrics(file)] == [1, 2, 3]
    forget_after(tmp_path, 4)
    append_metrics(tmp_path, 4, {"loss": 0.4})
    assert [row["step"] for row in read_metrics(file)] == [1, 2, 3, 4]
    assert file.with_name(f"{METRICS}.damaged").read_text() == '[]\n{"step": 4, "lo\n'


SETTINGS = Fitting(epochs=2, batch=2, learning_rate=0.01, checkpoint_every=5, threads=1, seed=3)


class Line(nn.Module):
    """A straight line with dropout, so that the random state matters."""

    def __init__(self, poison: bool = False) -> None:
        super().__init__()
        self.weights, self.drop, self.poison, self.again = nn.Linear(4, 1), nn.Dropout(0.2), poison, False

    def gradient_checkpointing_enable(self, how: object) -> None:
        self.again = True

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = ((self.weights(self.drop(x))[:, 0] - labels) ** 2).mean()
        return {"loss": loss * (float("nan") if self.poison else 1.0)}


def trainer(out: Path, settings: Fitting = SETTINGS, poison: bool = False):
    from transformers import TrainingArguments

    torch.manual_seed(settings.seed)
    noise = torch.Generator().manual_seed(1)
    rows = [{"x": torch.randn(4, generator=noise), "labels": torch.tensor(float(n % 3))} for n in range(24)]
    return trainer_class()(Line(poison), TrainingArguments(**arguments(settings, out)), train_dataset=rows)


def weights(made) -> list[float]:
    return [value for each in made.model.parameters() for value in each.flatten().tolist()]


def test_a_fit_lowers_the_loss_and_tells_of_every_step(tmp_path: Path) -> None:
    told: list[Step] = []
    fit(trainer(tmp_path / "fit"), tmp_path / "fit", on_step=told.append)
    assert [step.number for step in told] == list(range(1, 25))
    assert {step.total for step in told} == {24}
    assert told[-1].seconds_left == 0
    losses = [row["loss"] for row in read_metrics(tmp_path / "fit" / METRICS)]
    assert losses == pytest.approx([step.loss for step in told])
    assert sum(losses[-6:]) < sum(losses[:6])


@pytest.mark.parametrize(
    ("batch", "warmup", "high"), [(24, 0.1, 0), (6, 0.1, 0), (2, 0.25, 2), (6, 0.0, 0), (6, 1.0, 3)]
)
def test_the_rate_is_above_0_at_every_step_and_rises_and_falls(batch, warmup, high: int, tmp_path: Path) -> None:
    settings = Fitting(**{**vars(SETTINGS), "epochs": 1, "batch": batch, "warmup": warmup})
    fit(trainer(tmp_path, settings), tmp_path)
    rates = [row["learning_rate"] for row in read_metrics(tmp_path / METRICS)]
    assert (len(rates), rates.index(max(rates)), max(rates)) == (24 // batch, high, pytest.approx(0.01))
    assert rates[: high + 1] == sorted(rates[: high + 1]) and rates[high:] == sorted(rates[high:])[::-1]
    assert min(rates) > 0


def test_a_killed_fit_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    fit(whole := trainer(tmp_path / "whole"), tmp_path / "whole")
    killed = subprocess.run([sys.executable, __file__, str(tmp_path / "cut")], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    newest = newest_checkpoint(tmp_path / "cut")
    assert newest is not None
    assert newest.name == "checkpoint-10"
    (tmp_path / "cut" / "checkpoint-15").mkdir()  # half written: not marked as whole
    told: list[int] = []
    fit(resumed := trainer(tmp_path / "cut"), tmp_path / "cut", on_step=lambda step: told.append(step.number))
    assert told == list(range(11, 25))
    assert weights(resumed) == weights(whole)
    steps = [row["step"] for row in read_metrics(tmp_path / "cut" / METRICS)]
    assert steps == list(range(1, 25))
    again: list[int] = []
    fit(trainer(tmp_path / "cut"), tmp_path / "cut", on_step=lambda step: again.append(step.number))
    assert again == []  # it is finished


@pytest.mark.parametrize(("pause", "steps"), [(0.0, {23, 24}), (300.0, {24})])
def test_checkpoints_are_made_by_the_clock_without_steps(tmp_path: Path, pause: float, steps: set[int]) -> None:
    fit(trainer(tmp_path, Fitting(**{**vars(SETTINGS), "checkpoint_every": None})), tmp_path, pause=pause)
    assert {int(folder.name.rpartition("-")[2]) for folder in tmp_path.glob("checkpoint-*")} == steps


def test_a_step_is_tried_for_room_without_a_trace_and_divided_where_there_is_none(tmp_path: Path) -> None:
    made, before = trainer(tmp_path), torch.random.get_rng_state()
    rows = made.train_dataset[:8]
    assert has_room(made, rows)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(each.grad is None for each in made.model.parameters())

    def full(model: nn.Module, given: object, named: dict[str, torch.Tensor]) -> None:
        if len(named["x"]) > room[-1]:
            raise torch.OutOfMemoryError("no room")

    room: list[int] = []
    made.model.register_forward_pre_hook(full, with_kwargs=True)
    for has, given, most in ((8, None, None), (3, None, 2 * 4), (1, None, 4), (1, 7, 7), (1, 9, 4), (0, None, 4)):
        room.append(has)
        made.data_collator = Parts(default_data_collator, lambda row: 4, given)
        make_room(made, rows, lambda row: 4)
        assert (made.data_collator.most, made.model.again) == (most, has == 0)


@pytest.mark.parametrize(("epochs", "every"), [(2, 12), (2, 6), (2, 5), (1.5, 100)])
@pytest.mark.parametrize("last", [1, 2])
def test_a_pass_that_ended_just_before_a_kill_is_told_again_with_its_weights(
    epochs: float, every: int, last: int, tmp_path: Path
) -> None:
    settings = Fitting(**{**vars(SETTINGS), "epochs": epochs, "checkpoint_every": every})
    passes: list[tuple[int, list[float]]] = []

    def killed(number: int) -> None:
        passes.append((number, weights(made)))
        if number == last:
            raise KeyboardInterrupt

    made = trainer(tmp_path, settings)
    with pytest.raises(KeyboardInterrupt):
        fit(made, tmp_path, on_epoch=killed)
    resumed = trainer(tmp_path, settings)
    told: list[tuple[int, list[float]]] = []
    fit(resumed, tmp_path, on_epoch=lambda number: told.append((number, weights(resumed))))
    assert passes[-1] in told
    assert told[-1][0] == 2


def test_a_loss_that_is_not_finite_stops_the_fit(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match=r"loss is nan at step 1: begin again with a lower learning rate"):
        fit(trainer(tmp_path, poison=True), tmp_path)


def test_a_folder_that_another_process_trains_in_is_refused(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from reground.training.fitting import begin\n"
        "begin(pathlib.Path(sys.argv[1]), {}); print('begun', flush=True); sys.stdin.read()"
    )
    out = tmp_path / "fit"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "begun\n"
        (out / "checkpoint-1").mkdir()
        for fresh in (False, True):
            with pytest.raises(ConfigurationError, match="another process is training"):
                begin(out, {}, fresh=fresh)
        other.stdin.close()
    assert (out / "checkpoint-1").exists()
    begin(out, {})


def test_an_interrupted_fit_goes_on_only_with_the_same_settings(tmp_path: Path) -> None:
    out = tmp_path / "fit"
    begin(out, {"base": "a", "seed": 1})
    begin(out, {"base": "a", "seed": 1})
    with pytest.raises(ConfigurationError, match=r"other settings: seed \(was 1\).*--fresh"):
        begin(out, {"base": "a", "seed": 2})
    (out / "checkpoint-5").mkdir()
    begin(out, {"base": "a", "seed": 2}, fresh=True)
    assert sorted(file.name for file in out.iterdir()) == ["settings.json"]


def test_a_result_is_whole_or_absent(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), result(tmp_path / "critic") as part:
        (part / "weights").write_text("half")
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []
    for text in ("first", "second"):
        with result(tmp_path / "critic") as part:
            (part / "weights").write_text(text)
    assert [file.name for file in tmp_path.iterdir()] == ["critic"]
    assert (tmp_path / "critic" / "weights").read_text() == "second"


if __name__ == "__main__":  # the process that is killed

    def die(step: Step) -> None:
        if step.number == 13:
            os.kill(os.getpid(), signal.SIGKILL)

    fit(trainer(Path(sys.argv[1])), Path(sys.argv[1]), on_step=die)
