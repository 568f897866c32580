import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError
from reground.evaluation.metrics.ranking import (
    average_precision,
    depth,
    evaluate_run,
    ndcg,
    precision,
    ranked,
    ranking_metric,
    recall,
    reciprocal_rank,
)

DOCUMENTS = st.sampled_from([*"abcdefghij", "d1", "d10", "d9", "é", "Z", "文"])
SCORES = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.sampled_from([0.1, 0.1 + 1e-12, 1e-30, 16777217.0, 16777216.0]),
)
RUNS = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), st.dictionaries(DOCUMENTS, SCORES, max_size=14), max_size=3)
QRELS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]), st.dictionaries(DOCUMENTS, st.integers(0, 3), min_size=1), min_size=1
)
THEIRS = {
    "nDCG@10": "ndcg_cut_10",
    "nDCG@3": "ndcg_cut_3",
    "recall@5": "recall_5",
    "precision@5": "P_5",
    "MRR": "recip_rank",
    "MAP": "map",
}


@given(RUNS, QRELS)
def test_scores_are_trec_evals(run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    wanted = {"ndcg_cut.3,10", "recall.5", "P.5", "recip_rank", "map"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate({q: s for q, s in run.items() if s})
    ours = evaluate_run(run, qrels, list(THEIRS))
    judged = {q for q, grades in qrels.items() if any(grades.values())}
    assert set(ours.queries) == judged
    assert set(ours.missing) == judged - set(run)
    for query in judged:
        for name, their_name in THEIRS.items():
            expected = theirs.get(query, {}).get(their_name, 0.0)
            assert ours.queries[query][name] == pytest.approx(expected, abs=1e-9), (query, name)
    for name in THEIRS:
        total = sum(theirs.get(query, {}).get(THEIRS[name], 0.0) for query in judged)
        assert ours.means[name] == pytest.approx(total / len(judged) if judged else 0.0, abs=1e-9)


def test_ties_go_to_the_greater_id_and_scores_have_single_precision() -> None:
    assert ranked({"d9": 1.0, "d10": 1.0, "d1": 2.0}) == ["d1", "d9", "d10"]
    assert ranked({"a": 16777217.0, "b": 16777216.0}) == ["b", "a"]


def test_values_worked_by_hand() -> None:
    relevance = {"a": 2, "b": 1, "c": 0, "d": 1}
    ranking = ["x", "b", "a", "c"]
    # gains 0, 1, 2 at ranks 1 to 3 over the ideal 2, 1, 1
    assert ndcg(ranking, relevance, 10) == pytest.approx((1 / 1.5849625 + 2 / 2) / (2 + 1 / 1.5849625 + 1 / 2))
    assert recall(ranking, relevance, 2) == pytest.approx(1 / 3)
    assert precision(ranking, relevance, 2) == 0.5
    assert precision(["a"], relevance, 5) == 0.2
    assert reciprocal_rank(ranking, relevance) == 0.5
    assert reciprocal_rank(ranking, relevance, 1) == 0.0
    assert average_precision(ranking, relevance) == pytest.approx((1 / 2 + 2 / 3) / 3)


def test_negative_judgements_gain_nothing() -> None:
    assert ndcg(["bad", "good"], {"bad": -1, "good": 1}, 10) == pytest.approx(1 / 1.5849625)


def test_nothing_relevant_scores_nothing() -> None:
    for value in (ndcg(["a"], {}, 5), recall(["a"], {"a": 0}, 5), reciprocal_rank([], {"a": 1})):
        assert value == 0.0
    assert average_precision(["a"], {}) == 0.0
    assert evaluate_run({}, {"q": {"a": 0}}).queries == {}


def test_a_missing_query_counts_zero_and_is_named() -> None:
    scores = evaluate_run({"q1": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"b": 1}}, ["recall@10", "MRR"])
    assert scores.means == {"recall@10": 0.5, "MRR": 0.5}
    assert scores.missing == ("q2",)


def test_metrics_by_name() -> None:
    assert ranking_metric("MRR@10")(["x", "a"], {"a": 1}) == 0.5
    assert ranking_metric("recall@1")(["x", "a"], {"a": 1}) == 0.0
    assert (depth("nDCG@10"), depth("MRR")) == (10, None)
    for name in ("ndcg@10", "nDCG", "nDCG@0", "recall@x"):
        with pytest.raises(ConfigurationError, match="there are nDCG@k"):
            ranking_metric(name)
