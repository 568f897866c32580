import re

from hypothesis import example, given
from hypothesis import strategies as st

from reground.retrieval.decontaminate import Decontaminator

VOCABULARY = ["alpha", "beta", "gamma", "delta"]
TEXTS = st.lists(st.sampled_from(VOCABULARY), max_size=60).map(" ".join)
SHORT = st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join)


def ngrams(text: str, n: int) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def overlaps(solution: str, text: str) -> bool:
    """The rule, said plainly."""
    length = len(re.findall(r"\w+", solution))
    if length < 3:
        return False
    n = min(10, length)
    return bool(ngrams(solution, n) & ngrams(text, n))


@given(st.lists(st.one_of(TEXTS, SHORT), max_size=4), TEXTS)
@example(["alpha beta gamma"], "delta alpha beta gamma")
@example(["alpha beta gamma"], "alpha beta delta gamma")
def test_finds_exactly_what_the_rule_says(solutions: list[str], text: str) -> None:
    found = Decontaminator(solutions).overlap(text)
    assert (found is not None) == any(overlaps(solution, text) for solution in solutions)
    if found is not None:
        n = len(found.split())
        assert 3 <= n <= 10
        assert tuple(found.split()) in ngrams(text, n)
        assert any(tuple(found.split()) in ngrams(solution, n) for solution in solutions)


@given(st.lists(TEXTS, max_size=4), st.randoms())
def test_the_fingerprint_tells_what_is_looked_for(solutions: list[str], random: object) -> None:
    shuffled = list(solutions)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert Decontaminator(shuffled).fingerprint == Decontaminator(solutions).fingerprint
    more = [*solutions, "one two three four five"]
    assert Decontaminator(more).fingerprint != Decontaminator(solutions).fingerprint


def test_spacing_case_and_punctuation_hide_nothing() -> None:
    looked_for = Decontaminator(["def add(a, b):\n    return a + b if a else b or 0"])
    assert looked_for.overlap("DEF ADD( a,b ) : return a+b, if a: else b or 0") is not None
    assert looked_for.overlap("def add(a, b): return b") is None


def test_chinese_is_counted_by_character() -> None:
    looked_for = Decontaminator(["春江潮水连海平海上明月共潮生"])
    assert looked_for.overlap("诗云：春江潮水连海平，海上明月。") == "春 江 潮 水 连 海 平 海 上 明"
    assert looked_for.overlap("春江潮水") is None
