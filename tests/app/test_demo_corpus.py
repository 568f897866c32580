"""The demo's articles and questions: what they need to be asked and answered."""

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


def test_there_are_36_articles_and_20_questions_and_most_articles_serve_one():
    assert len(ARTICLES) == 36
    assert len(QUESTIONS) == 20
    assert len({question["id"] for question in QUESTIONS}) == len({each["question"] for each in QUESTIONS}) == 20
    assert len({name for question in QUESTIONS for name in gold(question)}) >= 25


def test_an_article_has_a_title_and_120_to_220_words():
    for name, text in ARTICLES.items():
        title, _, body = text.partition("\n")
        assert re.fullmatch(r"# \S.*", title), name
        assert 120 <= len(body.split()) <= 220, name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*\.md", name)


@by_id
def test_a_question_needs_articles_that_exist_hold_its_answer_and_does_not_tell_it(question):
    assert set(question) == {"id", "question", "golden_answers", "metadata"}
    assert len(gold(question)) == len(set(gold(question))) == question["metadata"]["hops"]
    assert question["metadata"]["hops"] in (2, 3)
    texts = [" ".join(ARTICLES[name].split()) for name in gold(question)]
    assert any(answer in text for answer in question["golden_answers"] for text in texts)
    asked = words(question["question"])
    for answer in question["golden_answers"]:
        size = len(words(answer))
        assert words(answer) not in [asked[start : start + size] for start in range(len(asked))]


async def test_bm25_finds_a_gold_article_among_the_first_three(tmp_path):
    pytest.importorskip("tantivy")
    from reground.retrieval.index import build_index, open_index

    build_index(corpus_path(), tmp_path / "index")
    retriever = open_index(tmp_path / "index")
    for question in QUESTIONS:
        results = await retriever.retrieve(question["question"], k=3)
        assert {passage.id.split("#")[0].rsplit("/", 1)[-1] for passage in results} & set(gold(question))
    await retriever.aclose()
