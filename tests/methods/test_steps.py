import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import NUMBER, PHRASE, PLAN, PROGRAM, TEXT
from reground.methods.shared.steps import join_steps, split_answer, split_draft, split_steps
from reground.text.alignment import align_steps, with_lost_steps

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


def test_a_title_and_a_subtitle_stay_with_the_paragraph_below_them():
    text = "# Rivers\n\n## The Danube\n\nIt is long.\n\n## The Rhine\nIt is shorter."
    assert split_steps(text) == ["# Rivers\n## The Danube\nIt is long.", "## The Rhine\nIt is shorter."]


def test_a_heading_stays_with_its_paragraph_and_code_stays_whole():
    text = "## First\n\nText.\n\n```python\na = 1\n\nb = 2\n```\n\nEnd."
    assert split_steps(text) == ["## First\nText.", "```python\na = 1\n\nb = 2\n```", "End."]


def test_too_many_steps_are_put_together_evenly():
    text = "\n\n".join(f"s{i}" for i in range(13))
    groups = split_steps(text, most=5)
    sizes = [len(group.split()) for group in groups]
    assert sizes == [2, 3, 2, 3, 3]
    assert join_steps(groups) == text


@given(drafts, st.integers(1, 6))
def test_splitting_adds_no_word_and_keeps_the_order(draft, most):
    parts = split_steps(draft, most=most)
    rest = iter(draft.replace("/n/n", "\n\n").split())
    assert len(parts) <= most
    assert all(word in rest for word in " ".join(parts).split())
    assert all(part.strip() for part in parts)


@given(st.lists(st.sampled_from(DISTINCT), unique=True, min_size=1), st.data())
def test_lost_steps_are_put_back_in_their_places(before, data):
    kept = data.draw(st.lists(st.sampled_from(range(len(before))), unique=True).map(sorted))
    steps, lost = with_lost_steps(before, [before[i] for i in kept], first=len(before))
    assert (steps, lost) == (before, [before[i] for i in range(len(before)) if i not in kept])


@given(st.integers(0, 4))
def test_only_the_first_steps_come_back(first):
    assert with_lost_steps(DISTINCT, [], first=first) == (DISTINCT[:first], DISTINCT[:first])


NEW = "Nobody ever completed the brass contraption he had drawn."


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DISTINCT, [DISTINCT[0].replace("1843", "1842, with a table of numbers"), *DISTINCT[1:]]),
        (DISTINCT[:3], [DISTINCT[0], NEW, DISTINCT[2]]),
        (DISTINCT[:3], [DISTINCT[0] + " " + DISTINCT[1], DISTINCT[2]]),
        (DISTINCT[:2], DISTINCT),
    ],
    ids=["corrected", "in new words at the same place", "joined", "added to"],
)
def test_a_revised_step_is_not_lost(before, after):
    assert with_lost_steps(before, after, first=len(before)) == (after, [])


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        (
            DISTINCT[:2],
            ["Charles Babbage designed that machine", "but never finished building it."],
            [DISTINCT[0], "Charles Babbage designed that machine", "but never finished building it."],
        ),
        (DISTINCT[:3], [NEW, DISTINCT[2]], [NEW, DISTINCT[1], DISTINCT[2]]),
        (
            ["The Danube is 2850 km long.", "The Rhine is 1230 km long.", "The Danube is longer."],
            ["The Rhine is 1230 km long.", "The Danube is longer."],
            ["The Danube is 2850 km long.", "The Rhine is 1230 km long.", "The Danube is longer."],
        ),
        (
            ["STEP 1: get 2 logs", "STEP 2: craft 8 planks", "STEP 3: craft 4 sticks"],
            ["STEP 1: get 2 logs", "STEP 2: craft 4 sticks"],
            ["STEP 1: get 2 logs", "STEP 2: craft 8 planks", "STEP 2: craft 4 sticks"],
        ),
    ],
    ids=["another was split in two", "behind a reworded one", "one like it remains", "numbered again"],
)
def test_a_step_is_lost_and_put_back_although(before, after, whole):
    assert with_lost_steps(before, after, first=len(before))[0] == whole


@given(st.lists(sentences, max_size=5), st.lists(sentences, max_size=5))
def test_alignment_keeps_the_order_and_repair_brings_everything_back(before, after):
    partners = [p for p in align_steps(before, after) if p is not None]
    assert partners == sorted(set(partners))
    whole, lost = with_lost_steps(before, after, first=len(before))
    assert len(whole) == len(after) + len(lost)
    rest = iter(whole)
    assert all(step in rest for step in after)


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


@pytest.mark.parametrize(
    ("draft", "form"),
    [
        ("The Marshall Plan rebuilt Europe.|It was named after George Marshall.|The plan ended under Truman.", TEXT),
        ("World War I began in Sarajevo.|Many nations fought.|Wilhelm I was dead by then.", TEXT),
        ("You should drink water.|Rest helps.|You must call a doctor.", TEXT),
        ("Your heart pumps blood.|Your lungs take in oxygen.|Your kidneys clean the blood.", TEXT),
        ("我国的首都是北京。|长城是明朝修建的。|我国最长的河是长江。", TEXT),
        ("The band played.|It toured.|Their last album is called Help!", TEXT),
        ('He wrote a play.|It is long.|In it he wrote: "I love you!"', TEXT),
        ("The immune response begins at once.|Cells act.|The response ends slowly.", TEXT),
        ("1. Drink water.\n2. Rest.|If you have a fever, call your doctor.", TEXT),
        ("We know that Tom has twelve apples.|He eats four.|Wir haben dann acht Äpfel.", NUMBER),
        ("My answer is Warsaw.|It lies on the Vistula.", PHRASE),
        ("Marie Curie won two Nobel Prizes, which are:\n1. Physics.\n2. Chemistry.", TEXT),
        ("Yes, Paris is the capital of France. Here are the reasons:\n1. It is large.\n2. It is old.", TEXT),
    ],
)
def test_what_states_something_is_no_frame(draft, form):
    text = draft.replace("|", "\n\n")
    assert " ".join(split_steps(text, form)).split() == text.split()


@pytest.mark.parametrize(
    "draft",
    [
        "### Step 1: Collect wood\n### Step 2: Craft planks",
        "**Step 1: Collect wood**\n\n**Step 2: Craft planks**",
        "a) Collect wood\nb) Craft planks",
        "① 收集木头\n② 制作木板",
        "1️⃣ Collect wood\n2️⃣ Craft planks",
        "【第一步：木头】\n\n收集。\n\n【第二步：木板】\n\n制作。",
    ],
)
def test_items_are_known_by_any_sign_that_counts(draft):
    assert len(split_steps(draft, PLAN)) == 2


@pytest.mark.parametrize(
    "behind",
    ["Example usage:\n\n```python\nprint(f(1))\n```", "```python\nassert f(1) == 2\n```", "Output:\n\n```\n2\n```"],
)
def test_the_raw_answer_of_a_program_is_the_program_and_not_its_use(behind):
    program = "def f(x):\n    # one more\n    y = x + 1\n\n    # give it back\n    return y"
    thoughts, raw = split_draft(f"```python\n{program}\n```\n\n{behind}", PROGRAM, most=5)
    assert raw == f"```python\n{program}\n```"
    assert thoughts == ["def f(x):\n    # one more\n    y = x + 1", "    # give it back\n    return y"]
