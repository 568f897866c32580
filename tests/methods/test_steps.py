from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import PHRASE, PLAN, PROGRAM
from reground.methods.shared.steps import (
    align_steps,
    dropped_steps,
    join_steps,
    restore_steps,
    similarity,
    split_answer,
    split_steps,
    squeezed,
)

words = st.sampled_from(
    ["granite", "river", "copper", "window", "lantern", "harvest", "violin", "mountain", "teacher", "orchard"]
)
sentences = st.lists(words, min_size=4, max_size=10).map(" ".join)
line = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=30)
drafts = st.lists(line, max_size=12).map("\n".join)
DISTINCT = [
    "Ada Lovelace wrote notes about the Analytical Engine in 1843.",
    "Charles Babbage designed that machine but never finished building it.",
    "Modern computers read programs from memory instead of punched cards.",
    "Therefore her notes came a century before electronic computing.",
]


def test_a_draft_is_split_at_blank_lines():
    assert split_steps("One.\nStill one.\n\n\n  \nTwo.\n") == ["One.\nStill one.", "Two."]


def test_the_papers_slashes_are_blank_lines():
    assert split_steps("One./n/nTwo.") == ["One.", "Two."]
    assert split_steps("STEP 1: logs/n/nSTEP 2: planks") == ["STEP 1: logs", "STEP 2: planks"]
    address = "See https://example.org/authors/n/nabokov and /home/n/notes."
    assert split_steps(address) == [address]


def test_a_draft_without_blank_lines_is_split_at_numbered_lines():
    assert split_steps("STEP 1: logs\n- 4x Oak Log\nSTEP 2: planks") == ["STEP 1: logs\n- 4x Oak Log", "STEP 2: planks"]
    assert split_steps("1. one\n2) two\n**Step 3:** three") == ["1. one", "2) two", "**Step 3:** three"]


def test_a_title_and_a_subtitle_stay_with_the_paragraph_below_them():
    text = "# Rivers\n\n## The Danube\n\nIt is long.\n\n## The Rhine\nIt is shorter."
    assert split_steps(text) == ["# Rivers\n## The Danube\nIt is long.", "## The Rhine\nIt is shorter."]


def test_a_heading_stays_with_its_paragraph_and_code_stays_whole():
    text = "## First\n\nText.\n\n```python\na = 1\n\nb = 2\n```\n\nEnd."
    assert split_steps(text) == ["## First\nText.", "```python\na = 1\n\nb = 2\n```", "End."]


def test_numbered_lines_in_code_are_no_steps():
    assert split_steps("Code:\n```\n1: x\n2: y\n```") == ["Code:\n```\n1: x\n2: y\n```"]


def test_too_many_steps_are_put_together_evenly():
    text = "\n\n".join(f"s{i}" for i in range(13))
    groups = split_steps(text, most=5)
    sizes = [len(group.split()) for group in groups]
    assert sizes == [2, 3, 2, 3, 3]
    assert join_steps(groups) == text


@given(drafts, st.integers(1, 6))
def test_splitting_loses_no_word_and_keeps_the_order(draft, most):
    parts = split_steps(draft, most=most)
    assert len(parts) <= most
    assert " ".join(parts).split() == draft.replace("/n/n", "\n\n").split()
    assert all(part.strip() for part in parts)


@given(st.lists(sentences, min_size=1, max_size=8))
def test_what_is_joined_can_be_split_again(steps):
    joined = join_steps(steps)
    assert len(steps) == 1 or split_steps(joined) == steps


def test_an_empty_draft_has_no_steps():
    assert split_steps(" \n\n ") == []


@given(sentences, sentences)
def test_similarity_is_symmetric_and_bounded(a, b):
    assert 0.0 <= similarity(a, b) <= 1.0
    assert similarity(a, b) == similarity(b, a)
    assert similarity(a, a) == 1.0


def test_little_words_alone_are_no_likeness():
    assert similarity("the river is in the north of it", "it is the best of all that was") < 0.35
    assert similarity("", "something") == 0.0


@given(st.lists(st.sampled_from(DISTINCT), unique=True, min_size=1), st.data())
def test_dropped_steps_are_found_and_put_back(before, data):
    kept = data.draw(st.lists(st.sampled_from(range(len(before))), unique=True).map(sorted))
    after = [before[i] for i in kept]
    lost = dropped_steps(before, after)
    assert lost == [i for i in range(len(before)) if i not in kept]
    assert restore_steps(before, after, lost) == before


def test_a_corrected_step_is_not_lost():
    after = [DISTINCT[0].replace("1843", "1842, with a table of numbers"), *DISTINCT[1:]]
    assert dropped_steps(DISTINCT, after) == []


def test_a_step_in_wholly_new_words_at_the_same_place_is_not_lost():
    after = [DISTINCT[0], "Nobody ever completed the brass contraption he had drawn.", DISTINCT[2]]
    assert dropped_steps(DISTINCT[:3], after) == []


def test_two_steps_joined_into_one_are_not_lost():
    assert dropped_steps(DISTINCT[:3], [DISTINCT[0] + " " + DISTINCT[1], DISTINCT[2]]) == []


def test_a_lost_step_is_found_although_another_was_split_in_two():
    halves = ["Charles Babbage designed that machine", "but never finished building it."]
    assert dropped_steps(DISTINCT[:2], halves) == [0]
    assert restore_steps(DISTINCT[:2], halves, [0]) == [DISTINCT[0], *halves]


def test_a_lost_step_goes_back_behind_a_reworded_one():
    new = "Nobody ever completed the brass contraption he had drawn."
    before = [DISTINCT[0], DISTINCT[1], DISTINCT[2]]
    after = [new, DISTINCT[2]]
    lost = dropped_steps(before, after)
    assert lost == [1]
    assert restore_steps(before, after, lost) == [new, DISTINCT[1], DISTINCT[2]]


def test_a_step_is_lost_although_one_like_it_remains():
    before = ["The Danube is 2850 km long.", "The Rhine is 1230 km long.", "The Danube is longer."]
    assert dropped_steps(before, before[1:]) == [0]
    assert dropped_steps(before, [before[0], before[2]]) == [1]


def test_a_plan_that_was_numbered_anew_shows_its_lost_step():
    before = ["STEP 1: get 2 logs", "STEP 2: craft 8 planks", "STEP 3: craft 4 sticks"]
    after = ["STEP 1: get 2 logs", "STEP 2: craft 4 sticks"]
    assert dropped_steps(before, after) == [1]
    assert restore_steps(before, after, [1]) == [
        "STEP 1: get 2 logs",
        "STEP 2: craft 8 planks",
        "STEP 2: craft 4 sticks",
    ]


def test_a_revision_that_adds_steps_loses_nothing():
    assert dropped_steps(DISTINCT[:2], DISTINCT) == []


@given(st.lists(sentences, max_size=5), st.lists(sentences, max_size=5))
def test_alignment_keeps_the_order_and_repair_brings_everything_back(before, after):
    partners = [p for p in align_steps(before, after) if p is not None]
    assert partners == sorted(set(partners))
    restored = restore_steps(before, after, dropped_steps(before, after))
    assert [step for step in restored if step in after][: len(after)] or not after
    assert len(restored) == len(after) + len(dropped_steps(before, after))
    assert dropped_steps(before, restored) == []


@pytest.mark.parametrize(
    ("response", "reasoning", "answer"),
    [
        ("Because.\n\nAnswer: Paris", "Because.", "Answer: Paris"),
        ("Answer: Rome\nNo.\n**Final answer:** Paris", "Answer: Rome\nNo.", "**Final answer:** Paris"),
        ("The answer is Paris.", "The answer is Paris.", ""),
        ("", "", ""),
    ],
)
def test_the_answer_begins_at_the_last_answer_line(response, reasoning, answer):
    assert split_answer(response, PHRASE) == (reasoning, answer)
    assert split_answer(response, PLAN) == (reasoning, answer)


def test_a_programs_answer_is_the_last_code_block():
    response = "Think.\n\n```python\na\n```\n\nBetter:\n\n```python\nb\n```"
    assert split_answer(response, PROGRAM) == ("Think.\n\n```python\na\n```\n\nBetter:", "```python\nb\n```")
    assert split_answer("```python\ncut off", PROGRAM) == ("", "```python\ncut off")
    assert split_answer("no code", PROGRAM) == ("no code", "")


def test_white_space_does_not_tell_generations_apart():
    assert squeezed(" a\n\n b\t c ") == "a b c"
