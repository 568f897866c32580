"""Supervised fine-tuning: decoder-only and encoder-decoder, whole and by an adapter, used by `hf/` at once."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("transformers", reason="needs the extra [train]")
pytest.importorskip("datasets", reason="needs the extra [train]")

import torch
from safetensors.torch import load_file
from torch.optim.optimizer import register_optimizer_step_pre_hook

from reground.core.errors import ConfigurationError, DataError, RegroundError
from reground.core.language import Message
from reground.models import hf
from reground.models.options import ModelOptions
from reground.training.fitting import Step
from reground.training.rows import Demonstration
from reground.training.settings import Fitting
from reground.training.sft import Passes, fit_named, shortened, tokenised
from reground.training.weights import load_base
from tests.models import sampling, says
from tests.training.tiny import tiny_llama, tiny_t5

PAIRS = {"a b": "c d e", "f g": "h i", "k l": "m n o", "p q": "r s"}


def shown(asked: str, said: str) -> Demonstration:
    return Demonstration(
        question=asked, messages=(Message(role="user", content=asked), Message(role="assistant", content=said))
    )


ROWS = [shown(*pair) for pair in PAIRS.items()]


def fitting(rank: int = 0, **more: Any) -> Fitting:
    rate = 0.05 if rank else 0.01
    return Fitting(**{"learning_rate": rate, "batch": 4, "lora_rank": rank, "max_length": 64, "threads": 1, **more})


@pytest.mark.parametrize(("make", "rank"), [(tiny_llama, 0), (tiny_llama, 8), (tiny_t5, 0)])
async def test_a_model_learns_to_say_what_was_shown(make, rank: int, tmp_path: Path) -> None:
    base, steps = make(tmp_path / "base"), list[Step]()
    place = fit_named(tmp_path, "model", ROWS, str(base), fitting(rank, epochs=60), on_step=steps.append)
    assert steps[-1].loss < 0.3 < steps[0].loss
    model = hf.create(str(place), ModelOptions(threads=1))
    for asked, said in PAIRS.items():
        (reply,) = await model.generate(says(asked), sampling(max_tokens=8))
        assert (reply.text.strip(), reply.finish_reason) == (said, "stop")


@pytest.mark.parametrize(
    ("rank", "family"),
    [
        (0, {}),
        (8, {}),
        (0, {"kind": "Granite", "logits_scaling": 8.0}),
        (8, {"kind": "Cohere", "logit_scale": 0.25}),
        (0, {"kind": "Gemma2", "final_logit_softcapping": 2.0, "head_dim": 8}),
        (0, None),
        (8, None),
    ],
)
def test_the_loss_is_the_mean_over_the_tokens_of_the_replies(
    rank: int, family: dict[str, Any] | None, tmp_path: Path
) -> None:
    """Also where the gradients of several batches are added up, where a batch is divided, where a family scales or
    caps the logits, and for an encoder-decoder (None)."""
    base = tiny_t5(tmp_path / "base") if family is None else tiny_llama(tmp_path / "base", **family)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "dropout_rate": 0.0}))
    model, tokenizer = load_base(str(base))
    lost, count = 0.0, 0
    for row in ROWS:
        prompt, said = tokenised(tokenizer, row, apart=family is None)
        with torch.no_grad():
            if family is None:
                logits = model(torch.tensor([prompt]), labels=torch.tensor([said])).logits[0]
            else:
                logits = model(torch.tensor([prompt + said])).logits[0, len(prompt) - 1 : -1]
        lost -= float(logits.log_softmax(-1).gather(-1, torch.tensor(said)[:, None]).sum())
        count += len(said)
    gradients: list[torch.Tensor] = []

    def kept(optimizer: Any, *given: Any) -> None:
        gradients.append(torch.cat([each.grad.flatten() for each in optimizer.param_groups[0]["params"]]))

    hook = register_optimizer_step_pre_hook(kept)
    for batch, most in ((4, None), (4, 1), (4, 17), (2, None), (2, 8), (1, None)):
        steps: list[Step] = []
        settings = fitting(rank, epochs=1, learning_rate=1e-4, batch=batch, accumulate=4 // batch, batch_tokens=most)
        fit_named(tmp_path / f"{batch}-{most}", "model", ROWS, str(base), settings, on_step=steps.append)
        assert [step.loss for step in steps] == [pytest.approx(lost / count, rel=1e-4)]
        torch.testing.assert_close(gradients[-1], gradients[0], rtol=0, atol=1e-6)
    hook.remove()


@pytest.mark.parametrize("stop", [3, 5, 6])
def test_an_interrupted_fit_goes_on_with_other_threads_and_checkpoints(stop: int, tmp_path: Path) -> None:
    """In whichever pass it was interrupted, it comes to the same weights."""
    base, steps = str(tiny_llama(tmp_path / "base")), list[Step]()
    settings = fitting(epochs=4, learning_rate=1e-4, batch=2, batch_tokens=8, checkpoint_every=1)

    def interrupted(step: Step) -> None:
        if step.number == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_named(tmp_path, "m", ROWS, base, settings, on_step=interrupted)
    other = dataclasses.replace(settings, checkpoint_every=3)
    place = fit_named(tmp_path, "m", ROWS, base, other, on_step=steps.append)
    assert [step.number for step in steps] == list(range(stop, 9))
    whole = fit_named(tmp_path, "whole", ROWS, base, settings)
    assert (place / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    fit_named(tmp_path, "m", ROWS, base, dataclasses.replace(other, threads=2))
    with pytest.raises(ConfigurationError, match=r"other settings: batch \(was 2\)"):
        fit_named(tmp_path, "m", ROWS, base, dataclasses.replace(other, batch=4))


def test_each_pass_has_an_order_of_its_own_with_like_lengths_together() -> None:
    pairs, orders = [([1] * (n % 9), [n]) for n in range(70)], []
    rows = Passes(pairs, fitting(batch=8))
    for number in (0, 1, 2, 1):
        rows.set_epoch(number)
        orders.append(list(rows))
        lengths = [len(prompt) for prompt, _ in rows]
        assert all(max(lengths[at : at + 8]) - min(lengths[at : at + 8]) <= 2 for at in range(0, 64, 8))
    assert [sorted(order) for order in orders] == [sorted(pairs)] * 4
    assert orders[0] != orders[1] != orders[2] != orders[3] == orders[1]


@pytest.mark.parametrize("name", ["grown", "fit", ".", "../out/grown"])
def test_the_folder_of_another_stage_is_not_replaced_by_a_model(name: str, tmp_path: Path) -> None:
    (tmp_path / "out" / "grown").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="choose another name"):
        fit_named(tmp_path / "out", name, ROWS, str(tiny_llama(tmp_path / "base")), fitting(epochs=1))


def test_rows_that_differ_in_roles_or_borders_and_another_base_are_others(tmp_path: Path) -> None:
    base, settings = tiny_llama(tmp_path / "base"), fitting(epochs=1)
    asked, said, *more = (*shown("a", "b").messages, *shown("c", "d").messages)
    one = Demonstration(question="q", messages=(asked, said, *more))
    turned = Demonstration(question="q", messages=(asked.model_copy(update={"role": "system"}), said, *more))
    fit_named(tmp_path, "m", [one], str(base), settings)
    for others in ([turned], [shown("a", "b"), shown("c", "d")]):
        with pytest.raises(ConfigurationError, match=r"other settings: mixture \(was"):
            fit_named(tmp_path, "m", others, str(base), settings)
    tiny_llama(base, seed=8)
    with pytest.raises(ConfigurationError, match=r"other settings: base_weights \(was"):
        fit_named(tmp_path, "m", [one], str(base), settings)


def test_libraries_say_nothing_in_a_fit(tmp_path: Path, capfd, recwarn) -> None:
    base = str(tiny_llama(tmp_path / "base"))
    capfd.readouterr()
    fit_named(tmp_path, "m", ROWS, base, fitting(8, epochs=1, checkpoint_every=1))
    assert (*capfd.readouterr(), *recwarn) == ("", "")


def test_a_fit_that_never_began_is_corrected_without_beginning_again(tmp_path: Path) -> None:
    with pytest.raises(RegroundError):
        fit_named(tmp_path, "m", ROWS, str(tmp_path / "absent"), fitting(epochs=1))
    base = str(tiny_llama(tmp_path / "base"))
    assert fit_named(tmp_path, "m", ROWS, base, fitting(epochs=1, checkpoint_every=1)).is_dir()
    for wrong in ({"base": str(tmp_path / "m")}, {"settings": fitting(epochs=1, max_length=4)}):
        (tmp_path / "m" / "config.json").unlink(missing_ok=True)
        with pytest.raises(RegroundError):
            fit_named(tmp_path, "m", ROWS, **{"base": base, "settings": fitting(epochs=1), **wrong}, fresh=True)
    fit_named(tmp_path, "m", ROWS, base, fitting(epochs=1), on_step=pytest.fail)  # what was there still is


@pytest.mark.parametrize("rank", [0, 8])
def test_bfloat16_learns_and_keeps_what_it_trains_in_float32(rank: int, tmp_path: Path) -> None:
    base = str(tiny_llama(tmp_path / "base"))
    settings, steps = fitting(rank, epochs=40, precision="bfloat16"), list[Step]()
    place = fit_named(tmp_path, "model", ROWS, base, settings, on_step=steps.append)
    assert steps[-1].loss < 0.5 * steps[0].loss
    kept = load_file(place / ("adapter_model.safetensors" if rank else "model.safetensors"))
    assert {values.dtype for values in kept.values()} == {torch.float32}
    frozen, _ = load_base(base, frozen=True, bfloat16=True)
    assert {values.dtype for values in frozen.parameters()} == {torch.bfloat16}


def test_only_the_reply_counts_and_a_long_prompt_loses_its_beginning(tmp_path: Path) -> None:
    _, tokenizer = load_base(str(tiny_llama(tmp_path)))
    row = shown("x y " * 20, "c d e")
    pair = tokenised(tokenizer, row, apart=False)
    prompt, said = shortened(pair, 10, apart=False)
    assert tokenizer.decode(said, skip_special_tokens=True) == "c d e"
    assert said[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(prompt) == "x y x y x y"
    with pytest.raises(ConfigurationError, match="4 tokens and does not fit max_length=4"):
        shortened(pair, 4, apart=False)


def test_rows_that_are_too_long_are_told_and_cut_or_left_out(tmp_path: Path) -> None:
    base = str(tiny_llama(tmp_path / "base"))
    long = [shown("a b", "a " * 18), shown("x y " * 9, "c d e"), shown("x y " * 9, "h i")]
    settings = fitting(epochs=1, max_length=20, batch=1)
    for cut, steps, what in ((True, 7, "lose the beginning of their prompt"), (False, 5, "are left out")):
        told: list[str] = []
        taken: list[Step] = []
        rows = [*ROWS, *long[cut:], ROWS[3]]
        out = tmp_path / str(cut)
        fit_named(out, "m", rows, base, settings, truncate=cut, on_step=taken.append, on_note=told.append)
        assert told == [f"{3 - cut} of {len(rows)} rows are longer than max_length=20 and {what}"]
        assert len(taken) == steps
    with pytest.raises(DataError, match="no demonstration fits max_length=20: raise it"):
        fit_named(tmp_path / "none", "m", long, base, settings, truncate=False)


def test_what_cannot_be_fitted_to(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no demonstrations"):
        fit_named(tmp_path, "model", [], "absent", Fitting())
    asked = ROWS[0].model_copy(update={"messages": ROWS[0].messages[:1]})
    with pytest.raises(ConfigurationError, match="is the assistant's, not the user's"):
        fit_named(tmp_path, "model", [asked], str(tiny_llama(tmp_path / "base")), Fitting(lora_rank=0))


def test_a_demonstration_longer_than_the_context_is_refused(tmp_path: Path) -> None:
    base, long = str(tiny_llama(tmp_path / "base")), [shown("a b", "a " * 130)]
    with pytest.raises(ConfigurationError, match="room for 128 tokens, and a demonstration has 133"):
        fit_named(tmp_path, "model", long, base, fitting(epochs=1, max_length=512))


def test_the_model_after_each_pass_is_kept_on_demand(tmp_path: Path) -> None:
    base, place = str(tiny_llama(tmp_path / "base")), tmp_path / "model"
    settings = fitting(epochs=2.5, batch=2)
    fit_named(tmp_path, "model", ROWS, base, settings, keep_epochs=True)
    kept = [place, *sorted(tmp_path.glob("model-epoch?"))]
    weights = [(each / "model.safetensors").read_bytes() for each in kept]
    assert [each.name for each in kept] == ["model", "model-epoch1", "model-epoch2", "model-epoch3"]
    assert weights[0] == weights[3], "the last pass is the result, whole or not"
    assert len(set(weights)) == 3
