"""`reground train reader` from the outside: demonstrations from a small corpus, and a fit of a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from reground.training.fitting import read_metrics
from tests.training.tiny import tiny_gguf

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


def test_one_command_makes_rows_and_an_adapter(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    (tmp_path / "reader.toml").write_text("unanswerable = 0\nlong = 0\n")
    given = ["--tasks", "hotpotqa_train", "--data", str(data), "--out", str(out), "--methods", "grounded"]
    given += ["--config", str(tmp_path / "reader.toml"), "--rerank", "links"]
    make = ["train", "reader", "data", *given]
    assert run([*make, "--dry-run"]) == 0
    assert "would search for 3 questions of hotpotqa_train" in capfd.readouterr().out
    assert not out.exists()
    assert run(make) == 0
    rows = out / "data" / "reader.jsonl"
    before = rows.read_bytes()
    assert len(json.loads((out / "questions.json").read_text())["ids"]) == 3
    assert run(["train", "agent", "mix", "--add", f"{rows}, {rows}", "--out", str(tmp_path / "agent")]) == 0
    assert (tmp_path / "agent" / "data" / "mixture.jsonl").read_bytes() == before * 2
    rows.unlink()

    pytest.importorskip("transformers", reason="needs the extra [train]")
    pytest.importorskip("accelerate", reason="needs the extra [train]")
    base = tiny_gguf(tmp_path / "tiny.gguf")
    fit = ["train", "reader", "fit", *given, "--base", str(base), "--like", str(base), "--max-length", "700"]
    fit += ["--threads", "1", "--epochs", "2", "--learning-rate", "1e-2", "--batch", "2"]
    capfd.readouterr()
    assert run([*fit, "--dry-run"]) == 0
    assert "would search for 3 questions" in capfd.readouterr().out
    assert not rows.exists()
    assert run([*fit, "--quiet"]) == 0
    assert rows.read_bytes() == before, "the fit makes what is missing"
    said, noted = capfd.readouterr()
    assert f"--model hf/{out}/model" in " ".join(said.split())
    assert "rows are longer than max_length=700 and are left out" in noted
    steps = read_metrics(out / "fit" / "model" / "metrics.jsonl")
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert (out / "model.gguf").read_bytes()[:4] == b"GGUF"
    card = (out / "model" / "README.md").read_text()
    assert all(part in card for part in (str(base), "hotpotqa_train: ", "seed 0", "lora_rank 16", "smoothed loss"))


def test_a_share_of_a_split_and_own_questions_with_their_passages(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make = ["train", "reader", "data", "--data", str(data), "--out", str(tmp_path / "out"), "--dry-run"]
    assert run([*make, "--tasks", "hotpotqa_train:0.5"]) == 0
    assert "would search for 2 questions" in capfd.readouterr().out
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    filler = "The market of the town has many stalls, and people come from far away to see them. " * 40
    for page in PAGES:
        (shelf / f"{page['id']}.txt").write_text(f"{filler}\n\n{page['text']}\n\n{filler}")
    own = tmp_path / "own.csv"
    own.write_text("question,answer,passages\nOn which river is her city?,Vistula,curie.txt|warsaw.txt\n")
    (tmp_path / "reader.toml").write_text("unanswerable = 0\ncomplete = 1\n")
    make = ["train", "reader", "data", "--questions", str(own), "--corpus", str(shelf), "--repeats", "9"]
    make += ["--config", str(tmp_path / "reader.toml"), "--out", str(tmp_path / "own")]
    assert run(make) == 0
    rows = [json.loads(line) for line in (tmp_path / "own" / "data" / "reader.jsonl").read_text().splitlines()]
    asked = [row["messages"][0]["content"] for row in rows if "Vistula" in row["messages"][1]["content"]]
    assert len(asked) > 5, "the documents are long, and the sentences that count are in their cuttings"
    assert all("It lies on the Vistula." in text for text in asked)


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
