"""The limits by which words decide whether passages hold an answer, fitted and measured on runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.answerability import Asked, fitted, read, table
from reground.app.cli import run
from reground.core.answers import ABSTENTION
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

QUESTIONS = [
    ("q1", "Which river flows through Vienna?", "Danube", "d1"),
    ("q2", "Which water flows at Cologne?", "Rhine", "d2"),
]
CORPUS = [
    ("d1", "Danube", "The river Danube flows through Vienna."),
    ("d2", "Rhine", "Cologne lies at the Rhine, a water."),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "hotpotqa"
    folder.mkdir(parents=True)
    questions = (
        {"id": i, "question": q, "golden_answers": [a], "metadata": {"split": "dev", "gold_ids": [gold]}}
        for i, q, a, gold in QUESTIONS
    )
    corpus = ({"id": i, "title": title, "text": text} for i, title, text in CORPUS)
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in questions))
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in corpus))
    return folder.parent


def test_what_words_lack_and_what_the_model_said_are_read_from_runs(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with serving(MockOpenAI(lambda body: "Danube" if "Vienna." in str(body["messages"]) else ABSTENTION)) as server:
        for task in ("hotpotqa", "hotpotqa_unanswerable"):
            words = f"eval --task {task} --method grounded --model openai/mock --set max_rounds=0 --set abstain=true"
            words += " --set k=1 --quiet"
            places = ["--data", str(data), "--base-url", server.url, "--out", str(tmp_path / task)]
            assert run([*words.split(), *places]) == 0
    shown, hidden = (sorted(read(tmp_path / task), key=lambda each: each.lacking or 0) for task in
                     ("hotpotqa", "hotpotqa_unanswerable"))  # fmt: skip
    assert shown == [Asked(True, 0.0, False), Asked(True, pytest.approx(1 / 5), True)]
    assert hidden == [Asked(False, pytest.approx(4 / 5), False), Asked(False, pytest.approx(1), True)]
    assert "| words below 0.45 and above 0.55, else the model | 2 of 2 |" in table([*shown, *hidden], 0.45, 0.55)


def test_the_limits_part_the_unanswerable_from_the_others() -> None:
    good = [Asked(True, share / 10, silent=True) for share in range(5)]
    bad = [Asked(False, share / 10, silent=False) for share in range(6, 10)]
    unsure = [Asked(False, 0.5, silent=True), Asked(True, 0.5, silent=False)]
    limits = fitted([*good, *unsure, *bad], wrong=0.1)
    assert limits == (0.45, 0.55)
    assert not any(each.ends(*limits) for each in [*good, unsure[1]])
    assert all(each.ends(*limits) for each in [unsure[0], *bad])


asked = st.builds(Asked, st.booleans(), st.none() | st.floats(0, 1), st.booleans())


@given(st.lists(asked, max_size=20), st.floats(0, 1), st.integers(0, 19), st.integers(1, 20))
def test_no_other_allowed_limits_end_more(rows: list[Asked], wrong: float, fewest: int, width: int) -> None:
    def ended(limits: tuple[float, float]) -> tuple[bool, int]:
        kinds = [[each.ends(*limits) for each in rows if each.answerable == kind] for kind in (False, True)]
        return sum(kinds[1]) <= wrong * len(kinds[1]), sum(kinds[0])

    other = ended((fewest / 20, min(20, fewest + width) / 20))
    best = ended(fitted(rows, wrong))
    assert best >= other if other[0] else best[0] >= other[0]
