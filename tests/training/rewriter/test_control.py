"""RLOO and GRPO on the bandit that PPO solves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the extra [train]")

from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from reground.core.errors import ConfigurationError
from reground.evaluation.task import Example
from reground.training.fitting import Step
from reground.training.ppo.optimise import Judged
from reground.training.rewriter.train import Control, fit_control, rewriter_prompt
from reground.training.settings import Optimising
from tests.training.tiny import tiny_llama, tiny_t5

SETTINGS = Optimising(
    iterations=10,
    episodes=32,
    batch=16,
    epochs=2,
    learning_rate=0.004,
    reply_tokens=2,
    no_end=None,
    beta=0.0,
    threads=1,
)
QUESTIONS = [Example(id=letter, question=letter, golden_answers=("c",)) for letter in "ab"]


async def begins(example: Example, text: str) -> Judged:
    """1 for a reply that begins with an early letter."""
    return {"score": float(text[:1] in set("abcdefgh"))}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rloo", "grpo"])
def test_the_reward_rises(kind: Control, tmp_path: Path) -> None:
    base = str(tiny_llama(tmp_path / "base"))
    place = fit_control(tmp_path, base, kind, SETTINGS, begins, questions=QUESTIONS)
    assert (place / "config.json").is_file()
    rows = [json.loads(line) for line in (tmp_path / "fit" / kind / "metrics.jsonl").read_text().splitlines()]
    rewards = [row["reward"] for row in rows if "reward" in row]
    assert (len(rows), len(rewards)) == (40, 10)
    assert sum(rewards[-3:]) / 3 > rewards[0] + 0.2


def rows_of(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "fit" / "rloo" / "metrics.jsonl").read_text().splitlines()]


def test_a_prompt_is_read_with_no_begin_token_beside_that_of_its_template(tmp_path: Path) -> None:
    base = tiny_llama(tmp_path / "base")
    tokenizer = AutoTokenizer.from_pretrained(base)
    begin = [("z", tokenizer.convert_tokens_to_ids("z"))]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="z $A", special_tokens=begin)
    tokenizer.chat_template = "z {% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(base)
    once = tokenizer(rewriter_prompt(tokenizer, "a", apart=False), add_special_tokens=False)["input_ids"]
    assert (once[0], once.count(once[0])) == (begin[0][1], 1)
    short = replace(SETTINGS, iterations=1, episodes=16, epochs=1)
    fit_control(tmp_path, str(base), "rloo", short, begins, questions=QUESTIONS[:1])
    first, *_ = rows_of(tmp_path)
    assert first["num_tokens"] == 16 * (len(once) + first["completions/mean_length"])


def test_every_end_token_of_the_model_ends_a_reply(tmp_path: Path) -> None:
    async def always(example: Example, text: str) -> Judged:
        return {"score": 1.0}

    base = tiny_llama(tmp_path / "base")
    file = base / "generation_config.json"
    every = list(range(len(AutoTokenizer.from_pretrained(base))))
    file.write_text(json.dumps({**json.loads(file.read_text()), "eos_token_id": every}))
    short = replace(SETTINGS, iterations=1, episodes=16, epochs=1, no_end=-1.0)
    fit_control(tmp_path, str(base), "rloo", short, always, questions=QUESTIONS)
    assert [row["reward"] for row in rows_of(tmp_path) if "reward" in row] == [1.0]


@pytest.mark.slow
def test_a_training_that_was_interrupted_goes_on_with_the_same_questions(tmp_path: Path) -> None:
    """Also behind the first pass over them."""
    base = str(tiny_llama(tmp_path / "base"))
    settings = replace(SETTINGS, iterations=5, episodes=16, batch=8, epochs=1)
    questions = [Example(id=letter, question=letter, golden_answers=("c",)) for letter in "abcdefg"]
    asked: dict[str, list[str]] = {"whole": [], "cut": []}

    def interrupted(step: Step) -> None:
        if step.number == 7:
            raise KeyboardInterrupt

    def training(name: str, on_step: Callable[[Step], None]) -> bytes:
        async def judge(example: Example, text: str) -> Judged:
            asked[name].append(example.id)
            return await begins(example, text)

        place = fit_control(tmp_path / name, base, "rloo", settings, judge, questions=questions, on_step=on_step)
        return (place / "model.safetensors").read_bytes()

    whole = training("whole", lambda step: None)
    with pytest.raises(KeyboardInterrupt):
        training("cut", interrupted)
    assert asked["cut"] == asked["whole"][:64]
    del asked["cut"][48:]  # the fourth iteration is made again
    assert training("cut", lambda step: None) == whole
    assert asked["cut"] == asked["whole"]


def test_what_cannot_be_a_control(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="multiple of --batch and of 4"):
        fit_control(tmp_path, "x", "rloo", Optimising(episodes=30, batch=15), begins, questions=QUESTIONS)
    with pytest.raises(ConfigurationError, match="rloo is for decoder-only models"):
        fit_control(tmp_path, str(tiny_t5(tmp_path / "t5")), "rloo", SETTINGS, begins, questions=QUESTIONS)
