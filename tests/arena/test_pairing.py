"""The pair that comes next, and the side of each answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reground.arena.pairing import is_turned, next_pair

PAIRS = [f"p{n}" for n in range(8)]
SOME = st.sets(st.sampled_from(PAIRS))
COUNTS = st.dictionaries(st.sampled_from(PAIRS), st.integers(0, 4))
SECRET = st.binary(min_size=1, max_size=8)


def following(voted: set[str], skipped: dict[str, int], counts: dict[str, int], secret: bytes) -> str | None:
    return next_pair(PAIRS, voted=voted, skipped=skipped, counts=counts, secret=secret, judge="anna", round=1)


@given(SOME, SOME, COUNTS, SECRET)
def test_the_next_pair_is_unseen_and_has_the_fewest_votes(
    voted: set[str], skips: set[str], counts: dict[str, int], secret: bytes
) -> None:
    skipped = {pair: place for place, pair in enumerate(sorted(skips), start=1)}
    found = following(voted, skipped, counts, secret)
    open_ = [pair for pair in PAIRS if pair not in voted]
    if not open_:
        assert found is None
        return
    assert found in open_
    fresh = [pair for pair in open_ if pair not in skipped]
    if fresh:
        assert found in fresh
        assert counts.get(found, 0) == min(counts.get(pair, 0) for pair in fresh)
    else:
        assert skipped[found] == min(skipped[pair] for pair in open_)


@given(st.lists(st.sampled_from(["vote", "skip"]), max_size=60), SECRET)
def test_a_judge_sees_every_pair_once_and_skipped_ones_again(acts: list[str], secret: bytes) -> None:
    voted: set[str] = set()
    skipped: dict[str, int] = {}
    for place, act in enumerate([*acts, *["vote"] * len(PAIRS)], start=1):
        found = following(voted, skipped, {}, secret)
        if found is None:
            break
        assert found not in voted
        if act == "vote":
            voted.add(found)
        else:
            skipped[found] = place
    assert voted == set(PAIRS)


@given(COUNTS, SECRET, st.permutations(PAIRS))
def test_the_order_of_the_runs_does_not_matter(counts: dict[str, int], secret: bytes, order: list[str]) -> None:
    state = {"voted": frozenset[str](), "skipped": {}, "counts": counts, "secret": secret, "judge": "j", "round": 2}
    assert next_pair(order, **state) == next_pair(PAIRS, **state)


def test_sides_are_drawn_evenly_by_judge_pair_and_round_and_stay() -> None:
    places = [(judge, f"p{n}", turn) for judge in ("anna", "ben") for n in range(250) for turn in (1, 2)]
    sides = [is_turned(b"secret", *place) for place in places]
    assert sides == [is_turned(b"secret", *place) for place in places]
    assert 440 < sum(sides) < 560
    for step in (1, 500):  # neither the round nor the judge tells the side
        same = sum(one == other for one, other in zip(sides, sides[step:], strict=False))
        assert 0.42 < same / (len(sides) - step) < 0.58
    assert sides != [is_turned(b"another", *place) for place in places]


def test_parts_that_join_to_the_same_text_are_drawn_apart() -> None:
    joined = [is_turned(b"s", f"anna{n}", "1p", 1) for n in range(64)]
    assert joined != [is_turned(b"s", "anna", f"{n}1p", 1) for n in range(64)]
