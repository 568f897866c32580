import json
import re

import pytest

from reground.demo import corpus_path, questions_path

ARTICLES = {path.name: path.read_text(encoding="utf-8") for path in sorted(corpus_path().glob("*.md"))}
QUESTIONS = [json.loads(line) for line in questions_path().read_text(encoding="utf-8").splitlines()]

by_id = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])


def gold(question):
    return question["metadata"]["gold_ids"]


def words(text):
    return re.findall(r"\w+", text.lower())


def test_there_are_36_articles_and_20_questions():
    assert len(ARTICLES) == 36
    assert len(QUESTIONS) == 20
    assert len({question["id"] for question in QUESTIONS}) == 20
    assert len({question["question"] for question in QUESTIONS}) == 20


@pytest.mark.parametrize("name", ARTICLES)
def test_an_article_has_a_title_and_120_to_220_words(name):
    title, _, body = ARTICLES[name].partition("\n")
    assert re.fullmatch(r"# \S.*", title)
    assert 120 <= len(body.split()) <= 220
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*\.md", name)


@by_id
def test_a_question_needs_two_or_three_articles_that_exist(question):
    assert set(question) == {"id", "question", "golden_answers", "metadata"}
    assert len(gold(question)) == len(set(gold(question))) == question["metadata"]["hops"]
    assert question["metadata"]["hops"] in (2, 3)
    assert set(gold(question)) <= set(ARTICLES)


@by_id
def test_an_answer_stands_in_a_gold_article(question):
    texts = [" ".join(ARTICLES[name].split()) for name in gold(question)]
    assert any(answer in text for answer in question["golden_answers"] for text in texts)


@by_id
def test_the_question_does_not_tell_its_answer(question):
    asked = words(question["question"])
    for answer in question["golden_answers"]:
        size = len(words(answer))
        assert words(answer) not in [asked[start : start + size] for start in range(len(asked))]


def test_most_articles_serve_a_question():
    assert len({name for question in QUESTIONS for name in gold(question)}) >= 25


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    pytest.importorskip("tantivy")
    from reground.retrieval.index import build_index

    out = tmp_path_factory.mktemp("demo") / "index"
    build_index(corpus_path(), out)
    return out


@by_id
async def test_bm25_finds_a_gold_article_among_the_first_three(index, question):
    from reground.retrieval.index import open_index

    retriever = open_index(index)
    try:
        found = await retriever.retrieve(question["question"], k=3)
    finally:
        await retriever.aclose()
    assert {passage.id.split("#")[0].rsplit("/", 1)[-1] for passage in found} & set(gold(question))
