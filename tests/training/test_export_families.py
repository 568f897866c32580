"""GGUF files of several families: llama.cpp reads the weights that transformers has, or the family is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("peft", reason="needs the extra [train]")

import torch
from safetensors.torch import load_file, save_file

from reground.core.errors import ConfigurationError
from reground.models import gguf, hf
from reground.models.options import ModelOptions
from reground.training.export import export_adapter, export_gguf
from tests.models import sampling, says
from tests.training.test_weights import tuned
from tests.training.tiny import gguf_writer, tiny_llama, write_gguf

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FAMILIES = {"Llama": {}, "Granite": {}, "Qwen2": {}, "Qwen3": {"head_dim": 8}}


def unfilled(path: Path, folder: Path, architecture: str) -> Path:
    """A GGUF file of zeros with the tensors and settings of a tiny model, whose tokens are single letters."""
    import numpy as np
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    model, tokenizer = hf.load_weights(str(folder))
    config, end = model.config, tokenizer.eos_token_id
    tokens = tokenizer.convert_ids_to_tokens(range(config.vocab_size))
    names = get_tensor_name_map(next(arch for arch, name in MODEL_ARCH_NAMES.items() if name == architecture), 2)
    writer = gguf_writer(
        path, architecture, tokens, width=32, inner=64, end=end, merge="a b", eps=config.rms_norm_eps
    )  # fmt: skip
    writer.add_key_length(8)
    writer.add_value_length(8)
    writer.add_rope_freq_base(float(config.rope_parameters["rope_theta"]))
    if architecture == "granite":
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    writer.add_tokenizer_pre("default")
    writer.add_add_bos_token(False)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    for key, values in model.state_dict().items():
        name = names.get_name(key, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(name, np.zeros(tuple(values.shape), dtype=np.float32))
    write_gguf(writer)
    return path


def made(place: Path, kind: str, **more: Any) -> tuple[Path, Path]:
    """The folder of a tiny model of a family, and an unfilled GGUF file of it."""
    folder = tiny_llama(place / "folder", kind=kind, words=LETTERS, **more)
    return folder, unfilled(place / "like.gguf", folder, kind.lower())


async def in_llama_cpp(file: Path, asked: str, adapter: Path | None = None) -> tuple[list[str], list[float]]:
    """The tokens of a reply and their log-probabilities."""
    model = gguf.create(str(file), ModelOptions(threads=1, context=128, slots=1, adapter=adapter))
    try:
        (reply,) = await model.generate(says(asked), sampling(max_tokens=4, logprobs=True))
    finally:
        await model.aclose()
    tokens = reply.token_logprobs or ()
    return [each.token for each in tokens], [each.logprob for each in tokens]


def in_transformers(model: Any, tokenizer: Any, asked: str, said: list[str]) -> list[float]:
    """The log-probabilities of a reply's tokens."""
    ids = tokenizer.convert_tokens_to_ids([*asked, *said])
    with torch.no_grad():
        logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return [float(logprobs[at - 1, ids[at]]) for at in range(len(asked), len(ids))]


@pytest.mark.parametrize(
    ("kind", "precision", "near"), [*((kind, "f16", 0.05) for kind in FAMILIES), ("Llama", "q8_0", 0.3)]
)
async def test_llama_cpp_reads_an_exported_file_as_transformers_reads_the_folder(
    kind: str, precision: Literal["f16", "q8_0"], near: float, tmp_path: Path
) -> None:
    folder, like = made(tmp_path, kind, **FAMILIES[kind])
    export_gguf(str(folder), tmp_path / "out.gguf", like=like, precision=precision)
    said, found = await in_llama_cpp(tmp_path / "out.gguf", "abcdef")
    assert said
    assert found == pytest.approx(in_transformers(*hf.load_weights(str(folder)), "abcdef", said), abs=near)


@pytest.mark.parametrize("kind", FAMILIES)
async def test_llama_cpp_reads_an_exported_adapter_as_transformers_does(kind: str, tmp_path: Path) -> None:
    folder, like = made(tmp_path, kind, **FAMILIES[kind])
    export_gguf(str(folder), tmp_path / "base.gguf", like=like, precision="f16")
    adapter, out = tuned(folder, tmp_path / "adapter"), tmp_path / "adapter.gguf"
    export_adapter(adapter, out, like=like)
    said, found = await in_llama_cpp(tmp_path / "base.gguf", "abcdef", out)
    assert said
    assert found == pytest.approx(in_transformers(*hf.load_weights(str(adapter)), "abcdef", said), abs=0.05)


@pytest.mark.parametrize("whole", [False, True])
def test_weights_of_another_model_are_refused_before_their_base_is_loaded(whole: bool, tmp_path: Path) -> None:
    folder, like = made(tmp_path, "Llama")
    source = folder if whole else tuned(folder, tmp_path / "adapter")
    (folder / "config.json").unlink()  # what is loaded from now on fails
    (file,) = source.glob("*.safetensors")
    deeper = {key.replace("layers.1.", "layers.7."): value for key, value in load_file(file).items()}
    wider = {key: value.repeat_interleave(2, 0) for key, value in load_file(file).items()}
    for weights in (deeper, wider):
        save_file(weights, file)
        with pytest.raises(ConfigurationError, match=r"is not (of the same model|an adapter of)"):
            export_gguf(str(source), tmp_path / "out.gguf", like=like)


@pytest.mark.parametrize("architecture", ["gemma2", "starcoder2", "unheard-of"])
def test_a_family_in_an_order_of_its_own_is_refused(architecture: str, tmp_path: Path) -> None:
    from gguf import GGUFWriter

    like = tmp_path / "like.gguf"
    writer = GGUFWriter(str(like), architecture)
    writer.add_block_count(2)
    write_gguf(writer)
    why = f"cannot write GGUF files of {architecture}: export a folder and use llama.cpp's converter"
    for export, source in ((export_gguf, "absent"), (export_adapter, tmp_path / "absent")):
        with pytest.raises(ConfigurationError, match=why):
            export(source, tmp_path / "out.gguf", like=like)  # type: ignore[operator]
    assert [file.name for file in tmp_path.iterdir()] == ["like.gguf"]
