from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import DataError
from reground.evaluation.metrics.ranking import ranked, read_qrels, read_run, write_run

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda name: name.split() == [name])


@given(
    run=st.dictionaries(NAMES, st.dictionaries(NAMES, st.floats(-1e30, 1e30), min_size=1, max_size=6), max_size=4),
)
def test_runs_come_back_as_they_went(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]]
) -> None:
    folder = tmp_path_factory.mktemp("trec")
    write_run(folder / "run.txt", run)
    assert read_run(folder / "run.txt") == run
    for query, scores in read_run(folder / "run.txt").items():
        assert list(scores) == ranked(run[query])


def test_a_run_is_written_in_six_columns_with_ranks(tmp_path: Path) -> None:
    path = tmp_path / "out" / "run.txt"
    write_run(path, {"q": {"a": 1, "c": 2.5, "b": 1}}, tag="mine")
    assert path.read_text() == "q Q0 c 1 2.5 mine\nq Q0 b 2 1.0 mine\nq Q0 a 3 1.0 mine\n"


def test_beir_qrels_have_three_columns_and_a_header(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n1\t31715818\t1\n1\t99\t0\n3\t14717500\t2\n")
    assert read_qrels(path) == {"1": {"31715818": 1, "99": 0}, "3": {"14717500": 2}}
    path.write_text("1\t31715818\t1\n")
    assert read_qrels(path) == {"1": {"31715818": 1}}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("q Q0 a 1 2.5 t\nq Q0 b 2\n", 2, "expected 6 columns, found 4"),
        ("q Q0 a 1 best t\n", 1, "'best' is not a number"),
        ("q Q0 a 1 nan t\n", 1, "'nan' is not a number"),
        ("\nq Q0 a 1 2 t\nq Q0 a 2 1 t\n", 3, "document a is listed twice for query q"),
    ],
)
def test_a_bad_run_line_is_named(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = tmp_path / "run.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=says) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_a_bad_qrels_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("q 0 a 1\nq 0 b high\n")
    with pytest.raises(DataError, match=r":2: the relevance 'high' is not a whole number"):
        read_qrels(path)
    path.write_bytes(b"q 0 a 1\nq 0 \xff 1\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_qrels(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_qrels(tmp_path / "none.txt")


@pytest.mark.parametrize("run", [{"q": {"two words": 1.0}}, {"": {"a": 1.0}}, {"q": {"a": float("nan")}}])
def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, run: dict[str, dict[str, float]]) -> None:
    path = tmp_path / "run.txt"
    write_run(path, {"q": {"a": 1.0}})
    before = path.read_text()
    with pytest.raises(DataError):
        write_run(path, run)
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["run.txt"]
