"""The settings of trainers are checked when they are made."""

from __future__ import annotations

import math

import pytest

from reground.core.errors import ConfigurationError
from reground.training.settings import CriticFit, Fitting, Optimising, PairSettings, ReaderLessons, WarmUp


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        *((Fitting, {name: value}) for name, value in (
            ("epochs", 0), ("learning_rate", math.nan), ("batch", -1), ("lora_rank", -1), ("warmup", 2),
        )),
        *((Optimising, {name: value}) for name, value in (
            ("iterations", 0), ("learning_rate", math.nan), ("temperature", 0.0), ("target", 0.0), ("max_norm", 0.0),
            ("clip", -0.2), ("collapse_kl", 0.0), ("collapse_invalid", 0.0), ("collapse_length", 0.0), ("beta", -1.0),
            ("value_coefficient", -0.1), ("gamma", 2.0), ("lam", -1.0), ("lam", math.nan),
        )),
        (PairSettings, {"min_visits": 0}), (PairSettings, {"held_out": 1.0}), (WarmUp, {"copies": 1.0}),
        (ReaderLessons, {"complete": 2}), (ReaderLessons, {"methods": "rag,chance"}),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(kind: type, wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))} .*({'|'.join(map(str, wrong.values()))}|share)"):
        kind(**wrong)


def test_an_encoder_has_no_adapter() -> None:
    with pytest.raises(ConfigurationError, match="LoRA is for the engine lm"):
        CriticFit(lora_rank=8)
