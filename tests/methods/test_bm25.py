"""The cut of pages: BM25 against an independent implementation, pieces, limits, and what is kept where nothing fits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.text.excerpts import bm25, count_words, excerpt, first_words, pieces, terms

WORDS = st.sampled_from(["river", "danube", "vienna", "length", "the", "of", "seine"])
TEXTS = st.text(alphabet=st.sampled_from("ab .!?\n。多瑙河é\t0'น้ำ"), max_size=300)
DOCUMENTS = st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=8)


def test_the_formula_by_hand():
    # N = 2, mean length 3. "danube" in one of them: idf = ln(1 + 1.5/1.5); twice in a document of 4 words.
    documents = [["danube", "danube", "is", "long"], ["seine", "short"]]
    expected = math.log(2) * 2 / (2 + 1.2 * (1 - 0.75 + 0.75 * 4 / 3))
    assert bm25(["danube"], documents) == pytest.approx([expected, 0.0])
    assert bm25(["danube", "danube"], documents) == bm25(["danube"], documents)
    assert bm25(["rhine"], documents) == [0.0, 0.0]
    assert bm25([], documents) == [0.0, 0.0]
    assert bm25(["danube"], []) == []
    assert bm25(["danube"], [[], []]) == [0.0, 0.0]


def test_it_scores_as_an_independent_implementation_does():
    bm25s = pytest.importorskip("bm25s", reason="a development dependency")

    @given(documents=DOCUMENTS, query=st.lists(WORDS, min_size=1, max_size=5, unique=True))
    def agree(documents, query):
        other = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        other.index(documents, show_progress=False)
        known = [term for term in query if any(term in document for document in documents)]
        scores = other.get_scores(known) if known else [0.0] * len(documents)
        assert bm25(query, documents) == pytest.approx(list(map(float, scores)), rel=1e-4, abs=1e-6)

    agree()


FILLER = "Nothing of note is said in this sentence at all. "
PAGE = (
    f"The Danube rises in the Black Forest.\n\n{FILLER * 20}\n\nThe Danube is 2850 km long.\n\n{FILLER * 20}\n\n"
    "It flows through Vienna."
)


def test_the_best_pieces_are_kept_in_the_pages_order():
    kept = excerpt(PAGE, "Danube 2850 km Vienna", words=20)
    assert kept == "The Danube rises in the Black Forest.\nThe Danube is 2850 km long.\nIt flows through Vienna."


def test_a_piece_that_does_not_fit_makes_room_for_the_next():
    assert excerpt(PAGE, "Danube 2850 km Vienna", words=11) == "The Danube is 2850 km long.\nIt flows through Vienna."


def test_neighbours_stay_neighbours():
    page = "One red fox. Two red foxes.\n\nA cat.\n\n" + FILLER * 4
    assert excerpt(page, "fox foxes cat", words=12) == "One red fox. Two red foxes. A cat."


def test_a_page_that_is_short_enough_stays_as_it_is_even_if_it_is_one_passage():
    assert excerpt("A page  of\n\none passage.", "something else", words=5) == "A page  of\n\none passage."


@pytest.mark.parametrize("query", ["zebra", "", "?!"])
def test_a_page_without_any_term_of_the_query_keeps_its_beginning(query):
    assert excerpt(PAGE, query, words=6) == "The Danube rises in the Black"


def test_chinese_is_counted_by_characters_and_compared_by_pairs():
    assert count_words("多瑙河 is long") == 5
    assert terms("多瑙河。河 Danube_2") == ["多瑙", "瑙河", "河", "danube", "2"]
    page = "黄河很长。" * 20 + "多瑙河流经维也纳。" + "长江更长。" * 20
    assert "维也纳" in excerpt(page, "多瑙河 维也纳", words=70)
    assert first_words("多瑙河很长", 3) == "多瑙河"


FOREST, RIVER = "ป่าไม้อยู่ทางเหนือของเมืองและมีสัตว์มากมาย", "แม่น้ำดานูบไหลผ่านกรุงเวียนนา"


@pytest.mark.parametrize("gap", ["\n\n", " ", ""])
def test_thai_is_counted_by_letters_and_compared_by_pairs(gap):
    page = gap.join([*[FOREST] * 40, RIVER, *[FOREST] * 40])
    kept = excerpt(page, "แม่น้ำดานูบ", words=60)
    assert RIVER in "".join(kept.split())
    assert len(kept) < 400
    assert terms("น้ำ ดานูบ ก ๆ Danube") == ["นำ", "ดา", "าน", "นบ", "ก", "ๆ", "danube"]


@pytest.mark.parametrize("unspaced", [RIVER, "ແມ່ນ້ຳຂອງໄຫຼຜ່ານວຽງຈັນ", "မန္တလေးမြို့သည်မြစ်ကမ်းတွင်ရှိသည်", "ទន្លេមេគង្គហូរកាត់ភ្នំពេញ"])
def test_writing_without_spaces_is_many_words(unspaced):
    letters = sum(letter.isalnum() for letter in unspaced)
    assert letters / 4 <= count_words(unspaced) <= letters / 2
    assert count_words(first_words(unspaced, 3)) == 3
    assert excerpt(unspaced * 100, unspaced, words=50).count(unspaced[:4]) < 20


def test_signs_belong_to_their_words():
    assert terms("हिन्दी भाषा, cafe\u0301 தமிழ்") == ["हिन्दी", "भाषा", "cafe\u0301", "தமிழ்"]
    assert terms("İstanbul 2_x") == ["i\u0307stanbul", "2", "x"]


@given(text=TEXTS, words=st.integers(1, 30))
def test_pieces_hold_every_word_in_order_and_none_is_too_long(text, words):
    parts = pieces(text, words=words)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(1 <= count_words(part) <= words for part in parts)


@given(text=TEXTS, query=TEXTS, words=st.integers(1, 30))
def test_a_cut_page_keeps_to_its_words_and_is_never_empty(text, query, words):
    kept = excerpt(text, query, words=words)
    assert count_words(kept) <= words
    assert bool(kept.strip()) == bool(text.strip())


@given(text=TEXTS, words=st.integers(0, 30))
def test_first_words_are_the_beginning(text, words):
    head = first_words(text, words)
    assert text.startswith(head)
    assert count_words(head) == min(words, count_words(text))
