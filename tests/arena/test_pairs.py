"""Which pairs some runs make."""

from __future__ import annotations

from pathlib import Path

import pytest

from reground.arena.pairs import MOST, contest, method_names
from reground.core.errors import DataError
from tests.arena.runs import three_runs, write_run


def test_every_two_methods_meet_on_every_question(tmp_path: Path) -> None:
    found = contest(three_runs(tmp_path))
    assert found.methods == ("zebrafish@1k", "quokka@1k", "narwhal@1k")
    assert (len(found.pairs), found.questions, found.missing, found.same) == (9, 3, 0, 0)
    for pair in found.pairs.values():
        assert pair.first < pair.second
        ((one, other),) = pair.matches
        words = {"zebrafish@1k": "short", "quokka@1k": "long", "narwhal@1k": "plain"}
        assert pair.first.startswith(words[one]) and pair.second.startswith(words[other])


def test_equal_and_missing_answers_make_no_pair(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", "a", {"q1": "same", "q2": "left", "q3": ""})
    other = write_run(tmp_path / "b", "b", {"q1": " same\n", "q2": "right", "q3": "said"})
    found = contest([one, other])
    assert (len(found.pairs), found.same, found.missing) == (1, 1, 1)


def test_two_methods_with_one_answer_are_judged_together(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, {"q": text}) for name, text in (("a", "x"), ("b", "x"), ("c", "y"))]
    (pair,) = contest(runs).pairs.values()
    assert set(pair.matches) == {("a@1k", "c@1k"), ("b@1k", "c@1k")}


def test_a_pair_is_known_by_its_texts_and_not_by_its_methods(tmp_path: Path) -> None:
    given = {"q": "x"}, {"q": "y"}
    there = contest([write_run(tmp_path / f"one-{n}", f"m{n}", each) for n, each in enumerate(given)])
    here = contest([write_run(tmp_path / f"two-{n}", f"other{n}", each) for n, each in enumerate(reversed(given))])
    assert there.pairs.keys() == here.pairs.keys()


def test_answers_are_shown_as_people_read_them(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, {"q": f"plan {name}"}) for name in "ab"]
    (pair,) = contest(runs, read=lambda run, text: f"{run.config.method}: {text}").pairs.values()
    assert (pair.first, pair.second) == ("a: plan a", "b: plan b")


def test_a_limit_draws_questions(tmp_path: Path) -> None:
    runs = three_runs(tmp_path)
    drawn = [{pair.question for pair in contest(runs, limit=1, seed=seed).pairs.values()} for seed in range(9)]
    assert all(len(each) == 1 for each in drawn)
    assert len(set.union(*drawn)) > 1


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / place, "rag", {"q": place}) for place in ("one", "two")]
    assert method_names(runs) == ["rag@1k (one)", "rag@1k (two)"]
    deep = [write_run(tmp_path / n / "same", "rag", {"q": n}) for n in "ab"]
    assert len(set(method_names(deep))) == 2
    models = [write_run(tmp_path / f"m{n}", "rag", {"q": n}, model=f"m/{n}") for n in "ab"]
    assert method_names(models) == ["rag@1k m/a", "rag@1k m/b"]


def test_questions_of_other_tasks_are_other_questions(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", "a", {"q": "x"})
    other = write_run(tmp_path / "b", "b", {"q": "y"}, task="poems")
    with pytest.raises(DataError, match="at least two methods to the same questions"):
        contest([one, other])


def test_methods_that_never_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the same answers to every question"):
        contest([write_run(tmp_path / name, name, {"q": "x"}) for name in "ab"])


def test_an_endless_answer_is_cut_and_says_so(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "a", "a", {"q": "x" * (MOST + 5)}), write_run(tmp_path / "b", "b", {"q": "y"})]
    (pair,) = contest(runs).pairs.values()
    assert pair.first.endswith("[the rest, 5 characters, is not shown]")
