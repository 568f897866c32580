"""Weights: loaded with a head for scores, adapted, and exported so that the other adapters answer alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("peft", reason="needs the extra [train]")

import torch

from reground.core.errors import ConfigurationError
from reground.critics.scorers import exact_head
from reground.models import hf
from reground.training.export import export_adapter, export_folder
from reground.training.weights import adapted, load_base, merged, save, train_upper
from tests.training.tiny import tiny_gguf, tiny_llama, tiny_t5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("tiny"))


def encoded(tokenizer, *texts: str):
    return tokenizer(list(texts), return_tensors="pt", padding=True)


def test_a_new_critic_prefers_nothing(folder: Path) -> None:
    model, tokenizer = load_base(str(folder), head="score")
    with torch.no_grad():
        scores = model(**encoded(tokenizer, "a b c", "d e")).logits
    assert scores.tolist() == [[0.0], [0.0]]
    assert model.training
    assert model.config.pad_token_id == tokenizer.pad_token_id


def test_what_is_trained_is_in_float32_whatever_the_base_is(folder: Path) -> None:
    model, _ = load_base(str(folder), head="score", frozen=True, bfloat16=True)
    trained = {each.dtype for each in adapted(model, 4, head="score").parameters() if each.requires_grad}
    assert (model.dtype, trained) == (torch.bfloat16, {torch.float32})
    assert exact_head(model)(torch.tensor([[1, 2]])).logits.dtype == torch.float32


def test_a_folder_that_has_a_head_for_scores_keeps_it(folder: Path, tmp_path: Path) -> None:
    model, tokenizer = load_base(str(folder), head="score")
    with torch.no_grad():
        model.score.weight.fill_(0.5)
    save(model, tokenizer, tmp_path / "scorer", base=str(folder))
    again, _ = load_base(str(tmp_path / "scorer"), head="score")
    assert torch.equal(again.score.weight, model.score.weight)


def tuned(file: Path, place: Path, *, rank: int = 2) -> Path:
    """A LoRA adapter of a base, with random numbers in place of its zeros."""
    torch.manual_seed(3)
    model, tokenizer = load_base(str(file), frozen=True)
    changed = adapted(model, rank)
    with torch.no_grad():
        for name, values in changed.named_parameters():
            if "lora_B" in name:
                values.normal_(0, 0.5)
    save(changed, tokenizer, place, base=str(file))
    return place


def test_an_adapter_names_its_base_and_is_merged(folder: Path, tmp_path: Path) -> None:
    place = tuned(folder, tmp_path / "adapter")
    named = json.loads((place / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert named == str(folder.resolve())
    apart, tokenizer = hf.load_weights(str(place))
    inputs = encoded(tokenizer, "a b c d")
    export_folder(str(place), tmp_path / "merged")
    for whole, _ in (merged(str(place)), hf.load_weights(str(tmp_path / "merged"))):
        assert torch.allclose(whole.eval()(**inputs).logits, apart.eval()(**inputs).logits, atol=1e-4)


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf")
    folder = tuned(file, tmp_path / "adapter")
    with pytest.raises(ConfigurationError, match="is not an adapter of"):
        export_adapter(folder, tmp_path / "out.gguf", like=tiny_gguf(tmp_path / "wide.gguf", width=128))
    assert not (tmp_path / "out.gguf").exists()
    with pytest.raises(ConfigurationError, match="holds no LoRA adapter"):
        export_adapter(tmp_path, tmp_path / "out.gguf", like=file)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "peft_type": "IA3"}))
    with pytest.raises(ConfigurationError, match="more than a plain LoRA adapter"):
        export_adapter(folder, tmp_path / "out.gguf", like=file)


def test_the_weights_of_a_gguf_file_are_trained_and_saved_like_any_others(tmp_path: Path) -> None:
    """transformers marks dequantised weights as quantised; its trainers refuse such a model and it cannot be saved."""
    from transformers.trainer_utils import validate_quantization_for_training

    file = tiny_gguf(tmp_path / "tiny.gguf")
    model, tokenizer = load_base(str(file))
    validate_quantization_for_training(model)
    save(model, tokenizer, tmp_path / "saved", base=str(file))
    again, _ = hf.load_weights(str(tmp_path / "saved"))
    inputs = encoded(tokenizer, "a b c d")
    assert torch.allclose(again(**inputs).logits, model.eval()(**inputs).logits, atol=1e-5)
    assert "quantization" not in (tmp_path / "saved" / "config.json").read_text()


@pytest.mark.parametrize("make", [tiny_llama, tiny_t5])
def test_the_last_layers_alone_can_be_trained(make, tmp_path: Path) -> None:
    model, _ = load_base(str(make(tmp_path)))
    train_upper(model, 0)
    assert all(each.requires_grad for each in model.parameters())
    train_upper(model, 1)
    trained = {name for name, each in model.named_parameters() if each.requires_grad}
    wanted = "layers.1." if make is tiny_llama else "block.1."
    assert trained
    assert all(wanted in name for name in trained)
    assert {name for name, _ in model.named_parameters() if wanted in name} == trained
    with pytest.raises(ConfigurationError, match="has not 3 layers to train"):
        train_upper(model, 3)
    with pytest.raises(ConfigurationError, match="leave it out, or --lora-rank"):
        train_upper(model, 1, lora_rank=4)
