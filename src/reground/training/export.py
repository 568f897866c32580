"""A trained language model as a folder of whole weights, or as a GGUF file for llama.cpp."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reground.core.errors import ConfigurationError, MissingExtra
from reground.core.lines import writing
from reground.training.fitting import result
from reground.training.weights import merged, save

if TYPE_CHECKING:
    import numpy as np

Precision = Literal["f16", "q8_0"]


def export_folder(name: str, out: Path) -> None:
    """Write a model, with its adapter merged in, as a folder that `hf/` and other tools load."""
    model, tokenizer = merged(name)
    with result(out) as folder:
        save(model, tokenizer, folder, base=name)


def export_gguf(name: str, out: Path, *, like: Path, precision: Precision = "q8_0") -> None:
    """Write a model, with its adapter merged in, as a GGUF file.

    like: a GGUF file of the same base; its tokenizer and settings are taken over and its tensors replaced. precision:
    of the matrices; vectors keep 32 bits. Raises ConfigurationError where the two models do not have the same tensors.
    """
    try:
        from gguf import GGUFReader, GGUFWriter
    except ImportError:
        raise MissingExtra("a GGUF file", "train") from None
    model, _ = merged(name)
    template = GGUFReader(str(like))
    architecture = str(template.fields["general.architecture"].contents())
    new = dict(_named(model, architecture))
    shapes = {tensor.name: tuple(int(size) for size in reversed(tensor.shape)) for tensor in template.tensors}
    unlike = [key for key, values in new.items() if key in shapes and values.shape != shapes[key]]
    unlike += [key for key in shapes if key not in new and not key.startswith("rope_")]
    if unlike:
        raise ConfigurationError(f"{like} is not of the same model as {name}: {', '.join(sorted(unlike)[:3])} differ")
    part = out.with_name(out.name + ".part")
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        writer = GGUFWriter(str(part), architecture)
        _copy_settings(template, writer, precision)
        for tensor in template.tensors:
            values = new.get(tensor.name)
            if values is None:
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            else:
                _add(writer, tensor.name, values, precision)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        part.replace(out)


def _copy_settings(template: Any, writer: Any, precision: Precision) -> None:
    from gguf import GGUFValueType, LlamaFileType

    ours = {"general.architecture", "general.file_type", "general.quantization_version"}
    for field in template.fields.values():
        if field.name in ours or field.name.startswith("GGUF."):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, inner)
    kinds = {"f16": LlamaFileType.MOSTLY_F16, "q8_0": LlamaFileType.MOSTLY_Q8_0}
    writer.add_file_type(kinds[precision])
    writer.add_quantization_version(2)


def _add(writer: Any, name: str, values: np.ndarray[Any, Any], precision: Precision) -> None:
    import numpy as np
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    if values.ndim < 2:
        writer.add_tensor(name, values.astype(np.float32))
    elif precision == "q8_0" and values.shape[-1] % 32 == 0:  # Q8_0 has blocks of 32
        kind = GGMLQuantizationType.Q8_0
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    else:
        writer.add_tensor(name, values.astype(np.float16))


def _named(model: Any, architecture: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The weights by their names in GGUF, in the order of numbers that llama.cpp expects."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    known = {name: arch for arch, name in MODEL_ARCH_NAMES.items()}
    names = get_tensor_name_map(known[architecture], model.config.num_hidden_layers)
    heads = model.config.num_attention_heads
    for key, value in model.state_dict().items():
        name = names.get_name(key, try_suffixes=(".weight", ".bias"))
        if name is None:
            raise ConfigurationError(f"the weights {key} have no name in GGUF files of {architecture}")
        values = value.float().cpu().numpy()
        if architecture == "llama" and ".attn_q." in name:
            values = _interleaved(values, heads)
        if architecture == "llama" and ".attn_k." in name:
            values = _interleaved(values, model.config.num_key_value_heads)
        yield name, values


def _interleaved(values: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Rows of rotary queries or keys: transformers pairs row i with i + d/2 of a head, llama.cpp with the next one."""
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
