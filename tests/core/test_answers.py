import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import FORMS, PHRASE, abstains, extract_letters, extract_number, extract_phrase
from reground.core.code_blocks import extract_program
from reground.evaluation.metrics.text import exact_match
from reground.evaluation.tasks.choice import TASKS as CHOICES
from reground.evaluation.tasks.mathematics import TASKS as PROBLEMS
from reground.evaluation.tasks.qa import TASKS as QUESTIONS
from tests.data import need_data


def rows(table):
    """The texts of a table, each with what is to be read in it."""
    return [(text, found) for found, texts in table.items() for text in texts]


PHRASES = {
    "Paris": [
        "Answer: Paris", "It is on the Seine [1]. Answer: Paris",
        "Answer: Paris\nIt is not true that Answer: London", "I think so.\nAnswer: Paris.\n",
        "Answer: London\nNo, wait.\nAnswer: Paris", "**Answer:** Paris", "- **Final answer**: *Paris*",
        "## Answer: Paris", "Answer is: Paris", "So the answer is Paris. It lies on the Seine.",
        "The final answer is: Paris", "It must be\n\n  Paris  \n", "Answer: Paris [1][2].", "Answer: Paris [1, 2]",
        "Answer: Paris [1], [2]", "Answer: Paris [1] and [2; 3].", 'Answer: "Paris"', "Answer:\nParis",
        "Answer: Paris\nAnswer:", "Antwort: Paris", "Réponse : Paris",
        "Es liegt an der Seine.\n\n**Endgültige Antwort:** Paris", "<answer>Paris</answer>",
        "<think>London?</think>\n<answer>\nParis\n</answer>", "<answer>Answer: Paris",
        r"So it is $\boxed{\text{Paris}}$.", r"Answer: \boxed{Paris}", '{"answer": "Paris"}',
        '```json\n{"why": "The Seine", "final_answer": "Paris", "sure": true}\n```', "{'answer': 'Paris'}",
        "Possible answers: Rome, Paris.\n\nParis", "Answer:\n- Paris", "The answer is therefore Paris.",
    ],
    "巴黎": ["answer：巴黎", "答案：巴黎", "所以答案是巴黎。", "【答案】**巴黎**"],
    "St. Louis": ["So the answer is St. Louis."],
    "J. R. R. Tolkien": ["The answer is J. R. R. Tolkien. He wrote it.", "Answer: J. R. R. Tolkien"],
    "John F. Kennedy": ["The answer is John F. Kennedy"],
    "vitamin C": ["The answer is vitamin C. It is in lemons."],
    "[1, 2]": ["Answer: [1, 2]"],
    "x = [1, 2]": ["Answer: x = [1, 2]"],
    "the interval [1, 2]": ["Answer: the interval [1, 2]"],
    "Vitamin C": ["Answer: Vitamin C[1]"],
    "": ["I cannot say.\nAnswer:", "", "\n \n"],
    "パリ": ["答えはパリです。"],
    "파리": ["정답은 파리입니다."],
    "ปารีส": ["คำตอบคือปารีส"],
    "París": ["La respuesta es París. Está en Francia."],
    "Париж": ["Ответ: Париж"],
    "Paris, Rome": ['{"answer": ["Paris", "Rome"]}'],
    "Mt. Fuji": ["The answer is Mt. Fuji."],
    "Ft. Worth, Texas": ["The answer is Ft. Worth, Texas. It is large."],
    "that Apple Inc. was founded by Jobs": ["The answer is that Apple Inc. was founded by Jobs."],
    "Apple Inc": ["The answer is Apple Inc. It was founded in 1976."],
    "Warner Bros. Pictures": ["The answer is Warner Bros. Pictures."],
    "Chanel No. 5": ["The answer is Chanel No. 5. It smells."],
    "Martin Luther King Jr": ["The answer is Martin Luther King Jr. He was a minister."],
    "W. A. Mozart": ["The answer is W. A. Mozart."],
    "yes": ['{"answer": true}'],
    "- 5": ["Answer: - 5"],
    "Cuba": ["The answer is Cuba. Castro ruled it."],
    "NBC": ["The answer is NBC. CBS came second."],
    "Star Wars: A New Hope": ["Star Wars: A New Hope"],
}  # fmt: skip


@pytest.mark.parametrize(("text", "phrase"), rows(PHRASES))
def test_phrases(text, phrase):
    assert extract_phrase(text) == phrase


LETTERS = {
    "B": [
        "Answer: B", "Answer: B. Because it is so", "Answer: option B", "Answer: B B", "Answer: b", "A错，B对",
        "B，而不是A", "答え：B", "Antwort: B", "B, not A", "Answer: not A but B", "A is wrong, so B",
        "Neither A nor C, so B.", "It can't be A. It's B.", "So it has to be option B, since A contradicts C.",
        "A careful look shows that B is right.", "Answer: option (b)", "b)", "B\n\nThe others are wrong.",
        "B. Paris\n\nA is in Germany.", "<answer>B</answer>", r"\boxed{B}", r"\boxed{\text{B}}",
        r"Answer: $\boxed{\textbf{(B) } 5}$", '{"answer": "B"}',
    ],
    "C": ["Answer: (C)", "不选B，应选C"],
    "AC": [
        "Answer: A, C", "Answer: (A), (C)", "Answer: (A) (C)", "Answer: A) and C)", "Answer: **A** and **C**",
        "Answer: A; C", "Answer: A/C", "Answer: A. and C.", "Answer: A）、C）", "答案：AC", "正确答案是AC。",
        "故本题选AC。", "【答案】AC\n【解析】A项正确，B项错误，C项正确。", "**答案：ＡＣ**", "选项A和C",
        "Both A and C are right; B is not.", "(a) and (c)",
        "The correct answers are A and C.", '{"why": "A is too small", "answer": ["A", "C"]}',
    ],
    "AD": ["Answer: D and A"],
    "ACD": ["Answer: ACD", "Answer: A、C和D", "应选A、C、D"],
    "": ["Answer: a dog", "Answer: Both", "I do not know", ""],
    "A": ["Answer: A) E. coli", "Answer: A or C", "Answer: A photosynthesis"],
    "BD": ["A项错误，B项正确，C项错误，D项正确。"],
    "D": ["The answer is (d)."],
    "J": ["Answer: J", "The correct option is J, not I."],
    "I": ["Answer: I", "(I)"],
    "G": ["I think that it is G."],
}  # fmt: skip


@pytest.mark.parametrize(("text", "letters"), rows(LETTERS))
def test_letters(text, letters):
    assert extract_letters(text) == letters


NUMBERS = {
    "42": [
        "Answer: 42", "Answer: 42 (6 * 7)", "So they earned $42 in 2020.", "Answer: 42美元（2020年）", '{"answer": 42}',
    ],
    "1234.50": ["Answer: $1,234.50"],
    "-3.5e-4": ["Answer: -3.5e-4 kg"],
    "7": ["3 apples and 4 pears make 7.\nAnswer: 7 fruits", "Answer: pages 5-7"],
    "12": ["12 and so\nAnswer: a dozen"],
    "5": ["Answer: between 3 and 5", "\\boxed{} so\nAnswer: 5"],
    "-50": ["Answer: -$50"],
    "-5": ["Answer: \u22125", "#### -5"],
    "12000.50": [r"Answer: $12{,}000.50$"],
    "-10000": [r"Answer: \boxed{-10\,000}"],
    "1234567": ["Answer: 1\u202f234\u00a0567 m", "Antwort: 1.234.567 Euro"],
    "12500": ["Answer: CHF 12'500"],
    "12000": ["Answer: 12 000", "Answer: $\\boxed{12{,}000}$"],
    "3": ["Answer: f (3)", "Answer: 3/0"],
    "72": ["It is \\boxed{72} as 6*12=72.\nDone in 2 steps.", "Answer: 72 km in 3 hours"],
    "3456": ["In 2020 500 came, 0.5 250, 3 45 and 12 3456"],
    "42.00": ["Answer: $42.00 USD in 2020"],
    "8": ["Answer: 8 out of 10", "Answer: 5 apples and 3 pears, so 8 in all"],
    "18": ["Answer: 18 dollars every day (16 - 3 - 4 = 9 eggs × $2)"],
    "0.75": ["Answer: 3/4"],
    "3.5": ["Answer: 3 1/2 cups"],
    "2.5": ["Answer: 2½"],
    "0.5": [r"\boxed{\frac{1}{2}}"],
    "-1.5": [r"Answer: -1\frac{1}{2}"],
    "1000000": ["Answer: 10^6"],
    "0.001": ["Answer: 10⁻³ m"],
    "1500": ["Answer: 1.5 x 10^3"],
    "25000": [r"Answer: $2.5\times10^{4}$"],
    "1e+300": ["Answer: 10^99999"],
    "24": ["Answer: 24 m^2"],
    "9.8": ["Answer: 9.8 m/s²"],
    "20": ["Answer: 20 kg of CO2"],
    "1234.5": ["Answer: 1.234,5"],
    "12.5": ["Answer: 12,5 kg"],
    "123456": ["Answer: 1,23,456"],
    "45": ["Answer: 45%"],
    "70000": ["**Answer:** 70,000"],
    "500": ["In 2020 500"],
    "250": ["0.5 250"],
    "": ["none at all"],
}  # fmt: skip


@pytest.mark.parametrize(("text", "number"), rows(NUMBERS))
def test_numbers(text, number):
    assert extract_number(text) == number


PROGRAMS = {
    "x = 1": [
        "Here:\n```python\nx = 1\n```\nDone.", "x = 1\n", "```python\n```python\nx = 1\n```\n```",
        "```python\n```python\nx = 1\n```", "```\n```python\nx = 1\n```\n```", "~~~\n```python\nx = 1\n```\n~~~",
        "```python\n```\nx = 1\n```", "```python title=main.py\nx = 1\n```",
        "``` Python 3\nx = 1\n```\n```text\n1\n```", "```{.python .numberLines}\nx = 1\n```\n```text\n1\n```",
        "~~~python\nx = 1\n~~~\nDone.", "```python\nx = 1\n```\nIt prints:\n```python",
        "```python\nx = 1\n```\n```python\n\n```\nDone.", "```python\nx = 1\n```\n```",
        "Use ```x``` for it:\n```python\nx = 1\n```", "Here: ```python\nx = 1```",
        "```\nx = 1\n``` This is all there is.\nIt works.", "```python\r\nx = 1\r\n```\r\n",
    ],
    "new": ["```python\nold\n```\n```py\nnew\n```", "```python\nold\n```python\nnew\n```"],
    "right": ["```python\nright\n```\n```text\noutput\n```"],
    "plain": ["```\nplain\n```"],
    "only": ["```js\nonly\n```"],
    "x = 1\nif x:\n    y": ["```python\nx = 1\nif x:\n    y"],
    "": [""],
    's = """\n```\n"""': ['~~~python\ns = """\n```\n"""\n~~~'],
    "x = 1\n```": ["````python\nx = 1\n```\n````"],
    "if x:\n    y": ["1. So:\n   ```python\n   if x:\n       y\n   ```"],
    'print("```python")': ['```python\nprint("```python")\n```'],
}  # fmt: skip


@pytest.mark.parametrize(("text", "program"), rows(PROGRAMS))
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
        ("Yes - both were born in Kyiv", "Yes"),
        ("No (they differ).", "No"),
        ("Yes (band)", "Yes (band)"),
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
    "layout", ["The answer is {}.", "Answer: {}", "**Answer:** ${}", "#### {}", r"\boxed{{{}}}", "She has {} in 2020."]
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


@pytest.mark.parametrize("text", ["{}", "Answer: {}", "**{}**", "They tell of rivers.\n**Answer:** {}"])
def test_an_abstention_may_stand_behind_its_label(text):
    assert abstains(text.format("Not in these passages."))
    assert abstains(text.format("Not in these passages"))
    assert not abstains(text.format("not Paris"))
    assert not abstains(text.format("It is not in these passages."))
