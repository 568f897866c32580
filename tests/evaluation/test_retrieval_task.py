from collections.abc import Callable
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError, DataError
from reground.evaluation.metrics.ranking import evaluate_run
from reground.evaluation.task import Task, hidden_documents
from reground.evaluation.tasks.retrieval import Retrieval, load_beir, load_beir_train, load_bright, load_scifact
from tests.data import need_data
from tests.evaluation.trajectories import answered, retrieval, write_jsonl


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    write_jsonl(folder / "queries.jsonl", [{"_id": "1", "text": "first"}, {"_id": "2", "text": "second"}])
    write_jsonl(folder / "corpus.jsonl", [{"_id": "a", "title": "", "text": "x"}])
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n1\tb\t2\n2\tc\t0\n")
    return folder


async def test_a_beir_folder_is_a_task(beir: Path) -> None:
    task = load_beir(beir)
    assert isinstance(task, Task)
    assert isinstance(task, Retrieval)
    assert (task.name, task.corpus, task.primary) == ("tiny", beir / "corpus.jsonl", "nDCG@10")
    assert [(example.id, example.question) for example in task.examples()] == [("1", "first")]
    assert (task.demonstrations(), task.solutions()) == ((), ())


async def test_the_last_retrieval_is_scored_by_documents(beir: Path) -> None:
    task = load_beir(beir)
    example = task.examples()[0]
    earlier, last = retrieval("b", "a"), retrieval("x", "a#2", "a#1", "b#7", k=100)
    found = await task.score(example, answered("whatever", earlier, last), None)
    expected = evaluate_run({"1": {"x": 3.0, "a": 2.0, "b": 1.0}}, {"1": {"a": 1, "b": 2}})
    assert {name: score.value for name, score in found.items()} == pytest.approx(expected.means)
    assert found["MRR"].value == 0.5


async def test_a_recall_deeper_than_the_ranking_is_unscored(beir: Path) -> None:
    task = load_beir(beir)
    found = await task.score(task.examples()[0], answered("", retrieval("a", k=10)), None)
    assert found["recall@10"].value == 0.5
    assert found["recall@100"].value is None
    assert found["recall@100"].why == "only 10 passages were asked for"
    nothing = await task.score(task.examples()[0], answered(""), None)
    assert {score.value for score in nothing.values()} == {None}


@pytest.mark.parametrize(("split", "load"), [("test", load_beir), ("train", load_beir_train)])
async def test_a_query_of_a_beir_folder_does_not_find_itself(
    tmp_path: Path, split: str, load: Callable[[Path], Task]
) -> None:
    """As in ArguAna and Quora, whose queries are documents of their own corpus."""
    folder = tmp_path / "arguana"
    write_jsonl(folder / "queries.jsonl", [{"_id": "claim", "text": "a claim"}])
    write_jsonl(folder / "corpus.jsonl", [{"_id": each, "title": "", "text": each} for each in ("claim", "counter")])
    (folder / "qrels").mkdir()
    (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\nclaim\tcounter\t1\n")
    task = load(folder)
    example = task.examples()[0]
    assert hidden_documents(task, example) == {"claim"}
    found = await task.score(example, answered("", retrieval("claim", "counter")), None)
    assert found["MRR"].value == 1.0


async def test_bright_takes_excluded_documents_out(tmp_path: Path) -> None:
    examples = [
        {"id": "0", "query": "why", "gold_ids": ["g1", "g2"], "excluded_ids": ["s"], "reasoning": "r"},
        {"id": "1", "query": "how", "gold_ids": ["g3"], "excluded_ids": ["N/A"]},
    ]
    write_jsonl(tmp_path / "mine" / "examples.jsonl", examples)
    write_jsonl(tmp_path / "mine" / "documents.jsonl", [{"id": "g1", "content": "x"}])
    task = load_bright(tmp_path / "mine")
    assert isinstance(task, Retrieval)
    assert (task.name, task.corpus) == ("mine", tmp_path / "mine" / "documents.jsonl")
    assert task.ranking("0", ["s", "g1"]) == ["g1"]
    assert task.ranking("1", ["s", "N/A"]) == ["s", "N/A"]
    found = await task.score(task.examples()[0], answered("", retrieval("s", "g1")), None)
    assert found["MRR"].value == 1.0


def test_bright_as_the_hub_has_it_is_parquet_in_parts(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for part in ("biology", "economics"):
        for kind, record in (
            ("examples", {"id": "0", "query": part, "gold_ids": ["g"], "excluded_ids": ["N/A"]}),
            ("documents", {"id": "g", "content": "x"}),
        ):
            path = tmp_path / kind / f"{part}-00000-of-00001.parquet"
            path.parent.mkdir(exist_ok=True)
            parquet.write_table(pyarrow.Table.from_pylist([record]), path)
    task = load_bright(tmp_path / "biology")
    assert isinstance(task, Retrieval)
    assert [example.question for example in task.examples()] == ["biology"]
    assert (task.name, task.qrels) == ("bright_biology", {"0": {"g": 1}})
    assert task.corpus == tmp_path / "documents" / "biology-00000-of-00001.parquet"
    with pytest.raises(ConfigurationError, match=r"take one as .*PART: biology, economics"):
        load_bright(tmp_path)
    with pytest.raises(DataError, match="BRIGHT's layout"):
        load_bright(tmp_path / "chemistry")


def test_a_parquet_file_without_a_column_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist([{"id": "0", "query": "q"}]), tmp_path / "examples.parquet")
    with pytest.raises(DataError, match="column 'gold_ids' is missing"):
        load_bright(tmp_path)


def test_broken_folders_are_told(beir: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a BEIR folder"):
        load_beir(tmp_path)
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n9\ta\t1\n")
    with pytest.raises(DataError, match="none of the queries"):
        load_beir(beir)
    bad = {"id": "0", "query": "q", "gold_ids": "g"}
    path = write_jsonl(tmp_path / "bright" / "examples.jsonl", [bad])
    with pytest.raises(DataError, match="must be lists") as caught:
        load_bright(tmp_path / "bright")
    assert str(caught.value).startswith(f"{path}:1: ")


def test_scifact_takes_the_test_split(tmp_path: Path) -> None:
    folder = tmp_path / "scifact"
    write_jsonl(folder / "queries.jsonl", [{"id": "1", "text": "q"}, {"id": "2", "text": "r"}])
    write_jsonl(folder / "corpus.jsonl", [{"id": "a", "title": "", "text": "x"}])
    judgements = [
        {"query_id": "1", "doc_id": "a", "score": 1, "split": "test"},
        {"query_id": "2", "doc_id": "a", "score": 1, "split": "train"},
    ]
    path = write_jsonl(folder / "qrels.jsonl", judgements)
    assert [example.id for example in load_scifact(tmp_path).examples()] == ["1"]
    write_jsonl(path, [{"query_id": "1", "doc_id": "a", "score": "high"}])
    with pytest.raises(DataError, match="not a whole number"):
        load_scifact(tmp_path)


async def test_the_real_scifact_has_300_queries_and_339_judgements() -> None:
    task = load_scifact(need_data("scifact").parent)
    assert isinstance(task, Retrieval)
    assert len(task.examples()) == 300
    assert sum(map(len, task.qrels.values())) == 339
    assert task.corpus is not None
    assert task.corpus.exists()
    perfect = {query: dict.fromkeys(grades, 1.0) for query, grades in task.qrels.items()}
    assert evaluate_run(perfect, task.qrels).means == {"nDCG@10": 1.0, "recall@10": 1.0, "recall@100": 1.0, "MRR": 1.0}
