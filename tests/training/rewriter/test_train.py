"""A training goes on with what it was begun with, and with nothing else."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import Future
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the extra [train]")

from reground.core.errors import ConfigurationError, RegroundError
from reground.evaluation.task import Example
from reground.training.ppo.optimise import Judged
from reground.training.rewriter.train import optimise_rewriter
from reground.training.settings import Optimising
from tests.training.tiny import tiny_llama

SETTINGS = Optimising(
    iterations=1, episodes=8, batch=8, epochs=1, reply_tokens=2, no_end=None, collapse_invalid=1.1, threads=1
)
REWARD = {"reward": {"hit": 1.0}, "task": "letters", "retriever": "library", "reader": "no reader", "method.total": 3}


def asked(*letters: str, answer: str = "c") -> list[Example]:
    return [Example(id=letter, question=letter, golden_answers=(answer,)) for letter in letters]


def same(example: Example, text: str) -> Future[Judged]:
    judged: Future[Judged] = Future()
    judged.set_result({"score": 1.0})
    return judged


def train(out: Path, **changed: object) -> Path:
    given = {"questions": asked("a", "b"), "validation": asked("d"), "reward": REWARD, "settings": SETTINGS}
    given |= changed
    return optimise_rewriter(out, str(out / "warmup"), given.pop("settings"), same, **given)


def test_other_questions_another_pipeline_or_base_are_refused_by_name(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "warmup")
    train(tmp_path)
    others = {
        "questions": {"questions": asked("a", "e")},
        "questions ": {"questions": asked("a", "b", answer="x")},
        "validation": {"validation": asked("e")},
        "task": {"reward": {**REWARD, "task": "numbers"}},
        "method.total": {"reward": {**REWARD, "method.total": 5}},
        "seed": {"settings": Optimising(**{**vars(SETTINGS), "seed": 1})},
    }
    for name, changed in others.items():
        with pytest.raises(ConfigurationError, match=rf"other settings: {name.strip()} \(was "):
            train(tmp_path, **changed)
    shutil.rmtree(tmp_path / "warmup")
    with pytest.raises(RegroundError):
        train(tmp_path, fresh=True)
    assert any((tmp_path / "fit" / "ppo").glob("checkpoint-*")), "a base that cannot be loaded costs nothing"
    tiny_llama(tmp_path / "warmup", seed=8)
    with pytest.raises(ConfigurationError, match=r"other settings: base_weights \(was "):
        train(tmp_path)


def test_how_it_is_computed_may_change(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "warmup")
    place = train(tmp_path)
    train(tmp_path, settings=Optimising(**{**vars(SETTINGS), "threads": 2, "checkpoint_every": 3, "collapse_kl": 1}))
    recorded = json.loads((tmp_path / "fit" / "ppo" / "settings.json").read_text())
    assert recorded["task"] == "letters"
    assert recorded["reward"] == {"hit": 1.0}
    assert (place / "config.json").is_file()
