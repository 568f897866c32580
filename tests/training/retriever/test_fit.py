"""A fit learns which passage answers, survives a kill and leaves a folder that an index can use."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sentence_transformers", reason="needs the extra [train]")
pytest.importorskip("datasets", reason="needs the extra [train]")

from reground.core.errors import ConfigurationError
from reground.retrieval.embedders import create_embedder
from reground.training.fitting import Step
from reground.training.metrics import METRICS
from reground.training.retriever.data import Contrast, Question
from reground.training.retriever.evaluate import METRICS as MEASURES
from reground.training.retriever.evaluate import fused, measured, record, table
from reground.training.retriever.fit import base_folder, fit_retriever
from reground.training.retriever.settings import RetrieverFitting
from reground.training.retriever.validate import Validation, validate
from tests.training.retriever.tiny import ANIMALS, COLOURS, tiny_embedder

PAIRS = [(animal, colour) for animal in ANIMALS for colour in COLOURS]
CODE = """
import sys
from pathlib import Path
from tests.training.retriever.test_fit import rows, settings
from reground.training.retriever.fit import fit_retriever

def stop(step):
    print(step.number, flush=True)

fit_retriever(rows(), settings(sys.argv[1]), Path(sys.argv[2]) / "fit", Path(sys.argv[2]) / "out", on_step=stop)
"""


def passage(animal: str, colour: str) -> str:
    return f"in a {colour} house lives the {animal} ."


def rows() -> list[Contrast]:
    """The animal of the question decides; its colour is there to mislead."""
    made = []
    for number, (animal, colour) in enumerate(PAIRS):
        other = ANIMALS[(ANIMALS.index(animal) + 1 + number % 7) % 8]
        made.append(
            Contrast(
                question=str(number),
                anchor=f"where does the {animal} of the {colour} house live ?",
                positive=passage(animal, COLOURS[(COLOURS.index(colour) + 3) % 8]),
                negatives=(passage(other, colour),),
            )
        )
    return made


def settings(base: str | Path, **others: object) -> RetrieverFitting:
    given = {"epochs": 6, "batch": 8, "learning_rate": 5e-3, "hard": 1, "checkpoint_every": 10, "threads": 1}
    return RetrieverFitting(base=str(base), **{**given, **others})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_embedder(tmp_path_factory.mktemp("base") / "tiny")


def right(folder: Path) -> float:
    """The share of rows whose passage is nearer than the misleading one."""
    embedder = create_embedder(f"st/{folder}")

    async def similarities() -> float:
        made = rows()
        asked = await embedder.embed([row.anchor for row in made], query=True)
        good = await embedder.embed([row.positive for row in made])
        bad = await embedder.embed([row.negatives[0] for row in made])
        return float(((asked * good).sum(1) > (asked * bad).sum(1)).mean())

    return asyncio.run(similarities())


def test_a_fit_lowers_the_loss_and_ranks_planted_passages(base: Path, tmp_path: Path) -> None:
    told: list[Step] = []
    fit_retriever(rows(), settings(base), tmp_path / "fit", tmp_path / "out", on_step=told.append)
    first, last = ([step.loss for step in some] for some in (told[:8], told[-8:]))
    assert sum(last) < 0.5 * sum(first)
    assert right(base) < 0.7  # little more than chance
    assert right(tmp_path / "out") > 0.9
    assert len((tmp_path / "fit" / METRICS).read_text().splitlines()) == len(told)
    assert create_embedder(f"st/{tmp_path / 'out'}").limit == create_embedder(f"st/{base}").limit


def test_gradients_computed_in_parts_lead_to_the_same_place(base: Path, tmp_path: Path) -> None:
    losses = []
    for name, parts in (("whole", 0), ("parts", 4)):
        told: list[Step] = []
        made = settings(base, epochs=1, mini_batch=parts)
        fit_retriever(rows(), made, tmp_path / name / "fit", tmp_path / name / "out", on_step=told.append)
        losses.append(told[0].loss)
    assert losses[0] == pytest.approx(losses[1], rel=0.3)  # apart only by dropout


def test_a_killed_fit_goes_on_and_ends_with_the_same_weights(base: Path, tmp_path: Path) -> None:
    fit_retriever(rows(), settings(base, epochs=3), tmp_path / "whole" / "fit", tmp_path / "whole" / "out")
    command = [sys.executable, "-c", CODE.replace("settings(sys.argv[1])", "settings(sys.argv[1], epochs=3)")]
    with subprocess.Popen([*command, str(base), str(tmp_path)], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        for line in killed.stdout:
            if line.strip() == "14":
                killed.send_signal(signal.SIGKILL)
                break
    assert not (tmp_path / "out").exists()
    told: list[Step] = []
    fit_retriever(rows(), settings(base, epochs=3), tmp_path / "fit", tmp_path / "out", on_step=told.append)
    assert told[0].number == 11
    assert [json.loads(line)["step"] for line in (tmp_path / "fit" / METRICS).read_text().splitlines()] == list(
        range(1, 25)
    )
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "out" / "model.safetensors"
    ).read_bytes()


def test_a_base_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no folder"):
        base_folder(str(tmp_path / "absent"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match=r"cannot load the embedder .*empty"):
        fit_retriever(rows(), settings(tmp_path / "empty"), tmp_path / "fit", tmp_path / "out")
    damaged = tiny_embedder(tmp_path / "damaged") / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with pytest.raises(ConfigurationError, match=rf"cannot load the embedder .*: {damaged} is damaged"):
        fit_retriever(rows(), settings(damaged.parent), tmp_path / "fit", tmp_path / "out")
    with pytest.raises(ConfigurationError, match=rf"cannot load the embedder .*: {damaged} is damaged"):
        asyncio.run(create_embedder(f"st/{damaged.parent}").embed(["a"]))


def test_what_is_found_is_measured_by_hand() -> None:
    questions = [
        Question(id="a", text="?", gold=("1", "2")),
        Question(id="b", text="?", gold=("1", "2", "3", "4")),
        Question(id="c", text="?", gold=("9",)),
    ]
    first = {"a": ["1", "5", "2"], "b": ["4", "3", "2", "1"], "c": ["5", "6", "7", "8", "9"]}
    second = {"a": ["2", "1"], "b": ["1"], "c": ["9", "5"]}
    words, vectors = measured("BM25", questions, first), measured("trained", questions, second)
    assert words.scores["recall@3"] == {"a": 1.0, "b": 0.75, "c": 0.0}
    assert words.scores["all@3"] == {"a": 1.0, "c": 0.0}  # four cannot be in three
    assert words.scores["MRR"] == {"a": 1.0, "b": 1.0, "c": 0.2}
    both = fused(first, second)
    assert both["c"][:2] == ["5", "9"]  # ranks 1 and 2 against 5 and 1
    assert vectors.against(words, "recall@3").difference.mean == pytest.approx((0 - 0.5 + 1) / 3)
    said = record([words, vectors])
    assert said["BM25"].keys() == set(MEASURES)  # type: ignore[union-attr]
    assert "difference" in said["trained"]["MRR"]  # type: ignore[index, operator, call-overload]
    assert "| BM25 | " in table([words, vectors])
    assert table([words, vectors]).splitlines()[3].endswith(" |")


def test_a_fit_is_measured_on_rows_that_it_did_not_see(base: Path, tmp_path: Path) -> None:
    unseen = [
        Contrast(
            question=animal,
            anchor=f"where does the {animal} live ?",
            positive=passage(animal, colour),
            negatives=(passage(other, colour),),
        )
        for animal, other in zip(ANIMALS, [*ANIMALS[1:], ANIMALS[0]], strict=True)
        for colour in COLOURS[:3]
    ]
    before, after = fit_retriever(rows(), settings(base), tmp_path / "fit", tmp_path / "out", held_out=unseen)
    assert before is not None and after is not None
    assert (after.questions, after.passages) == (8, 24)
    assert after.recall_at_3 > max(0.9, before.recall_at_3)
    assert after.mrr > before.mrr
    assert fit_retriever(rows(), settings(base, epochs=1), tmp_path / "other", tmp_path / "two") == (None, None)


class Fixed:
    """Texts are vectors of two numbers."""

    def encode(self, texts: list[str], **options: object) -> object:
        import numpy as np

        return np.array([[float(number) for number in text.split()] for text in texts])


def test_the_measure_by_hand() -> None:
    def row(anchor: str, positive: str, negative: str) -> Contrast:
        return Contrast(question=anchor, anchor=anchor, positive=positive, negatives=(negative,))

    found = validate(Fixed(), [row("1 0", "0.9 0", "1 0"), row("1 0", "0.1 0", "0.2 0"), row("0 1", "0 1", "0 0.5")])
    assert found == Validation(questions=2, passages=6, recall_at_3=0.75, mrr=0.75)
    assert validate(Fixed(), []) is None
