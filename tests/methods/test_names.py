"""Names in passages, and replies that can only be some of them."""

from __future__ import annotations

import pytest

from reground.app.catalogue import build_method
from reground.core.answers import PHRASE
from reground.core.errors import CapabilityError
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.methods.grounded import read_names
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.text.sentences import names_in
from tests.methods.helpers import by_job

TEXT = (
    "The album left Apple Records. The band's singer, Pete Ham, was born in St. Mary's Hospital, Swansea. During World "
    "War II he lived in the city of New York; during 1947 J. K. Smith met him. It is the band of Wales."
)


def passage(text: str, title: str = "") -> Passage:
    return Passage(id=title or "p", title=title, text=text)


def test_names_stand_in_one_sentence_without_first_words_that_are_common() -> None:
    found = names_in([TEXT])
    assert found[:2] == ["Apple Records", "Pete Ham"]
    assert {"Swansea", "World War II", "New York", "J. K. Smith", "Wales"} <= set(found)
    assert not {"The", "During", "It"} & {name.split()[0] for name in found}


def test_titles_that_were_read_are_left_out_and_no_name_comes_twice() -> None:
    assert names_in(["Wales met WALES and Swansea."], without=["swansea"]) == ["Wales"]
    assert names_in(["維也納是首都。"]) == []
    many = " and ".join(f"x Town{number}a" for number in range(200))
    assert len(names_in([many])) == 64


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        ("Wales; New York", ["Wales", "New York"]),
        ('{"names": ["new york", "London"]}', ["New York"]),
        ("- **Wales**\n- Wales", ["Wales"]),
        ("The capital of Wales", []),
        ('{"names": "Wales"}', []),
        ("", []),
    ],
)
def test_what_was_not_offered_is_no_name(reply: str, names: list[str]) -> None:
    assert read_names(reply, ["New York", "Wales"]) == names


PASSAGES = [
    passage("The river of Vienna is the Danube. It is long.", "Vienna"),
    passage("The Danube flows to the Black Sea.", "Danube"),
    passage("Paris lies on the Seine.", "Paris"),
]
QUESTION = "Where does the river of Vienna end?"


@pytest.mark.parametrize("said", ["Danube", '{"names": ["Danube", "Rhine"]}', "Danube; Atlantis"])
async def test_the_next_query_holds_only_names_that_were_read(said: str) -> None:
    model, found = by_job({"whose pages": said, "": "Black Sea"}), ScriptedRetriever(PASSAGES)
    method = build_method(
        "grounded", model=model, retriever=found, form=PHRASE, settings={"bridge": "named", "k": 1, "max_rounds": 1}
    )
    await method.solve(QUESTION, Run())
    assert found.queries == [QUESTION, "Danube"]
    asked = [sampling.grammar for messages, sampling in model.calls if "whose pages" in messages[-1].content]
    assert '"Danube"' in asked[0].gbnf  # type: ignore[union-attr]


async def test_a_model_without_grammars_is_asked_for_any_and_those_that_were_read_count() -> None:
    def reply(messages, sampling):
        if sampling.grammar is not None:
            return CapabilityError("no grammars here", lacks="grammar")
        return "Danube" if "whose pages" in messages[-1].content else "Black Sea"

    found = ScriptedRetriever(PASSAGES)
    method = build_method(
        "grounded", model=ScriptedModel(reply), retriever=found, form=PHRASE,
        settings={"bridge": "named", "k": 1, "max_rounds": 1},
    )  # fmt: skip
    await method.solve(QUESTION, Run())
    assert found.queries == [QUESTION, "Danube"]
