"""`reground train reader` from the outside: demonstrations from a small corpus, and a fit of a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from reground.training.fitting import read_metrics
from tests.training.tiny import tiny_llama

PAGES = [
    {"id": "curie", "title": "Marie Curie", "text": "She won two prizes. Marie Curie was born in Warsaw."},
    {"id": "warsaw", "title": "Warsaw", "text": "Warsaw is a capital. It lies on the Vistula."},
    {"id": "vienna", "title": "Vienna", "text": "Vienna is a capital. It lies on the Danube."},
]
QUESTIONS = [
    {
        "id": f"q{number}",
        "question": f"{ask} river lies the city where Marie Curie was born?",
        "golden_answers": ["the Vistula"],
        "metadata": {"split": "train", "type": "bridge", "gold_ids": ["curie", "warsaw"]},
    }
    for number, ask in enumerate(("On which", "At what", "By which"))
]


def with_gold_passages(tmp_path: Path) -> Path:
    """A folder of data with a small HotpotQA."""
    folder = tmp_path / "data" / "hotpotqa"
    folder.mkdir(parents=True)
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS))
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in PAGES))
    return tmp_path / "data"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return with_gold_passages(tmp_path)


def test_data_and_fit(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    make = ["train", "reader", "data", "--tasks", "hotpotqa_train", "--data", str(data), "--out", str(out)]
    assert run([*make, "--dry-run"]) == 0
    assert "would search for 3 questions of hotpotqa_train" in capfd.readouterr().out
    assert not out.exists()
    (tmp_path / "reader.toml").write_text("unanswerable = 0\n")
    make += ["--config", str(tmp_path / "reader.toml"), "--rerank", "links"]
    assert run(make) == 0
    assert "hotpotqa_train: 3 demonstrations (3 answer)" in " ".join(capfd.readouterr().out.split())
    rows = (out / "data" / "reader.jsonl").read_bytes()
    said = json.loads(rows.splitlines()[0])["messages"]
    assert [message["role"] for message in said] == ["user", "assistant"]
    assert said[-1]["content"].startswith("the Vistula [")
    assert len(json.loads((out / "questions.json").read_text())["ids"]) == 3
    assert run(make) == 0
    assert (out / "data" / "reader.jsonl").read_bytes() == rows

    pytest.importorskip("transformers", reason="needs the extra [train]")
    pytest.importorskip("accelerate", reason="needs the extra [train]")
    fit = ["train", "reader", "fit", "--out", str(out), "--base", str(tiny_llama(tmp_path / "base"))]
    fit += ["--max-length", "128", "--threads", "1", "--epochs", "4", "--learning-rate", "1e-2", "--batch", "2"]
    capfd.readouterr()
    assert run([*fit, "--dry-run"]) == 0
    said = capfd.readouterr().out
    assert "3 demonstrations, 4 passes" in said
    told = "note: 3 of 3 rows are longer than max_length=128 and lose the beginning of their prompt\n"
    assert run([*fit, "--quiet"]) == 0
    said, noted = capfd.readouterr()
    assert f"--method grounded+reader --model hf/{out}/model" in " ".join(said.split())
    assert told in noted
    steps = read_metrics(out / "fit" / "model" / "metrics.jsonl")
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert (out / "model" / "adapter_config.json").is_file()


def test_questions_that_teach_nothing_are_an_error(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = next(data.rglob("questions.jsonl"))
    file.write_text(file.read_text().replace("the Vistula", "the Rhine"))
    making = ["train", "reader", "data", "--tasks", "hotpotqa_train", "--data", str(data), "--out", str(tmp_path / "o")]
    assert run(making) == 2
    out, err = capfd.readouterr()
    assert "3 questions whose gold passages do not hold the answer" in " ".join(out.split())
    assert "nothing to teach was found" in err
