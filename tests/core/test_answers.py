import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import FORMS, PHRASE, abstains
from reground.core.code_blocks import extract_program
from reground.core.extraction import extract_letters, extract_number, extract_phrase
from reground.evaluation.metrics.text import exact_match
from reground.evaluation.tasks.choice import TASKS as CHOICES
from reground.evaluation.tasks.mathematics import TASKS as PROBLEMS
from reground.evaluation.tasks.qa import TASKS as QUESTIONS
from tests.data import need_data


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
        ("答案：巴黎", "巴黎"),
        ("所以答案是巴黎。", "巴黎"),
        ("【答案】**巴黎**", "巴黎"),
        ("答えはパリです。", "パリ"),
        ("정답은 파리입니다.", "파리"),
        ("คำตอบคือปารีส", "ปารีส"),
        ("Antwort: Paris", "Paris"),
        ("Réponse : Paris", "Paris"),
        ("Es liegt an der Seine.\n\n**Endgültige Antwort:** Paris", "Paris"),
        ("La respuesta es París. Está en Francia.", "París"),
        ("Ответ: Париж", "Париж"),
        ("<answer>Paris</answer>", "Paris"),
        ("<think>London?</think>\n<answer>\nParis\n</answer>", "Paris"),
        ("<answer>Answer: Paris", "Paris"),
        (r"So it is $\boxed{\text{Paris}}$.", "Paris"),
        (r"Answer: \boxed{Paris}", "Paris"),
        ('{"answer": "Paris"}', "Paris"),
        ('```json\n{"why": "The Seine", "final_answer": "Paris", "sure": true}\n```', "Paris"),
        ('{"answer": ["Paris", "Rome"]}', "Paris, Rome"),
        ("{'answer': 'Paris'}", "Paris"),
        ("The answer is Mt. Fuji.", "Mt. Fuji"),
        ("The answer is Ft. Worth, Texas. It is large.", "Ft. Worth, Texas"),
        ("The answer is that Apple Inc. was founded by Jobs.", "that Apple Inc. was founded by Jobs"),
        ("The answer is Apple Inc. It was founded in 1976.", "Apple Inc"),
        ("The answer is Warner Bros. Pictures.", "Warner Bros. Pictures"),
        ("The answer is Chanel No. 5. It smells.", "Chanel No. 5"),
        ("The answer is Martin Luther King Jr. He was a minister.", "Martin Luther King Jr"),
        ("The answer is W. A. Mozart.", "W. A. Mozart"),
        ("The answer is Cuba. Castro ruled it.", "Cuba"),
        ("The answer is NBC. CBS came second.", "NBC"),
        ("Star Wars: A New Hope", "Star Wars: A New Hope"),
        ("Possible answers: Rome, Paris.\n\nParis", "Paris"),
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
        ("答案：AC", "AC"),
        ("正确答案是AC。", "AC"),
        ("故本题选AC。", "AC"),
        ("【答案】AC\n【解析】A项正确，B项错误，C项正确。", "AC"),
        ("**答案：ＡＣ**", "AC"),
        ("选项A和C", "AC"),
        ("应选A、C、D", "ACD"),
        ("A项错误，B项正确，C项错误，D项正确。", "BD"),
        ("不选B，应选C", "C"),
        ("A错，B对", "B"),
        ("B，而不是A", "B"),
        ("答え：B", "B"),
        ("Antwort: B", "B"),
        ("B, not A", "B"),
        ("Answer: not A but B", "B"),
        ("A is wrong, so B", "B"),
        ("Neither A nor C, so B.", "B"),
        ("It can't be A. It's B.", "B"),
        ("Both A and C are right; B is not.", "AC"),
        ("So it has to be option B, since A contradicts C.", "B"),
        ("A careful look shows that B is right.", "B"),
        ("Answer: option (b)", "B"),
        ("b)", "B"),
        ("(a) and (c)", "AC"),
        ("The answer is (d).", "D"),
        ("B\n\nThe others are wrong.", "B"),
        ("B. Paris\n\nA is in Germany.", "B"),
        ("The correct answers are A and C.", "AC"),
        ("<answer>B</answer>", "B"),
        (r"\boxed{B}", "B"),
        (r"\boxed{\text{B}}", "B"),
        (r"Answer: $\boxed{\textbf{(B) } 5}$", "B"),
        ('{"answer": "B"}', "B"),
        ('{"why": "A is too small", "answer": ["A", "C"]}', "AC"),
        ("Answer: A photosynthesis", "A"),
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
        ("Answer: $42.00 USD in 2020", "42.00"),
        ("So they earned $42 in 2020.", "42"),
        ("Answer: 42美元（2020年）", "42"),
        ("Answer: 72 km in 3 hours", "72"),
        ("Answer: 8 out of 10", "8"),
        ("Answer: 5 apples and 3 pears, so 8 in all", "8"),
        ("Answer: 18 dollars every day (16 - 3 - 4 = 9 eggs × $2)", "18"),
        ("Answer: 3/4", "0.75"),
        ("Answer: 3 1/2 cups", "3.5"),
        ("Answer: 2½", "2.5"),
        (r"\boxed{\frac{1}{2}}", "0.5"),
        (r"Answer: -1\frac{1}{2}", "-1.5"),
        ("Answer: 10^6", "1000000"),
        ("Answer: 10⁻³ m", "0.001"),
        ("Answer: 1.5 x 10^3", "1500"),
        (r"Answer: $2.5\times10^{4}$", "25000"),
        ("Answer: 10^99999", "1e+300"),
        ("Answer: 3/0", "3"),
        ("Answer: 24 m^2", "24"),
        ("Answer: 9.8 m/s²", "9.8"),
        ("Answer: 20 kg of CO2", "20"),
        ("Answer: 1.234,5", "1234.5"),
        ("Antwort: 1.234.567 Euro", "1234567"),
        ("Answer: 12,5 kg", "12.5"),
        ("Answer: 1,23,456", "123456"),
        ("Answer: 45%", "45"),
        ("**Answer:** 70,000", "70000"),
        ("#### -5", "-5"),
        ('{"answer": 42}', "42"),
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
    assert form == "number" or len(answer) <= len(text)


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


LAYOUTS = (
    "答案：{}",
    "正确答案是{}。",
    "故本题选{}。",
    "【答案】{}",
    "**答案：{}**",
    "{}",
    "Answer: {}",
    "综上所述，A项错误，应选{}。\n\n其他选项均不正确。",
    "解析：A项错误；B项正确。\n因此，正确答案为{}。",
    r"\boxed{{{}}}",
)


@pytest.mark.parametrize("joint", ["", "、", "和", ", "])
def test_the_right_letters_of_chinese_examinations_are_read(joint):
    root = need_data("agieval").parent
    for example in CHOICES["agieval"](root).examples():
        for right in example.golden_answers:
            for layout in LAYOUTS:
                assert extract_letters(layout.format(joint.join(right))) == right, (example.id, layout)


@pytest.mark.parametrize(
    "layout",
    ["The answer is {}.", "Answer: {}", "**Answer:** ${}", "#### {}", r"\boxed{{{}}}", "She has {} in 2020."],
)
def test_the_right_numbers_of_word_problems_are_read(layout):
    root = need_data("gsm8k", "test.jsonl").parent.parent
    for example in PROBLEMS["gsm8k"](root).examples():
        (gold,) = example.golden_answers
        number = float(gold.replace(",", ""))
        assert float(extract_number(layout.format(gold))) == number
        assert float(extract_number(layout.format(f"{number:,.2f}"))) == number


@pytest.mark.parametrize("layout", ["{}", "Answer: {}", "<answer>{}</answer>", r"\boxed{{\text{{{}}}}}", "答案：{}"])
def test_the_right_phrases_are_read(layout):
    root = need_data("hotpotqa").parent
    for example in QUESTIONS["hotpotqa"](root).examples():
        for gold in example.golden_answers:
            assert exact_match(PHRASE.extract(layout.format(gold)), [gold]), gold


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
