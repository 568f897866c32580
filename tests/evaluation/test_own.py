"""A file of questions with answers as a task: JSONL, and CSV as spreadsheets write it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import DataError
from reground.core.evidence import Passage
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task, load_training_task
from reground.evaluation.tasks.own import read_answered
from tests.evaluation.trajectories import answered, retrieval


def read(tmp_path: Path, name: str, content: str | bytes) -> tuple[Example, ...]:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_answered(file)


def told(examples: tuple[Example, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(each.id, each.question, each.golden_answers) for each in examples]


def test_objects_may_name_their_answers_in_three_ways(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "q.jsonl",
        '{"question": " Who? ", "answer": "Ada", "passages": ["a.md#2", "b.md"]}\n\n'
        '{"id": 7, "question": "When?", "answers": [1843, "the 1840s"], "passages": "a.md"}\n'
        '{"id": "c", "question": "Is it?", "golden_answers": [true], "answer": "", "metadata": {"level": "easy"}}\n',
    )
    assert told(found) == [("1", "Who?", ("Ada",)), ("7", "When?", ("1843", "the 1840s")), ("c", "Is it?", ("yes",))]
    assert [each.metadata for each in found] == [
        {"gold_ids": ["a.md#2", "b.md"]},
        {"gold_ids": ["a.md"]},
        {"level": "easy"},
    ]


WANTED = [("2", "Who, and when?", ("Ada; 1843",)), ("x", 'What is "it"?', ("a\nb",))]


@pytest.mark.parametrize(
    "content",
    [
        'question,answer,id\n"Who, and when?",Ada; 1843,\n"What is ""it""?","a\nb",x\n',
        '\ufeffQuestion;Answer;ID\r\nWho, and when?;"Ada; 1843";\r\n"What is ""it""?";"a\nb";x\r\n',
        'id\tquestion \t answer\n\tWho, and when?\tAda; 1843\nx\t"What is ""it""?"\t"a\nb"\n\n\t\t\n',
        'question,answer,id,,\n"Who, and when?",Ada; 1843,,,\n"What is ""it""?","a\nb",x,,\n'.replace(",,,\n", ",\n"),
    ],
    ids=["plain", "excel in German", "tabs", "columns without a name"],
)
def test_what_spreadsheets_write_is_read_alike(tmp_path: Path, content: str) -> None:
    assert told(read(tmp_path, "q.csv", content)) == WANTED


def test_excels_own_line_and_its_unicode_text_are_read(tmp_path: Path) -> None:
    marked = "sep=;\nquestion;answer\nWho?;Ada\n"
    assert told(read(tmp_path, "q.csv", marked)) == [("3", "Who?", ("Ada",))]
    wide = "question\tanswer\r\nWer schloß?\tÄda\r\n".encode("utf-16")
    assert told(read(tmp_path, "q.tsv", wide)) == [("2", "Wer schloß?", ("Äda",))]


def test_a_cell_may_hold_several_answers_and_passages(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "q.csv", "question,answers,passages\nWho?,Ada | Lovelace |,a.md#1|b.md\n")
    assert found.golden_answers == ("Ada", "Lovelace")
    assert found.metadata == {"gold_ids": ["a.md#1", "b.md"]}


text = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(
    lambda each: each.strip() == each
)
rows = st.lists(st.tuples(text, text), min_size=1, max_size=6)


@given(rows, st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["utf-8-sig", "utf-16"]))
def test_any_text_survives_csv(
    tmp_path_factory: pytest.TempPathFactory, some: list[tuple[str, str]], mark: str, end: str, code: str
) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=mark, lineterminator=end).writerows([("question", "answer"), *some])
    found = read(tmp_path_factory.mktemp("csv"), "q.csv", out.getvalue().encode(code))
    assert [(each.question, *each.golden_answers) for each in found] == some


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("q.csv", "question,answer\nWho?,Ada\nWhen?,\n", "q.csv:3: the question has no answer"),
        ("q.csv", "question,answer\n\n,Ada\n", "q.csv:3: the question is empty"),
        ("q.csv", "question,answer\nWho, when?,Ada\n", "q.csv:2: 3 cells under 2 columns; put the cell in quotes"),
        ("q.csv", 'question,answer\nWho?,"Ada\n', "q.csv:2: not CSV: a quote is not closed"),
        ("q.csv", 'question,answer\n"a\nb",c\n"Who?"x,Ada\n', "q.csv:4: not CSV: ',' expected after '\"'"),
        ("q.csv", "Frage;Antwort\nWer?;Ada\n", "q.csv:1: the first line must name the columns question and answer"),
        ("q.csv", "question,answer,answer\nWho?,a,b\n", "q.csv:1: the column 'answer' stands twice"),
        ("q.csv", "question,answer,id\nWho?,a,1\nWhen?,b,1\n", "q.csv:3: the id '1' is already that of line 2"),
        ("q.csv", b"question,answer\nWer schlo\xdf?,Ada\n", "q.csv:2: not UTF-8 text: in Excel, save it as"),
        ("q.csv", "", "has no questions"),
        ("q.csv", "question,answer\n", "has no questions"),
        ("q.csv", f"question,answer\n{'x' * 200_000},b\n", "q.csv:2: not CSV: field larger than field limit"),
        ("q.jsonl", '{"question": "Who?"}\n', "q.jsonl:1: the question has no answer"),
        ("q.jsonl", '{"question": ["Who?"], "answer": "a"}\n', "q.jsonl:1: the question is empty"),
        ("q.jsonl", '{"question": "Who?", "answer": {"a": 1}}\n', "q.jsonl:1: the field golden_answers.0 is unusable"),
        ("q.jsonl", '{"question": "Who?"\n', "q.jsonl:1: not JSON"),
        ("q.txt", "Who?\n", "are read from .jsonl, .jsonl.gz, .csv and .tsv files"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, name: str, content: str | bytes, why: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, name, content)
    assert why in str(error.value)


async def test_scored_as_the_benchmarks_with_recall_of_ones_own_passages(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "Who?", "answer": "Ada Lovelace", "passages": ["best-guide.md#2", "other.md"]}\n')
    task = load_task(f"questions:{file}")
    assert (task.name, task.primary) == ("questions:mine.jsonl", "token F1")
    (example,) = task.examples()
    assert task.demonstrations()

    for found, recall in (
        (["best-guide.md#2", "other.md#7"], 1.0), (["best-guide.md#1"], 0.0), (["other.md"], 0.5), ([], None),
    ):  # fmt: skip
        steps = [retrieval(*(Passage(id=each, text="Ada") for each in found))] if found else []
        scores = await task.score(example, answered("Answer: Ada Lovelace", *steps), None)
        assert (scores["token F1"].value, scores["gold recall"].value) == (1.0, recall)


def test_numbers_and_gaps_are_read_as_tables_in_python_write_them(tmp_path: Path) -> None:
    """A column of whole numbers that lacks one is written as floats, and the gap as NaN, which is no answer."""
    rows = '{"question": "When?", "answer": 1912.0}\n{"question": "How far?", "answer": 2.5, "answers": [NaN]}\n'
    assert told(read(tmp_path, "q.jsonl", rows)) == [("1", "When?", ("1912",)), ("2", "How far?", ("2.5",))]
    with pytest.raises(DataError, match="the question has no answer"):
        read(tmp_path, "q.jsonl", '{"question": "Who?", "answer": NaN}\n')


def test_lines_and_objects_are_questions(tmp_path: Path) -> None:
    plain, objects = tmp_path / "q.txt", tmp_path / "q.jsonl"
    plain.write_text("\ufeffWho wrote it?\n\n  When? \n", encoding="utf-8")
    objects.write_text('{"question": "Who wrote it?"}\n{"id": "b", "question": "When?", "golden_answers": ["1900"]}\n')
    found = [load_training_task(f"questions_train:{file}", tmp_path).examples() for file in (plain, objects)]
    assert [[(each.id, each.question) for each in some] for some in found] == [
        [("1", "Who wrote it?"), ("3", "When?")],
        [("1", "Who wrote it?"), ("b", "When?")],
    ]
    assert not found[1][1].golden_answers, "answers are not even read"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("q.txt", b"\n \n", "has no questions"),
        ("q.txt", b"\xff\xfe\x00bad", "not UTF-8 text"),
        ("q.jsonl", b'{"text": "Who?"}\n', "question"),
        ("absent.txt", None, "cannot be read"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=why) as error:
        load_training_task(f"questions_train:{tmp_path / name}", tmp_path)
    assert name in str(error.value)


async def test_scored_is_whether_there_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("Who?")
    task = load_training_task(f"questions_train:{tmp_path / 'q.txt'}", tmp_path)
    for text, value in (("Kirk.", 1.0), (" ", 0.0)):
        assert (await task.score(task.examples()[0], answered(text), None))["answered"].value == value
