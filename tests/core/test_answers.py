import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import (
    FORMS,
    PHRASE,
    PLAN,
    abstains,
    extract_letters,
    extract_number,
    extract_phrase,
    extract_program,
)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Answer: Paris", "Paris"),
        ("It is on the Seine [1]. Answer: Paris", "Paris"),
        ("Answer: Paris\nIt is not true that Answer: London", "Paris"),
        ("I think so.\nAnswer: Paris.\n", "Paris"),
        ("Answer: London\nNo, wait.\nAnswer: Paris", "Paris"),
        ("**Answer:** Paris", "Paris"),
        ("- **Final answer**: *Paris*", "Paris"),
        ("## Answer: Paris", "Paris"),
        ("Answer is: Paris", "Paris"),
        ("answer：巴黎", "巴黎"),
        ("So the answer is Paris. It lies on the Seine.", "Paris"),
        ("The final answer is: Paris", "Paris"),
        ("So the answer is St. Louis.", "St. Louis"),
        ("The answer is J. R. R. Tolkien. He wrote it.", "J. R. R. Tolkien"),
        ("The answer is John F. Kennedy", "John F. Kennedy"),
        ("The answer is vitamin C. It is in lemons.", "vitamin C"),
        ("It must be\n\n  Paris  \n", "Paris"),
        ("Answer: Paris [1][2].", "Paris"),
        ("Answer: Paris [1, 2]", "Paris"),
        ("Answer: Paris [1], [2]", "Paris"),
        ("Answer: Paris [1] and [2; 3].", "Paris"),
        ("Answer: [1, 2]", "[1, 2]"),
        ("Answer: x = [1, 2]", "x = [1, 2]"),
        ("Answer: the interval [1, 2]", "the interval [1, 2]"),
        ("Answer: Vitamin C[1]", "Vitamin C"),
        ("I cannot say.\nAnswer:", ""),
        ('Answer: "Paris"', "Paris"),
        ("Answer:\nParis", "Paris"),
        ("Answer: Paris\nAnswer:", "Paris"),
        ("Answer: J. R. R. Tolkien", "J. R. R. Tolkien"),
        ("", ""),
        ("\n \n", ""),
    ],
)
def test_phrases(text, phrase):
    assert extract_phrase(text) == phrase


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("Answer: B", "B"),
        ("Answer: (C)", "C"),
        ("Answer: A, C", "AC"),
        ("Answer: D and A", "AD"),
        ("Answer: ACD", "ACD"),
        ("Answer: A、C和D", "ACD"),
        ("Answer: B. Because it is so", "B"),
        ("Answer: option B", "B"),
        ("Answer: B B", "B"),
        ("Answer: b", "B"),
        ("Answer: a dog", ""),
        ("Answer: (A), (C)", "AC"),
        ("Answer: (A) (C)", "AC"),
        ("Answer: A) and C)", "AC"),
        ("Answer: **A** and **C**", "AC"),
        ("Answer: A; C", "AC"),
        ("Answer: A/C", "AC"),
        ("Answer: A. and C.", "AC"),
        ("Answer: A）、C）", "AC"),
        ("Answer: A) E. coli", "A"),
        ("Answer: A or C", "A"),
        ("Answer: Both", ""),
        ("I do not know", ""),
        ("", ""),
    ],
)
def test_letters(text, letters):
    assert extract_letters(text) == letters


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Answer: 42", "42"),
        ("Answer: $1,234.50", "1234.50"),
        ("Answer: -3.5e-4 kg", "-3.5e-4"),
        ("3 apples and 4 pears make 7.\nAnswer: 7 fruits", "7"),
        ("12 and so\nAnswer: a dozen", "12"),
        ("Answer: between 3 and 5", "5"),
        ("Answer: -$50", "-50"),
        ("Answer: \u22125", "-5"),
        ("Answer: pages 5-7", "7"),
        (r"Answer: $12{,}000.50$", "12000.50"),
        (r"Answer: \boxed{-10\,000}", "-10000"),
        ("Answer: 1\u202f234\u00a0567 m", "1234567"),
        ("Answer: CHF 12'500", "12500"),
        ("Answer: 12 000", "12000"),
        ("Answer: 42 (6 * 7)", "42"),
        ("Answer: f (3)", "3"),
        ("It is \\boxed{72} as 6*12=72.\nDone in 2 steps.", "72"),
        ("Answer: $\\boxed{12{,}000}$", "12000"),
        ("\\boxed{} so\nAnswer: 5", "5"),
        ("In 2020 500 came, 0.5 250, 3 45 and 12 3456", "3456"),
        ("In 2020 500", "500"),
        ("0.5 250", "250"),
        ("none at all", ""),
    ],
)
def test_numbers(text, number):
    assert extract_number(text) == number


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("Here:\n```python\nx = 1\n```\nDone.", "x = 1"),
        ("```python\nold\n```\n```py\nnew\n```", "new"),
        ("```python\nright\n```\n```text\noutput\n```", "right"),
        ("```\nplain\n```", "plain"),
        ("```js\nonly\n```", "only"),
        ("```python\nx = 1\nif x:\n    y", "x = 1\nif x:\n    y"),
        ("x = 1\n", "x = 1"),
        ("", ""),
        ("```python\n```python\nx = 1\n```\n```", "x = 1"),
        ("```python\n```python\nx = 1\n```", "x = 1"),
        ("```\n```python\nx = 1\n```\n```", "x = 1"),
        ("~~~\n```python\nx = 1\n```\n~~~", "x = 1"),
        ("```python\n```\nx = 1\n```", "x = 1"),
        ("```python\nold\n```python\nnew\n```", "new"),
        ("```python title=main.py\nx = 1\n```", "x = 1"),
        ("``` Python 3\nx = 1\n```\n```text\n1\n```", "x = 1"),
        ("```{.python .numberLines}\nx = 1\n```\n```text\n1\n```", "x = 1"),
        ("~~~python\nx = 1\n~~~\nDone.", "x = 1"),
        ('~~~python\ns = """\n```\n"""\n~~~', 's = """\n```\n"""'),
        ("````python\nx = 1\n```\n````", "x = 1\n```"),
        ("```python\nx = 1\n```\nIt prints:\n```python", "x = 1"),
        ("```python\nx = 1\n```\n```python\n\n```\nDone.", "x = 1"),
        ("```python\nx = 1\n```\n```", "x = 1"),
        ("Use ```x``` for it:\n```python\nx = 1\n```", "x = 1"),
        ("Here: ```python\nx = 1```", "x = 1"),
        ("1. So:\n   ```python\n   if x:\n       y\n   ```", "if x:\n    y"),
        ("```\nx = 1\n``` This is all there is.\nIt works.", "x = 1"),
        ('```python\nprint("```python")\n```', 'print("```python")'),
        ("```python\r\nx = 1\r\n```\r\n", "x = 1"),
    ],
)
def test_programs(text, program):
    assert extract_program(text) == program


@given(st.text(), st.sampled_from(sorted(FORMS)))
def test_no_text_breaks_an_extractor(text, form):
    answer = FORMS[form].extract(text)
    assert isinstance(answer, str)
    assert len(answer) <= len(text)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ]{0,20}[a-z0-9]", fullmatch=True))
def test_a_phrase_on_the_answer_line_is_found(phrase):
    assert extract_phrase(f"Some reasoning first.\n\nAnswer: {phrase}\n") == phrase


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("Yes, both films were made in France [1].", "Yes"),
        ("**No.** They were born in other countries.", "No"),
        ("First they met.\nAnswer: yes; the two are from Peru", "yes"),
        ("Yes, Prime Minister", "Yes, Prime Minister"),
        ("No, No, Nanette", "No, No, Nanette"),
        ("No. 1 on the Billboard Hot 100", "No. 1 on the Billboard Hot 100"),
        ("No one knows who wrote it", "No one knows who wrote it"),
        ("Yes", "Yes"),
    ],
)
def test_a_yes_or_no_that_goes_on_as_a_sentence_is_the_word_alone(text, short):
    assert PHRASE.extract(text) == short


@given(st.sets(st.sampled_from("ABCDEFGH"), min_size=1), st.sampled_from(["", ",", ", ", " and ", " & "]))
def test_letters_come_sorted_whatever_joins_them(letters, joint):
    assert extract_letters("Answer: " + joint.join(letters)) == "".join(sorted(letters))


def test_forms_go_by_their_names():
    assert all(name == form.name and form.instruction for name, form in FORMS.items())
    assert [name for name, form in FORMS.items() if form.draft_is_query] == ["program", "pal"]
    assert [name for name, form in FORMS.items() if not form.final_pass] == ["text", "plan", "article"]
    assert [name for name, form in FORMS.items() if form.outlined] == ["article"]


def test_a_form_states_the_bare_answer_in_its_own_words_or_as_always():
    assert PHRASE.short != PHRASE.instruction
    assert PLAN.short == PLAN.instruction


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("Not in these passages.", True),
        ("Answer: Not in these passages.", True),
        ("**Not in these passages.**", True),
        ("They tell of rivers.\n**Answer:** Not in these passages", True),
        ("Answer: not Paris", False),
        ("It is not in these passages.", False),
    ],
)
def test_an_abstention_may_stand_behind_its_label(text, silent):
    assert abstains(text) == silent
