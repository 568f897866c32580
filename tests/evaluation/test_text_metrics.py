import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.evaluation.judging import mean_ranks, pearson
from reground.evaluation.metrics.text import (
    cover_exact_match,
    exact_match,
    hit,
    option_exact_match,
    option_f1,
    token_f1,
)

SOME = "the The a an yes no No. noanswer Paris paris, U.S. us 1956 5 é theory"
WORDS = st.sampled_from(SOME.split())
SPACED = st.characters(max_codepoint=0xDFF, exclude_categories=["Cs"])
PHRASES = st.one_of(st.lists(WORDS, max_size=6).map(" ".join), st.text(SPACED, max_size=30))


class SquadSays:
    """The definition of SQuAD and HotpotQA, written apart from ours: character by character, counts by removal."""

    @staticmethod
    def words(text: str) -> list[str]:
        kept = [c for c in text.lower() if c not in set(string.punctuation)]
        out, word = "", ""
        for c in [*kept, " "]:  # an article is a whole run of word characters, whatever stands beside it
            if re.match(r"\w", c):
                word += c
                continue
            out += (" " if word in ("a", "an", "the") else word) + c
            word = ""
        return out.split()

    @staticmethod
    def f1(prediction: str, gold: str) -> float:
        p, g = SquadSays.words(prediction), SquadSays.words(gold)
        special = ({"yes"}, {"no"}, {"noanswer"})
        if p != g and ((set(p) in special and len(p) == 1) or (set(g) in special and len(g) == 1)):
            return 0.0
        left, same = list(g), 0
        for word in p:
            if word in left:
                left.remove(word)
                same += 1
        return 2 * same / (len(p) + len(g)) if same else 0.0

    @staticmethod
    def em(prediction: str, gold: str) -> float:
        return 1.0 if SquadSays.words(prediction) == SquadSays.words(gold) else 0.0

    @staticmethod
    def covers(prediction: str, gold: str) -> bool:
        p, g = SquadSays.words(prediction), SquadSays.words(gold)
        return bool(g) and any(p[i : i + len(g)] == g for i in range(len(p) - len(g) + 1))


@given(PHRASES, st.lists(PHRASES, min_size=1, max_size=4))
def test_f1_is_squads_over_aliases(prediction: str, golds: list[str]) -> None:
    assert token_f1(prediction, golds) == pytest.approx(max(SquadSays.f1(prediction, gold) for gold in golds))


@given(PHRASES.filter(lambda text: bool(text.strip())), st.lists(PHRASES, min_size=1, max_size=4))
def test_exact_match_is_squads_over_aliases(prediction: str, golds: list[str]) -> None:
    assert exact_match(prediction, golds) == max(SquadSays.em(prediction, gold) for gold in golds)


@given(PHRASES, st.lists(PHRASES, max_size=4))
def test_cover_is_a_run_of_whole_words(prediction: str, golds: list[str]) -> None:
    assert cover_exact_match(prediction, golds) == float(any(SquadSays.covers(prediction, gold) for gold in golds))


@pytest.mark.parametrize(
    ("prediction", "golds", "em", "cover", "f1"),
    [
        ("1956", ["5"], 0, 0, 0),
        ("J. K. Rowling", ["Joanne Rowling", "J.K. Rowling"], 0, 0, 0.4),
        ("the", ["A"], 1, 0, 0),
        ("“法国的巴黎”。", ["巴黎"], 0, 1, 4 / 7),
        ("北京", ["巴黎"], 0, 0, 0),
        ("玛丽·居里（Ｍarie Curie）", ["玛丽・居里 Marie Curie"], 1, 1, 1),
        ("《红楼梦》", ["红楼梦"], 1, 1, 1),
        ("A型", ["B型"], 0, 0, 0.5),
        ("6300公里", ["6300 公里"], 1, 1, 1),
        ("スティーブ・ジョブズ", ["スティーブ ジョブズ"], 1, 1, 1),
        ("東京都です", ["東京"], 0, 1, 4 / 7),
        ("서울특별시", ["서울 특별시"], 1, 1, 1),
        ("서울입니다", ["서울"], 0, 1, 4 / 7),
        ("กรุงเทพ", ["กรุงเทพมหานคร"], 0, 0, 14 / 20),
        ("The 東京 Tower", ["tokyo tower", "東京 tower"], 1, 1, 1),
    ],
)
def test_cases_worked_by_hand(prediction: str, golds: list[str], em: float, cover: float, f1: float) -> None:
    assert exact_match(prediction, golds) == em
    assert cover_exact_match(prediction, golds) == cover
    assert token_f1(prediction, golds) == pytest.approx(f1)


def test_hit_needs_an_answer_that_can_be_looked_for() -> None:
    texts = ["He was born in Ghent.", "Yes, there is no doubt."]
    assert hit(["Ghent"], texts) == 1
    assert hit(["Gent"], texts) == 0
    assert hit(["ghent born"], texts) == 0
    assert hit(["yes"], texts) is None
    assert hit(["No"], texts) is None
    assert hit(["The"], texts) is None
    assert hit(["no", "Antwerp"], texts) == 0
    assert hit(["Ghent"], []) == 0


LETTERS = st.text("ABCD", max_size=6)


@given(LETTERS, LETTERS)
def test_option_f1_is_the_harmonic_mean_of_set_precision_and_recall(chosen: str, right: str) -> None:
    both = {letter for letter in "ABCD" if letter in chosen and letter in right}
    p = len(both) / len(set(chosen)) if chosen else 0.0
    r = len(both) / len(set(right)) if right else 0.0
    assert option_f1(chosen, right) == pytest.approx(2 * p * r / (p + r) if both else 0.0)
    assert option_exact_match(chosen, right) == float(bool(chosen) and sorted(set(chosen)) == sorted(set(right)))


RATINGS = st.lists(
    st.tuples(st.floats(-100, 100).map(lambda x: round(x, 3)), st.floats(-100, 100).map(lambda x: round(x, 1))),
    min_size=2,
    max_size=30,
)


@given(RATINGS)
def test_correlations_are_scipys(pairs: list[tuple[float, float]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert pearson(x, y) is None
        return
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert pearson(mean_ranks(x), mean_ranks(y)) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    assert mean_ranks(x) == list(stats.rankdata(x))
