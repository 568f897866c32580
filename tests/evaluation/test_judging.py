"""Judges of finished runs, from the outside and by their numbers."""

from __future__ import annotations

import json
import random
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from scipy.stats import pearsonr

from reground.app.cli import run
from reground.core.errors import ContextLengthExceeded, ModelError, TransientModelError
from reground.core.journal import MemoryJournal
from reground.evaluation.judging import Answer, Rater, agreement_table, correlation_p, mean_table, rate
from reground.evaluation.tasks.longform import Judge
from reground.models.scripted import ScriptedModel
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

NUMBERS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=5)


@settings(deadline=None, max_examples=40)
@drawn(NUMBERS)
def test_a_p_of_few_items_is_exact(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    mine = correlation_p(x, y)
    if mine is None:
        assert len(set(x)) == 1 or len(set(y)) == 1
    else:
        r = abs(np.corrcoef(x, y)[0, 1])
        others = [abs(np.corrcoef(x, order)[0, 1]) for order in permutations(y)]
        assert mine == pytest.approx(np.mean([other > r - 1e-9 for other in others]))


def test_a_p_of_many_items_agrees_with_the_t_test() -> None:
    draw = random.Random(3)
    x = [draw.gauss(0, 1) for _ in range(60)]
    y = [0.3 * a + draw.gauss(0, 1) for a in x]
    mine = correlation_p(x, y, resamples=20_000)
    assert mine == pytest.approx(pearsonr(x, y).pvalue, abs=0.02)
    assert correlation_p(x, x) == 1 / 2000


def answer(run: str, example: str, repeat: int = 0, *, before: bool = False) -> Answer:
    return Answer(run, example, repeat, f"Q {example}", ("gold",), "text", before)


def test_means_are_over_repeats_and_agreement_over_questions() -> None:
    one = Rater(
        "one", {answer("a", q, r): float(v) for q, r, v in [("p", 0, 1), ("q", 0, 0), ("p", 1, 1), ("q", 1, 1)]}
    )
    one.ratings[answer("a", "p", before=True)] = 0.0
    two = Rater("two", {answer("a", "p"): 1.0, answer("a", "q"): 0.5})
    rows = mean_table([one, two], ["a"]).rows
    assert rows == [["a", "0.750 ± 0.354", "0.750"], ["a, before the checks", "0.000", "–"]]
    (row,) = agreement_table([one, two]).rows
    assert row[:5] == ["one", "two", "questions", "2", "1.000"]


async def test_one_answer_to_questions_of_the_same_words_is_rated_by_the_reference_of_each() -> None:
    """AmbigNQ's narrower questions hold 33 that stand twice, with other answers."""
    asked = "When did the song come out?"
    golds = {"p": ("2015",), "q": ("4 December 2015",), "r": ("2015",)}
    answers = [Answer("a", name, 0, asked, gold, "In 2015.") for name, gold in golds.items()]

    def say(messages, sampling) -> str:
        shown = messages[-1].content.rpartition("question =")[2]
        return f"implied = {'2015' in shown.partition('reference = ')[2][:6]}"

    model = ScriptedModel(say)
    journal = MemoryJournal()
    for _ in range(2):  # the second time from the journal
        found = await rate(answers, Judge(model=model), journal)
        assert {answer.example: value for answer, value in found.ratings.items()} == {"p": 1.0, "q": 0.0, "r": 1.0}
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    ("error", "only", "goes_on"),
    [
        (ContextLengthExceeded, "Q p", True),
        (ContextLengthExceeded, "Q ", False),
        (ModelError, "Q p", True),
        (TransientModelError, "Q p", False),
    ],
)
async def test_an_answer_that_the_judge_refuses_is_unread_and_the_others_are_rated(
    error: type[ModelError], only: str, goes_on: bool
) -> None:
    def say(messages, sampling) -> str:
        if only in messages[-1].content:
            raise error("no")
        return "implied = True"

    answers = [answer("a", name) for name in "pqr"]
    rating = rate(answers, Judge(model=ScriptedModel(say)), MemoryJournal())
    if not goes_on:
        with pytest.raises(error):
            await rating
        return
    found = await rating
    assert (found.unread, {each.example for each in found.ratings}) == (1, {"q", "r"})


def test_agreement_is_over_what_both_have_rated() -> None:
    one, other = {"a": 0.0, "b": 0.5, "c": 1.0, "d": 0.2}, {"a": 1.0, "b": 2.0, "c": 5.0, "e": 3.0}
    raters = [Rater("x", {answer("r", q): value for q, value in each.items()}) for each in (one, other, {})]
    assert [row[3:] for row in agreement_table(raters).rows] == [["3", "0.961", "0.333", "1.000", "0.333"]]


def test_runs_are_compared_from_three_on() -> None:
    runs = {"a": 0.1, "b": 0.5, "c": 0.4}
    raters = [Rater(name, {answer(each, "p"): value for each, value in runs.items()}) for name in ("one", "two")]
    assert [row[2:4] for row in agreement_table(raters).rows] == [["questions", "3"], ["runs", "3"]]


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run of six questions by a model that knows three, and judges: a strict one and one that says yes to all."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    data = tmp_path / "data" / "nq_open"
    data.mkdir(parents=True)
    lines = [{"id": f"b{n}", "question": f"Who wrote book {n}?", "golden_answers": [f"Writer {n}"]} for n in range(6)]
    (data / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def say(body):
        asked = body["messages"][-1]["content"]
        if "implied" not in asked:
            number = int(asked.partition("book ")[2][0])
            return f"Answer: Writer {number if number < 3 else 9}"
        if body["model"] == "kind":
            return "# yes\nimplied = True"
        if body["model"] == "mute":
            return "no idea"
        # the values of the last three assignments: question, answer, reference
        said, gold = (
            line.partition(" = ")[2].strip("'") for line in asked.rpartition("question = ")[2].splitlines()[1:3]
        )
        return f"# they are compared\nimplied = {gold in said}"

    with serving(MockOpenAI(say, models=("mock", "strict", "kind", "mute"))) as server:
        options = ["--data", str(tmp_path / "data"), "--base-url", server.url]
        folder = tmp_path / "runs" / "direct"
        made = ["eval", "--task", "nq_open_test", "--method", "direct", "--model", "openai/mock", "--out", str(folder)]
        assert run([*made, *options, "-q"]) == 0
        yield server, folder, options


def test_judges_rate_finished_runs_and_are_compared(finished, tmp_path: Path, capfd) -> None:
    server, folder, options = finished
    labels = tmp_path / "labels.jsonl"
    said = [{"id": f"direct/b{n}~0", "rating": n < 3} for n in range(5)]
    labels.write_text("".join(json.dumps(line) + "\n" for line in said))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    judge = ["judge", str(folder), "--judges", "openai/strict,openai/kind,openai/mute", "--people", str(labels)]
    judge += [*options, "--out", str(tmp_path / "judged")]
    paid = len(server.received)
    assert run([*judge, "--dry-run"]) == 0
    assert "6 answers; each of 3 judges rates 6 that differ" in capfd.readouterr().out
    assert len(server.received) == paid
    assert run(judge) == 0, capfd.readouterr().err
    page = (tmp_path / "judged" / "judges.md").read_text()
    assert "| run | openai/strict | openai/kind | openai/mute | exact match | people |" in page
    assert "| direct | 0.500 | 1.000 | – | 0.500 | 0.600 |" in page
    assert "| openai/strict | people | questions | 5 | 1.000 | 0.100 | 1.000 | 0.100 |" in page
    assert "| openai/strict | openai/kind | questions | 6 | – | – | – | – |" in page
    assert "openai/mute: 6 ratings could not be read" in page
    paid = len(server.received)
    assert run(judge) == 0
    assert len(server.received) == paid, "what was rated is not paid again"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before, "the run stays as it is"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("labels", "no label names an answer of these runs; the first answer is"),
        ("data", "the questions of nq_open_test are no longer those of this run"),
    ],
)
def test_what_does_not_belong_to_the_run_is_refused(change: str, why: str, finished, tmp_path: Path, capfd) -> None:
    server, folder, options = finished
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"id": "b0", "rating": 1}\n')
    if change == "data":
        file = tmp_path / "data" / "nq_open" / "test.jsonl"
        file.write_text(file.read_text().replace("Writer 5", "Writer 6"))
    paid = len(server.received)
    assert run(["judge", str(folder), "--judges", "openai/kind", "--people", str(labels), *options]) == 2
    assert why in " ".join(capfd.readouterr().err.split())
    assert len(server.received) == paid, "nothing is paid for before"


def test_runs_of_a_task_in_a_file_of_ones_own_are_judged_where_it_is_named(finished, tmp_path: Path, capfd) -> None:
    _, _, options = finished
    own = tmp_path / "own.py"
    own.write_text(
        "from reground.evaluation.tasks.qa import SINGLE_HOP, Dataset\n"
        'BOOKS = Dataset("nq_open/test.jsonl", "token F1", SINGLE_HOP)\n'
        'TASKS = {"books": lambda root: BOOKS.load(root, "books")}\n'
    )
    folder = tmp_path / "runs" / "own"
    made = ["eval", "--task", f"{own}:books", "--method", "direct", "--model", "openai/mock", "--out", str(folder)]
    assert run([*made, *options, "-q"]) == 0
    judge = ["judge", str(folder), "--judges", "openai/strict", *options, "--out", str(tmp_path / "judged")]
    assert run(judge) == 2
    assert "--tasks FILE.py:books" in " ".join(capfd.readouterr().err.split())
    assert run([*judge, "--tasks", f"{own}:books"]) == 0, capfd.readouterr().err
    assert "| own | 0.500 |" in (tmp_path / "judged" / "judges.md").read_text()
