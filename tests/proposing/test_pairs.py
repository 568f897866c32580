from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.evidence import Passage
from reground.demo import corpus_path
from reground.proposing.pairs import corpus_passages, linked_pairs
from reground.retrieval.passages import document_ids


def passage(id: str, text: str, title: str = "") -> Passage:
    return Passage(id=id, title=title, text=text)


def test_a_passage_that_names_the_title_of_another_is_linked_to_its_first_piece() -> None:
    some = [
        passage("curie.md", "She was born on the banks of the Vistula in 1867.", "Marie Curie"),
        passage("vistula.md#2", "It is long.", "Vistula (river)"),
        passage("vistula.md#1", "It flows into the Baltic Sea.", "Vistula (river)"),
    ]
    (pair,) = linked_pairs(some, most=9)
    assert (pair.kind, pair.link, pair.first.id, pair.second.id) == (
        "title", "Vistula (river)", "curie.md", "vistula.md#1",
    )  # fmt: skip


def test_passages_that_share_a_rare_name_are_linked_and_what_begins_a_sentence_is_no_name() -> None:
    some = [
        passage("a.md", "During the war Ada Lovelace met Babbage. Later they wrote."),
        passage(
            "b.md", "A poem about Ada Lovelace and Byron. During spring it rained; later it was dry, during the day."
        ),
        passage("c.md", "Nothing of note happened at Dover."),
    ]
    (pair,) = linked_pairs(some, most=9)
    assert (pair.kind, pair.link, {pair.first.id, pair.second.id}) == ("name", "Ada Lovelace", {"a.md", "b.md"})


def test_what_many_documents_hold_links_nothing() -> None:
    some = [passage(f"{i}.md", f"In Paris met Person{i} Smith{i}. Also Anna{i} came.") for i in range(6)]
    assert linked_pairs(some, most=9) == []


def test_writing_without_capitals_is_linked_by_rare_terms() -> None:
    some = [
        passage("a.md", "徳川家康は江戸幕府を開いた。"),
        passage("b.md", "日光東照宮には徳川家康がまつられている。"),
        passage("c.md", "カタカナの文章です。"),
    ]
    (pair,) = linked_pairs(some, most=9)
    assert (pair.kind, pair.link) == ("term", "徳川家康")


def test_a_title_of_several_documents_names_none_of_them() -> None:
    some = [passage(f"{i}.md", f"Introduction\n\nit is about thing{i * 'x'}.", "Introduction") for i in range(2)]
    assert linked_pairs(some, most=9) == []


def test_pieces_of_one_document_are_no_pair() -> None:
    some = [passage(f"a.md#{i}", "Ada Lovelace met Charles Babbage.", "Computing") for i in (1, 2)]
    assert linked_pairs(some, most=9) == []


def test_the_demo_has_pairs_of_both_kinds_in_turns() -> None:
    some = corpus_passages(corpus_path(), 400, 50)
    found = linked_pairs(some, most=10)
    assert [pair.kind for pair in found] == ["title", "name"] * 5
    assert found == linked_pairs(some, most=10)
    assert found != linked_pairs(some, most=10, seed=1)
    assert len({pair.id for pair in linked_pairs(some, most=500)}) == len(linked_pairs(some, most=500))


names = st.sampled_from(["Ada Lovelace", "Charles Babbage", "Lord Byron", "Dover Castle", "Isaac Newton"])
documents = st.lists(st.lists(names, min_size=1, max_size=3), max_size=9)


@given(documents, st.integers(0, 12), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_a_pair_is_of_two_documents_that_hold_the_link_and_nothing_is_used_up(
    some: list[list[str]], most: int, seed: int
) -> None:
    passages = [
        passage(f"{i}.md", f"Then {' and '.join(each)} came.", each[0] if i % 2 else "") for i, each in enumerate(some)
    ]
    found = linked_pairs(passages, most=most, seed=seed)
    assert len(found) <= most
    used = Counter(each.id for pair in found for each in (pair.first, pair.second))
    assert not used or max(used.values()) <= 3
    for pair in found:
        assert document_ids(pair.first.id)[-1] != document_ids(pair.second.id)[-1]
        assert pair.link.casefold() in pair.first.text.casefold()
        assert pair.link.casefold() in pair.second.text.casefold() or pair.link == pair.second.title
    both = Counter(frozenset((pair.first.id, pair.second.id)) for pair in found)
    assert not both or max(both.values()) == 1
