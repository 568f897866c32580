"""What a claim is compared with: rows with their keys and columns, entries with their names, sentences with their
headings and introductions."""

from __future__ import annotations

import pytest

from reground.core.evidence import Passage
from reground.support.lexical import Lexical, claims
from reground.support.units import Evidence, evidence

RELEASES = (
    "version: 3.1; codename: Sarge; created: 2002-07-19; release: 2005-06-06\n\n"
    "version: 4.0; codename: Etch; created: 2005-06-06; release: 2007-04-08"
)
DEPOTS = "| Depot | Trucks | Region |\n|---|---:|---|\n| Birkholm | 22 | Northland |\n| Aldby | 14 | Southland |"
OPEN = "Depot | Trucks\n----- | ------\nBirkholm | 22\nAldby | 14"
SETTINGS = (
    "# Settings\n\n.. setting:: max_cookie_size\n\n   Defaults to ``4093``.\n\n.. setting:: session_lifetime\n\n"
    "   How long a session lives.\n   Defaults to ``31``."
)
MANUAL = "### `worker_count`\n\nThe default is `3`.\n\n### `queue_size`\n\nThe default is `500`."
FUNCTIONS = (
    ".. function:: sail(boat, *, crew=2)\n\n   Return the 12 largest boats.\n\n"
    ".. function:: moor(boat, quay=None)\n\n   Return the 40 largest boats."
)
MAILS = (
    "From: ada@harbour.example To: ferry@harbour.example Date: 24 Apr 2019\n\nFrom: bo@harbour.example To: "
    "crane@harbour.example Date: 2 May 2020"
)


def units(text: str) -> list[Evidence]:
    return evidence([Passage(id="p", title="page", text=text)])


def supported(text: str, answer: str, question: str = "") -> bool:
    check = Lexical(units(text))
    return check.together(claim := claims(answer, question)[0], check.scores(claim))[0] >= 0.5


@pytest.mark.parametrize(
    ("text", "question", "right", "wrong"),
    [
        (RELEASES, "When was Sarge released?", "Sarge was released on 2005-06-06.",
         "Sarge was released on 2007-04-08."),
        (RELEASES, "When was Sarge released?", "June 6, 2005", "8 April 2007"),
        (RELEASES, "Which version is Etch?", "Etch is version 4.0.", "Etch is version 3.1."),
        (DEPOTS, "How many trucks has Birkholm?", "Birkholm has 22 trucks.", "Birkholm has 14 trucks."),
        (DEPOTS, "In which region is Aldby?", "Southland", "Northland"),
        (f"Trucks by depot:\n{DEPOTS}", "", "Birkholm has 22 trucks.", "Birkholm has 14 trucks."),
        (OPEN, "", "Aldby has 14 trucks.", "Aldby has 22 trucks."),
        ("Jib:: 31 m tall\nMast:: 44 m tall", "", "The mast is 44 m tall.", "The jib is 44 m tall."),
        ("[north]\nload_t = 12\n\n[south]\nload_t = 18", "", "load_t of south is 18.", "load_t of south is 12."),
        ("SEA_GATE = 6\nDAM_GATE = 9", "", "DAM_GATE is 9.", "DAM_GATE is 6."),
        ("May 3 10:15:01 B-1 rose 14 m\nMay 3 10:15:09 B-2 rose 77 m", "", "B-2 rose 77 m.", "B-2 rose 14 m."),
        ("طول الجسر ١٢٤ متراً.", "", "طول الجسر 124 متراً.", "طول الجسر 224 متراً."),
        ("The mast weighs 1\u2009250 kg.", "", "The mast weighs 1,250 kg.", "The mast weighs 250 kg."),
        ("Bitt\n: A post\n\nCleat\n: A bar of iron", "", "A cleat is a bar of iron.", "A bitt is a bar of iron."),
        (SETTINGS, "What is the default of max_cookie_size?", "max_cookie_size defaults to 4093.",
         "max_cookie_size defaults to 31."),
        (SETTINGS, "What does session_lifetime default to?", "31", "4093"),
        (MANUAL, "What is the default of queue_size?", "The default of queue_size is 500.",
         "The default of queue_size is 3."),
        (FUNCTIONS, "", "sail returns the 12 largest boats.", "moor returns the 12 largest boats."),
        (FUNCTIONS, "", "page.moor returns the 40 largest boats.", "page.sail returns the 40 largest boats."),
        (MAILS, "When was the mail to ferry@harbour.example sent?",
         "The mail to ferry@harbour.example was sent on 24 April 2019.",
         "The mail to ferry@harbour.example was sent on 2 May 2020."),
    ],
)  # fmt: skip
def test_a_value_of_another_row_or_entry_supports_nothing(text: str, question: str, right: str, wrong: str) -> None:
    assert supported(text, right, question)
    assert not supported(text, wrong, question)


WELLS = "Well | Depth | Yield\n\nWell: Sande; Depth: 41; Yield: 3\n\nWell: Hollem; Yield: 9.00"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("The yield of the well Sande is 3.", "The yield of the well Sande is 41."),
        ("The depth of the well Sande is 41 and its yield 3.", "The depth of the well Sande is 3."),
        ("The yield of the well Hollem is 9.", "The depth of the well Hollem is 9."),
        ("Sande is a well of 41 m.", "Sande has a depth of 3 m."),
    ],
)
def test_a_number_of_another_column_supports_nothing(right: str, wrong: str) -> None:
    assert supported(WELLS, right)
    assert not supported(WELLS, wrong)


def test_a_row_that_says_no_denies_nothing() -> None:
    text = "country: Norway; income: 4102; oil: no\n\ncountry: Yemen; income: 77; oil: no"
    assert not supported(text, "The oil of Norway is yes.")
    assert supported(text, "The income of Norway is 4102.")
    assert not supported(text, "The income of Norway is 77.")


def test_a_row_with_a_name_in_small_letters_is_told_from_others_without_a_question() -> None:
    text = "animal: red fox; brain: 50; body: 4\n\nanimal: grey wolf; brain: 119; body: 36\n\nanimal: hare; body: 50"
    assert supported(text, "The brain of the grey wolf is 119.")
    assert not supported(text, "The brain of the grey wolf is 50.")
    assert not supported(text, "The body of the grey wolf is 50.")


@pytest.mark.parametrize(
    "text",
    [
        "The variable is set by\n`FLASK_APP` and read\n[at the start] of the\n:ref:`server`, not later.",
        "- The berth fee is\n  38 crowns a night,\n  *harbour dues* included.",
        "Write to\n<office@harbour.example>\nor call\n+45 1234.",
    ],
)
def test_a_line_that_begins_with_markup_goes_on_with_its_sentence(text: str) -> None:
    assert [each.sentence for each in units(text)] == [" ".join(text.split())]


@pytest.mark.parametrize(
    ("text", "sentence", "subject", "key"),
    [
        ("Crane\n=====\n\nLoads\n-----\n\nIt lifts 740 kg.", "It lifts 740 kg.", "Crane Loads", ""),
        ("== Crane\n\n=== Loads\n\nIt lifts 740 kg.", "It lifts 740 kg.", "Crane Loads", ""),
        ("The crane lifts:\n\n- 740 kg alone\n- 990 kg with a jib", "- 990 kg with a jib", "The crane lifts:", ""),
        ("jib length\n    Twelve metres.\n\nmast\n    Steel.", "Steel.", "mast", "mast"),
        ("north:\n  load: 5\nsouth:\n  load: 8\n  rope: 9", "load: 8", "south:", "south:"),
        (".. data:: LIMIT\n\n   Defaults to 5.\n\nAll are numbers.", "Defaults to 5.", ".. data:: LIMIT", "LIMIT"),
        (".. data:: LIMIT\n\n   Defaults to 5.\n\nAll are numbers.", "All are numbers.", "", ""),
        (".. method:: Gate.open(by=1,\n\n   Opens it.", "Opens it.", ".. method:: Gate.open(by=1,", "Gate.open"),
        (".. note:: Gates (all)\n\n   Open.", "Open.", ".. note:: Gates (all)", ""),
        ("## `open_gate`\n\nOpens it.", "Opens it.", "`open_gate`", "`open_gate`"),
        ("`LIMIT`\n: Of gates. Default: 5.", "Default: 5.", "`LIMIT`", "`LIMIT`"),
        ("- `LIMIT`: of gates. It is 5.", "It is 5.", "`LIMIT`", "`LIMIT`"),
        ("**Jib:** an arm. It is long.", "It is long.", "**Jib:**", ""),
        ("- An arm: `LIMIT`. It is 5.", "It is 5.", "", ""),
    ],
)
def test_a_sentence_has_what_it_stands_under_as_its_subject(text: str, sentence: str, subject: str, key: str) -> None:
    unit = next(each for each in units(text) if each.sentence == sentence)
    assert (unit.subject, unit.key) == (subject, key)


def test_code_and_tables_keep_their_lines() -> None:
    assert [each.sentence for each in units("```\nopen()\nclose()\n```")] == ["open()", "close()"]
    assert [each.sentence for each in units(DEPOTS)] == [line for line in DEPOTS.split("\n") if "---" not in line]
    assert units(DEPOTS)[1].cells == (("Depot", "Birkholm"), ("Trucks", "22"), ("Region", "Northland"))


@pytest.mark.parametrize("said", ["This can be found in the passage [4].", "See [2].", "It stands in source [1]."])
def test_a_sentence_that_only_says_where_something_stands_claims_nothing(said: str) -> None:
    assert claims(said, "What is the fee?")[0].statement == ""


@pytest.mark.parametrize("said", ["It opened in 1883 [1].", "The fee is 38 crowns, as said in [2].", "It is red [1]."])
def test_a_sentence_that_says_more_is_a_claim(said: str) -> None:
    assert claims(said, "What is the fee?")[0].statement
