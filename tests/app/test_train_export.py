"""`reground train export` from the outside."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("peft", reason="needs the extra [train]")

from reground.app.cli import run
from reground.models import hf
from tests.training.test_weights import tuned
from tests.training.tiny import tiny_gguf, tiny_llama


def test_a_model_becomes_a_folder_of_whole_weights(tmp_path: Path, capfd) -> None:
    base = tiny_llama(tmp_path / "base")
    assert run(["train", "export", str(base), "--out", str(tmp_path / "out")]) == 0
    assert capfd.readouterr().out.strip() == str(tmp_path / "out")
    weights, _ = hf.load_weights(str(tmp_path / "out"))
    wanted, _ = hf.load_weights(str(base))
    assert weights.state_dict()["lm_head.weight"].equal(wanted.state_dict()["lm_head.weight"])


@pytest.mark.parametrize("file", ["model.safetensors", "adapter_model.safetensors"])
def test_damaged_weights_are_named_in_one_line(file: str, tmp_path: Path, capfd) -> None:
    source = tiny_llama(tmp_path / "base")
    if file.startswith("adapter"):
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(hf.load_weights(str(source))[0], LoraConfig(target_modules=["q_proj"]))
        model.save_pretrained(source := tmp_path / "adapter")
    whole = (source / file).read_bytes()
    (source / file).write_bytes(whole[: len(whole) // 2])
    capfd.readouterr()
    assert run(["train", "export", str(source), "--out", str(tmp_path / "out")]) == 2
    err = capfd.readouterr().err
    assert err.startswith("error: transformers could not load ")
    assert f"{source / file} is damaged" in err
    assert err.count("\n") == 1


def test_an_adapter_alone_is_a_gguf_file(tmp_path: Path, capfd) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf")
    folder = tuned(file, tmp_path / "adapter")
    out = tmp_path / "adapter.gguf"
    assert run(["train", "export", str(folder), "--adapter", "--out", str(out), "--like", str(file)]) == 0
    assert capfd.readouterr().out.strip() == str(out)
    assert out.stat().st_size < file.stat().st_size
    again = ["train", "export", str(folder), "--adapter", "--out", str(tmp_path / "folder")]
    assert run(again) == 2
    assert "--adapter writes a GGUF file" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("source", "out", "why"),
    [
        ("./absent", "out", "there is no folder ./absent"),
        ("absent", "there", "there exists already: name another --out"),
        ("absent", "out.gguf", "a GGUF file needs --like"),
    ],
)
def test_what_cannot_be_exported(
    source: str, out: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    assert run(["train", "export", source, "--out", out]) in (1, 2)
    err = capfd.readouterr().err
    assert why in err
    assert "Traceback" not in err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["there"]
