"""The check by words: what counts for and against a sentence, and the order in which it puts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.evidence import Passage
from reground.support.lexical import Claim, Lexical, claims
from reground.support.units import evidence

TOWER = Passage(
    id="tower", title="Eiffel Tower",
    text="The Eiffel Tower is a tower in Paris. It was completed in 1889. Gustave Eiffel's company designed it.",
)  # fmt: skip
BRIDGE = Passage(
    id="bridge", title="Brooklyn Bridge",
    text="The Brooklyn Bridge spans the East River. It was opened in 1883. It was not built of wood.",
)  # fmt: skip
CHECK = Lexical(evidence([TOWER, BRIDGE]))


def best(said: str, asked: str = "", check: Lexical = CHECK) -> tuple[float, str]:
    scores = check.scores(Claim(said, said, asked, alone=bool(asked)))
    at = max(range(len(scores)), key=scores.__getitem__)
    return scores[at], check.sentences[at].sentence


def made(text: str, title: str = "", language: str = "en") -> Lexical:
    return Lexical(evidence([Passage(id="p", title=title, text=text)]), language=language)


def test_a_sentence_supports_itself_and_what_says_the_same() -> None:
    assert best("The Eiffel Tower was completed in 1889.") == (1.0, "It was completed in 1889.")
    assert best("Completion of the Eiffel Tower: 1889")[1] == "It was completed in 1889."
    score, sentence = best("The Brooklyn Bridge spans a river.")
    assert score > 0.5
    assert sentence == "The Brooklyn Bridge spans the East River."


@pytest.mark.parametrize(
    "wrong",
    [
        "The Eiffel Tower was completed in 1887.",
        "The Eiffel Tower was completed in 1883.",
        "The Chrysler Tower was completed in 1889.",
        "The Eiffel Tower was not completed in 1889.",
        "It was built of wood.",
    ],
)
def test_a_wrong_number_a_wrong_name_and_a_negation_speak_against_it(wrong: str) -> None:
    assert best(wrong)[0] < 0.5


@pytest.mark.parametrize(
    ("language", "text", "same", "denied"),
    [
        ("de", "Der Turm ist nicht höher als der Berg.", "Nicht höher als der Berg ist der Turm.",
         "Der Turm ist höher als der Berg."),
        ("fr", "Le pont n'a jamais été vendu à la ville.", "Jamais le pont n'a été vendu à la ville.",
         "Le pont a été vendu à la ville."),
        ("es", "El puente nunca fue vendido al banco.", "Nunca fue vendido al banco el puente.",
         "El puente fue vendido al banco."),
        ("pt", "A ponte foi inaugurada no Porto em 1886.", "A ponte foi inaugurada em 1886, na cidade do Porto.",
         "A ponte não foi inaugurada no Porto em 1886."),
        ("zh", "渡轮冬天不停在岛上，不仅载人。", "渡轮载人，冬天不停在岛上。", "渡轮冬天停在岛上。"),
        ("zh", "渔民没有卖掉旧船。", "旧船渔民没有卖掉。", "渔民卖掉了旧船。"),
        ("ja", "渡し船は冬には島に寄りません。", "冬には渡し船は島に寄りません。", "渡し船は冬には島に寄ります。"),
        ("ja", "この橋は歩いて渡れない。", "歩いて渡れないのはこの橋です。", "この橋は歩いて渡れる。"),
        ("ja", "港には人が少ない。", "港には人が少ない。", "港には人が少なくはない。"),
        ("ru", "Мост не был продан городу.", "Городу мост не был продан.", "Мост был продан городу."),
    ],
)  # fmt: skip
def test_a_negation_in_the_language_of_the_documents_speaks_against_it(
    language: str, text: str, same: str, denied: str
) -> None:
    check = made(text, language=language)
    assert best(same, check=check)[0] > 0.5
    assert best(denied, check=check)[0] < 0.5


@pytest.mark.parametrize(
    ("text", "same", "denied"),
    [
        ("It is told to members who do not pay a fee.", "It is told to members who don't pay a fee.",
         "It is not told to members who do not pay a fee."),
        ("Visitors cannot enter the yard.", "Visitors never enter the yard.", "Visitors enter the yard."),
        ("The yard is not lit and not swept.", "The yard is not swept.", "The yard is not lit, and swept."),
    ],
)  # fmt: skip
def test_a_denial_that_both_share_speaks_for_no_other(text: str, same: str, denied: str) -> None:
    assert best(same, check=made(text))[0] > 0.5
    assert best(denied, check=made(text))[0] < 0.5


QUAY = made(
    "The quay of Alderby was built by Hanna Voss in 1902. It was repaired by Jon Aker in 1950, and is no longer used "
    "by ferries. It was not painted.",
    "Quay of Alderby",
)


@pytest.mark.parametrize(
    "right",
    [
        "Hanna Voss built the quay of Alderby in 1902.",
        "The quay of Alderby was repaired in 1950.",
        "The quay was built by Hanna Voss in 1902 and repaired by Jon Aker in 1950.",
        "Ferries no longer use the quay.",
        "It was never painted.",
    ],
)
def test_words_of_one_sentence_or_of_two_of_a_page_support_it_whatever_is_denied_beside_them(right: str) -> None:
    assert QUAY.together(claim := Claim(right, right), QUAY.scores(claim))[0] > 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        "The quay of Alderby was built by Jon Aker in 1902.",
        "The quay of Alderby was built by Hanna Voss in 1950.",
        "Jon Aker built the quay of Alderby in 1902.",
        "Alderby was built by Hanna Voss for the Moon Company in 1902.",
        "Brinkholm was built by Hanna Voss in 1902.",
        "The quay was not built by Hanna Voss in 1902.",
        "The quay is used by ferries.",
        "The repaired quay of Alderby in 1950 is pink.",
        "It was painted.",
    ],
)
def test_a_name_or_a_number_of_another_sentence_and_what_is_denied_do_not(wrong: str) -> None:
    assert QUAY.together(claim := Claim(wrong, wrong), QUAY.scores(claim))[0] < 0.5


def test_a_negation_in_a_name_denies_nothing() -> None:
    check = made('"Never Look Back" is a film of 1971 by Ada Kern.', "Never Look Back")
    assert best("Ada Kern made a film in 1971.", check=check)[0] > 0.5
    assert best('"Never Look Back" is a film by Ada Kern.', check=check)[0] > 0.5
    assert best('"Never Look Back" is not a film by Ada Kern.', check=check)[0] < 0.5


def test_what_a_passage_says_of_something_else_supports_nothing() -> None:
    text = "The Vltava is the longest river, at about 430 kilometres. It flows into the Elbe."
    check = made(text, "Vltava")
    assert best("The Elbe is approximately 430 kilometres long.", check=check)[0] < 0.5
    assert best("The Vltava is approximately 430 kilometres long.", check=check)[0] > 0.5


def test_one_word_in_common_is_not_enough() -> None:
    piers = made("The bridge rests on two piers.", "Bridge")
    assert best("I made up the rest.", check=piers)[0] < 0.5, "the stem of one word of two"
    assert best("That is all that rests there.", check=piers)[0] > 0.5, "the only word that says something"
    assert best("The bridge stands on piers.", check=piers)[0] > 0.5
    assert best("It was finished in 1889.")[0] > 0.5, "a number says more than a word"


def test_a_name_alone_supports_nothing_that_is_said_of_it() -> None:
    check = made(
        "The keeper was Anna Lindqvist Berg. She painted the lamp red. The tower is of stone. "
        "Anna Lindqvist Berg wrote three letters a day."
    )
    for said, supported in (
        ("Anna Lindqvist Berg played the violin.", False),
        ("Anna Lindqvist Berg was the keeper.", True),
        ("Anna Lindqvist Berg painted the lamp red.", True),
        ("Anna Lindqvist Berg built the tower of stone.", False),
        ("Anna Lindqvist Berg had three brothers.", False),
        ("Anna Lindqvist Berg wrote three letters.", True),
    ):
        claim = Claim(said, said)
        score, places = check.together(claim, check.scores(claim))
        assert (score >= 0.5) is supported, said
        assert not supported or any("Berg" in check.sentences[place].sentence for place in places)


def test_an_answer_without_a_word_that_says_something_is_not_supported() -> None:
    for said in ("It does.", "So be it.", "He"):
        assert best(said, "When was the Eiffel Tower completed?")[0] == 0.0, said


def test_a_short_answer_is_supported_where_it_stands_among_words_of_the_question() -> None:
    asked = "When was the Eiffel Tower completed?"
    assert best("1889", asked) == (1.0, "It was completed in 1889.")
    assert best("1883", asked)[0] < 0.5
    assert best("1901", asked)[0] == 0.0
    assert best("1889", "When?")[0] == 1.0, "a question without a word that says something"


def test_what_only_repeats_the_question_has_to_stand_there_whole() -> None:
    check = made("You see a project called “Welcome, [your name]!”. Bring a pen.", "First days")
    said, asked = "The name of the office dog is.", "What is the name of the office dog?"
    assert max(check.scores(Claim(said, said, asked, alone=False))) < 0.5
    said, asked = "The Brooklyn Bridge spans the East River.", "Does the Brooklyn Bridge span the East River?"
    assert max(CHECK.scores(Claim(said, said, asked, alone=False))) == 1.0


def test_two_sentences_of_linked_passages_support_what_neither_says_alone() -> None:
    clock = Passage(
        id="cook", title="James Cook", text="On his second voyage Cook tested a clock made by John Harrison."
    )
    maker = Passage(id="h", title="John Harrison", text="He was born in 1693 in Foulby, a village in Yorkshire.")
    other = Passage(id="b", title="Joseph Banks", text="He was born in London in 1743 and made voyages.")
    check = Lexical(evidence([clock, maker, other]))

    def together(said: str) -> tuple[float, set[int]]:
        claim = Claim(said, said)
        score, places = check.together(claim, check.scores(claim))
        return score, set(places)

    score, places = together("The maker of the clock that Cook tested on his second voyage was born in Foulby.")
    assert score > 0.5
    assert places == {0, 1}
    score, places = together("The maker of the clock that Cook tested on his second voyage was born in London.")
    assert places != {0, 2}, "the passage on Banks is not linked with the one on Cook"
    assert together("Cook tested a clock on his second voyage.")[1] == {0}, "one is enough"


@given(said=st.text(max_size=80), asked=st.text(max_size=40), texts=st.lists(st.text(max_size=120), max_size=3))
def test_scores_are_shares(said: str, asked: str, texts: list[str]) -> None:
    found = evidence([Passage(id=str(at), text=text) for at, text in enumerate(texts)])
    scores = Lexical(found).scores(Claim(said, said, asked, alone=len(said) % 2 == 0))
    assert len(scores) == len(found)
    assert all(0.0 <= score <= 1.0 for score in scores)


def test_a_yes_is_supported_where_the_passage_says_what_was_asked() -> None:
    said, question = "Yes.", "Was the Eiffel Tower completed in 1889?"
    (claim,) = claims(said, question)
    assert max(CHECK.scores(claim)) > 0.5
