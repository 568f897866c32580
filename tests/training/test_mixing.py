"""What is known of candidates besides their texts: the numbers by hand, and the weights that planted pairs ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random

import pytest

pytest.importorskip("scipy", reason="needs the extra [train]")

from reground.critics.trained import features, weighed
from reground.training.critics.fit import mix_of_gaps, mixed_gaps
from reground.training.rows import Preference


def test_the_numbers_of_siblings_are_less_their_means() -> None:
    docs = [{"score": 8.0, "passage": "a"}, {"score": 4.0}, {}]
    assert features("doc", docs) == [
        {"score": pytest.approx(0.25), "rank": pytest.approx(1 - 11 / 18)},
        {"score": pytest.approx(-0.25), "rank": pytest.approx(0.5 - 11 / 18)},
        {"rank": pytest.approx(1 / 3 - 11 / 18)},
    ]
    assert features("query", [{"logprob": -1.0}, {"fallback": True}, {"logprob": -2.0}]) == [
        {"logprob": 0.5},
        {},
        {"logprob": -0.5},
    ]
    assert features("doc", [{"score": -3.0}, {"score": float("nan")}]) == [{"rank": 0.25}, {"rank": -0.25}]
    assert features("rationale", []) == []


def planted_rows(share: float, *, questions: int = 40, each: int = 4) -> tuple[list[Preference], list[float]]:
    """Document pairs, 80 % of which the search orders right, and what a model says that is right for this share."""
    draw = Random(3)
    rows, text = [], []
    for number in range(questions * each):
        right = draw.random() < 0.8
        known = [{"known": {"score": value, "rank": value}} for value in (0.2, -0.2)]
        chosen, rejected = known if right else known[::-1]
        rows.append(
            Preference(
                question=f"q{number // each}", kind="doc", prompt="?", chosen="a", rejected="b",
                extra={"chosen": chosen, "rejected": rejected},
            )
        )  # fmt: skip
        text.append(draw.uniform(0.5, 3.0) * (1 if draw.random() < share else -1))
    return rows, text


def right(gaps: list[float]) -> float:
    return sum(gap > 0 for gap in gaps) / len(gaps)


def test_a_model_that_knows_nothing_is_not_trusted_and_the_search_is() -> None:
    rows, text = planted_rows(0.45)
    mix = mix_of_gaps(rows, text)
    assert mix["text"] == 0.0
    assert mix["score"] > 1
    assert right(text) < 0.55 < 0.75 < right(mixed_gaps(rows, text)) == right(mixed_gaps(rows, [0.0] * len(rows)))


@pytest.mark.parametrize("share", [0.8, 1.0])  # at 1.0 the text orders every pair right
def test_no_other_weights_cost_less(share: float) -> None:
    rows, text = planted_rows(share)
    search = [row.extra["chosen"]["known"]["score"] * 2 for row in rows]  # type: ignore[index, call-overload]

    def cost(mix: Mapping[str, float]) -> float:
        gaps = [
            mix["text"] * own + (mix["score"] + mix["rank"]) * other for own, other in zip(text, search, strict=True)
        ]
        squares = {"text": sum(each**2 for each in text), "score": 0.4**2 * len(text), "rank": 0.4**2 * len(text)}
        ridge = sum(mix[name] ** 2 * square for name, square in squares.items()) / len(text)
        return sum(math.log1p(math.exp(-gap)) for gap in gaps) + ridge / 2

    mix = mix_of_gaps(rows, text)
    assert all(cost(mix) < cost({**mix, name: mix[name] + step}) for name in mix for step in (-0.01, 0.01))


def test_the_best_constant_sub_goals_are_learnt_whatever_the_text_says() -> None:
    rows = []
    for number in range(60):
        stage, better, worse = [("ROOT", "GENQUERY", "REASON"), ("QUERY", "RETRIEVE", "REASON")][number % 2]
        if number % 10 == 9:
            better, worse = worse, better
        offered = [{"stage": stage, "goal": goal} for goal in sorted((better, worse))]
        known = dict(zip(sorted((better, worse)), features("subgoal", offered), strict=True))
        rows.append(
            Preference(
                question=f"q{number // 2}", kind="subgoal", prompt="?", chosen=better, rejected=worse,
                extra={"chosen": {"known": known[better]}, "rejected": {"known": known[worse]}},
            )
        )  # fmt: skip
    text = [(-1.0) ** (number // 3) for number in range(60)]
    assert right(mixed_gaps(rows, [0.0] * len(rows))) == pytest.approx(0.9)
    mix = mix_of_gaps(rows, text)
    assert abs(mix.get("text", 0.0)) < 0.3
    offered = [{"stage": "QUERY", "goal": "REASON"}, {"stage": "QUERY", "goal": "RETRIEVE"}]
    before, after = weighed(mix, [0.0, 0.0], features("subgoal", offered))
    assert after > before


def test_a_question_is_measured_by_weights_that_others_gave() -> None:
    rows, text = planted_rows(0.8, questions=10, each=1)
    whole = mixed_gaps(rows, text)
    place = next(place for place, row in enumerate(rows) if row.question == "q0")
    turned = rows[place].model_copy(
        update={"extra": {"chosen": rows[place].extra["rejected"], "rejected": rows[place].extra["chosen"]}}
    )
    other = mixed_gaps([*rows[:place], turned, *rows[place + 1 :]], text)
    of_text = {gap: mixed_gaps(rows, [*text[:place], gap, *text[place + 1 :]])[place] for gap in (-1.0, 1.0)}
    assert whole[place] != other[place]  # its own numbers count
    share = (of_text[1.0] - of_text[-1.0]) / 2  # its weights do not move with it
    assert whole[place] == pytest.approx(of_text[1.0] + share * (text[place] - 1.0))
