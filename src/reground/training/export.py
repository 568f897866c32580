"""A trained language model as a folder of whole weights, or, whole or as an adapter, as a GGUF file for llama.cpp."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reground.core.errors import ConfigurationError, MissingExtra
from reground.core.files import writing
from reground.training.fitting import result
from reground.training.weights import merged, save

if TYPE_CHECKING:
    import numpy as np

Precision = Literal["f16", "q8_0"]

_INTERLEAVED = frozenset({"llama", "granite"})
"""Families whose rotary queries and keys have their rows in another order in GGUF files."""
_SAME = frozenset({"qwen2", "qwen3"})
"""Families whose weights are the same in GGUF files. Others differ in ways of their own: Gemma's norms are 1 larger."""


def export_folder(name: str, out: Path) -> None:
    """Write a model, with its adapter merged in, as a folder that `hf/` and other tools load."""
    model, tokenizer = merged(name)
    with result(out) as folder:
        save(model, tokenizer, folder, base=name)


def export_gguf(name: str, out: Path, *, like: Path, precision: Precision = "q8_0") -> None:
    """Write a model, with its adapter merged in, as a GGUF file.

    like: a GGUF file of the same base; its tokenizer and settings are taken over and its tensors replaced. precision:
    of the matrices; vectors keep 32 bits. Raises ConfigurationError where the two models do not have the same tensors,
    and for a family whose order of numbers is not known here.
    """
    import numpy as np
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    template = _Template(like)
    _check_shapes(Path(name), template)
    new = {}
    for key, value in merged(name)[0].state_dict().items():
        name_there = template.name_of(key)
        new[name_there] = template.ordered(name_there, value.float().cpu().numpy())
    sizes = template.sizes
    unlike = [key for key, values in new.items() if key in sizes and values.shape != sizes[key]]
    unlike += [key for key in sizes if key not in new and not key.startswith("rope_")]
    if unlike:
        raise ConfigurationError(f"{like} is not of the same model as {name}: {', '.join(sorted(unlike)[:3])} differ")
    with _gguf_file(out, template.architecture) as writer:
        _copy_settings(template.reader, writer, precision)
        for tensor in template.reader.tensors:
            values = new.get(tensor.name)
            if values is None:
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            elif values.ndim < 2:
                writer.add_tensor(tensor.name, values.astype(np.float32))
            elif precision == "q8_0" and values.shape[-1] % 32 == 0:  # Q8_0 has blocks of 32
                kind = GGMLQuantizationType.Q8_0
                writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
            else:
                writer.add_tensor(tensor.name, values.astype(np.float16))


def export_adapter(folder: Path, out: Path, *, like: Path) -> None:
    """Write a LoRA adapter (a folder of peft) as a GGUF file, with 16 bits a number.

    like: a GGUF file of its base model. Raises ConfigurationError for a folder without a LoRA adapter, one whose
    matrices do not fit the base, and for a family whose order of numbers is not known here.
    """
    import numpy as np

    base = _Template(like)
    alpha, weights = _lora_of(folder)
    _check_shapes(folder, base)
    with _gguf_file(out, base.architecture) as writer:
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", alpha)
        for key, values in weights.items():
            module, _, side = key.removesuffix(".weight").rpartition(".lora_")
            name = base.name_of(f"{module}.weight")
            ordered = values if side == "A" else base.ordered(name, values)
            writer.add_tensor(f"{name}.lora_{side.lower()}", ordered.astype(np.float16))


def _check_shapes(folder: Path, template: _Template) -> None:
    """Raise ConfigurationError where weights or an adapter are of another model, before any are loaded or written."""
    from safetensors import safe_open

    # of LoRA, A reads the matrix's inputs, its columns; B writes its outputs, its rows
    places = {"": slice(None), "A": slice(1, 2), "B": slice(0, 1)}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "np") as weights:
            for key in weights.keys():  # noqa: SIM118  it is no mapping
                module, _, side = key.removeprefix("base_model.model.").removesuffix(".weight").partition(".lora_")
                name = template.name_of(f"{module}.weight" if side else key)
                shape = tuple(weights.get_slice(key).get_shape())
                size, place = template.sizes.get(name, (0, 0) if side else shape), places.get(side, slice(0))
                if shape[place] != size[place]:
                    what = "an adapter of" if side else "of the same model as"
                    raise ConfigurationError(f"{folder} is not {what} {template.file}: {name} differs")


@contextmanager
def _gguf_file(out: Path, architecture: str) -> Iterator[Any]:
    """A GGUF file to add to, which takes its place when the block ends well: whole, or not at all."""
    from gguf import GGUFWriter

    part = out.with_name(out.name + ".part")
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        writer = GGUFWriter(str(part), architecture)
        yield writer
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        part.replace(out)


def _lora_of(folder: Path) -> tuple[float, dict[str, np.ndarray[Any, Any]]]:
    """The scale's numerator of a peft folder, and its matrices by the modules that they change.

    llama.cpp divides the numerator by the rank, as peft does but for rank-stabilised adapters (Kalajdzievski 2023).
    """
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        weights = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{folder} holds no LoRA adapter that can be read: {error}") from None
    matrices = {key.removeprefix("base_model.model."): value.float().numpy() for key, value in weights.items()}
    unknown = sorted(key for key in matrices if ".lora_A." not in key and ".lora_B." not in key)
    apart = config.get("rank_pattern") or config.get("alpha_pattern")  # modules with scales of their own
    if config.get("peft_type") != "LORA" or unknown or apart or not matrices:
        raise ConfigurationError(f"{folder} is more than a plain LoRA adapter: export it merged, without --adapter")
    alpha = float(config["lora_alpha"])
    return alpha * math.sqrt(config["r"]) if config.get("use_rslora") else alpha, matrices


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


class _Template:
    """A GGUF file of a base model, and how its names and the order of its numbers follow from those of transformers.

    sizes: the shape of each tensor, rows first. Raises ConfigurationError for a family that cannot be written here.
    """

    def __init__(self, file: Path) -> None:
        try:
            from gguf import MODEL_ARCH_NAMES, GGUFReader, get_tensor_name_map
        except ImportError:
            raise MissingExtra("a GGUF file", "train") from None
        self.file = file
        self.reader: Any = GGUFReader(str(file))
        self.sizes = {each.name: tuple(int(size) for size in reversed(each.shape)) for each in self.reader.tensors}
        self.architecture = str(self.reader.fields["general.architecture"].contents())
        if self.architecture not in _INTERLEAVED | _SAME:
            raise ConfigurationError(
                f"reground cannot write GGUF files of {self.architecture}: export a folder and use llama.cpp's "
                "converter"
            )
        architectures = {name: arch for arch, name in MODEL_ARCH_NAMES.items()}
        self._names = get_tensor_name_map(architectures[self.architecture], self._number("block_count"))
        heads = self._number("attention.head_count")
        self._heads = {".attn_q.": heads, ".attn_k.": self._number("attention.head_count_kv", heads)}

    def _number(self, key: str, default: int = 0) -> int:
        field = self.reader.fields.get(f"{self.architecture}.{key}")
        return default if field is None else int(field.contents())

    def name_of(self, key: str) -> str:
        """The name in GGUF of some weights. Raises ConfigurationError where they have none."""
        name = self._names.get_name(key, try_suffixes=(".weight", ".bias"))
        if name is None:
            raise ConfigurationError(f"{self.file} is not of the same model: it has no place for the weights {key}")
        return str(name)

    def ordered(self, name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The rows of a matrix in the order that llama.cpp expects.

        In rotary queries and keys transformers pairs row i with i + d/2 of a head, llama.cpp with the next one.
        """
        heads = next((heads for part, heads in self._heads.items() if part in name), None)
        if heads is None or self.architecture not in _INTERLEAVED:
            return values
        return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
