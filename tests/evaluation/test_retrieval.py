from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError, DataError
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run, solve
from reground.core.trajectory import GenerateStep
from reground.core.untrusted import fence
from reground.evaluation.metrics.ranking import depth, ranking_metric, read_qrels
from reground.evaluation.task import Example, Task, hidden_documents
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.evaluation.tasks.retrieval import (
    Retrieval,
    load_beir,
    load_beir_train,
    load_bright,
    load_scifact,
    shown_texts,
)
from reground.methods.baselines import RAG
from reground.methods.search_agent import SearchAgent
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
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
    assert (*task.demonstrations(), *task.solutions()) == ()


async def test_the_last_retrieval_is_scored_by_documents(beir: Path) -> None:
    task = load_beir(beir)
    example = task.examples()[0]
    earlier, last = retrieval("b", "a"), retrieval("x", "a#2", "a#1", "b#7", k=100)
    found = await task.score(example, answered("whatever", earlier, last), None)
    expected = {name: ranking_metric(name)(["x", "a", "b"], {"a": 1, "b": 2}) for name in found}
    assert {name: score.value for name, score in found.items()} == pytest.approx(expected)
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


def test_broken_folders_are_told(beir: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="layout of BEIR"):
        load_beir(tmp_path)
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n9\ta\t1\n")
    with pytest.raises(DataError, match="none of the queries"):
        load_beir(beir)


def test_scifact_takes_the_test_split(tmp_path: Path) -> None:
    folder = tmp_path / "scifact"
    write_jsonl(folder / "queries.jsonl", [{"id": "1", "text": "q"}, {"id": "2", "text": "r"}])
    write_jsonl(folder / "corpus.jsonl", [{"id": "a", "title": "", "text": "x"}])
    judgements = [
        {"query_id": "1", "doc_id": "a", "score": 1, "split": "test"},
        {"query_id": "2", "doc_id": "a", "score": 1, "split": "train"},
    ]
    write_jsonl(folder / "qrels.jsonl", judgements)
    assert [example.id for example in load_scifact(tmp_path).examples()] == ["1"]


async def test_the_real_scifact_has_300_queries_and_339_judgements() -> None:
    task = load_scifact(need_data("scifact").parent)
    assert isinstance(task, Retrieval)
    assert len(task.examples()) == 300
    assert sum(map(len, task.qrels.values())) == 339
    assert task.corpus is not None
    assert task.corpus.exists()


DOCUMENTS = [*"abcdefghij", "d1", "d10", "d9", "é", "Z", "文"]
THEIRS = {"nDCG@10": "ndcg_cut_10", "nDCG@3": "ndcg_cut_3", "recall@5": "recall_5", "MRR": "recip_rank"}


@given(
    st.lists(st.sampled_from(DOCUMENTS), unique=True),
    st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), min_size=1),
)
def test_scores_are_trec_evals(ranking: list[str], grades: dict[str, int]) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    run = {document: float(len(ranking) - place) for place, document in enumerate(ranking)}
    evaluator = pytrec_eval.RelevanceEvaluator({"q": grades}, {"ndcg_cut.3,10", "recall.5", "recip_rank"})
    theirs = evaluator.evaluate({"q": run} if run else {}).get("q", {})
    for name, their_name in THEIRS.items():
        expected = theirs.get(their_name, 0.0)
        assert ranking_metric(name)(ranking, grades) == pytest.approx(expected, abs=1e-9), name


def test_metrics_by_name() -> None:
    assert ranking_metric("MRR@10")(["x", "a"], {"a": 1}) == 0.5
    assert ranking_metric("recall@1")(["x", "a"], {"a": 1}) == 0.0
    assert (depth("nDCG@10"), depth("MRR")) == (10, None)
    for name in ("ndcg@10", "nDCG", "nDCG@0", "recall@x"):
        with pytest.raises(ConfigurationError, match="there are nDCG@k"):
            ranking_metric(name)


def test_beir_qrels_have_three_columns_and_a_header(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n1\t31715818\t1\n1\t99\t0\n3\t14717500\t2\n")
    assert read_qrels(path) == {"1": {"31715818": 1, "99": 0}, "3": {"14717500": 2}}
    path.write_text("1\t31715818\t1\n")
    assert read_qrels(path) == {"1": {"31715818": 1}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"q 0 a 1\nq 0 b 2 x\n", ":2: expected 4 columns, found 5"),
        (b"q 0 a 1\nq 0 b high\n", ":2: the relevance 'high' is not a whole number"),
        (b"q 0 \xff 1\n", ":1: not UTF-8"),
        (None, ": cannot be read"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "test.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_qrels(path)
    assert str(caught.value).startswith(f"{path}{says}")


TOWER = Passage(
    id="tower", title="Tower", text='It was "built" by Koechlin, in Paris. Später — im Jahr 1889 — war es fertig.'
)


def prompt(*contents: str) -> GenerateStep:
    messages = tuple(Message(role="user", content=content) for content in contents)
    reply = (Reply(text="x"),)
    return GenerateStep(
        span="", ordinal=0, name="answer", model="m", messages=messages, sampling=Sampling(), replies=reply
    )


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (fence([TOWER]), ["Tower", 'It was "built" by Koechlin, in Paris. Später — im Jahr 1889 — war es fertig']),
        (fence([TOWER], tokens=9), ["Tower", 'It was "built" by Koechlin, in']),
        ('snippet="It was \\"built\\" by Koechlin, in Paris. ..."', ["Tower", 'It was "built" by Koechlin, in Paris']),
        ("It was built by\n[...]\nim Jahr 1889 war", ["Tower", 'It was "built" by', "im Jahr 1889 — war"]),
        ("Who built the Tower in Paris, and was it by Koechlin?", []),
        ("", []),
    ],
)
def test_the_stretches_that_a_prompt_holds(content: str, texts: list[str]) -> None:
    assert shown_texts(answered("x", retrieval(TOWER), prompt("Tower", content))) == texts


def test_short_passages_and_those_without_text_and_trajectories_without_prompts() -> None:
    short, empty = Passage(id="s", text="In 1889."), Passage(id="e", title="Empty", text="")
    assert shown_texts(answered("x", retrieval(short, empty), prompt("(in 1889)"))) == ["", "In 1889"]
    assert shown_texts(answered("x", retrieval(short, empty), prompt("1889"))) == []
    assert shown_texts(answered("x", retrieval(short))) == ["\nIn 1889."]


FILLER = "Nothing of what was asked is said in these words. " * 12
LATE = [Passage(id="late", title="Tower", text=f"{FILLER}The tower was built by Maurice Koechlin.")]
EXAMPLE = Example(id="q", question="Who built the tower?", golden_answers=("Maurice Koechlin",))


@pytest.mark.parametrize("tokens", [40, 400])
@pytest.mark.parametrize("kind", [RAG, SearchAgent])
async def test_what_a_method_cut_off_a_passage_is_no_hit(kind: type, tokens: int) -> None:
    replies = [
        'Search(query="tower")',
        'LinkSelection(grounded_summarization="[link_id=1] helps.", thoughts="t", selected_link_ids=[1])',
        'Terminate(thoughts="t")',
        'Answer(thoughts="t", answer="Eiffel.")',
    ]
    settings = {"passage_tokens": tokens} if kind is RAG else {"samples": 1, "checks": False, "snippet_tokens": tokens}
    method = kind(model=ScriptedModel(replies), retriever=ScriptedRetriever(LATE), **settings)
    solved = await solve(method, EXAMPLE.question, Run(), id="q", name="any")
    scores = await QuestionAnswering("t", "exact match", (EXAMPLE,)).score(EXAMPLE, solved.trajectory, None)
    assert scores["hit"].value == float(tokens == 400)
