"""What documents say of anybody's answer, claim by claim."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reground.core.errors import RegroundError
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.core.trajectory import Pair
from reground.retrieval.scripted import ScriptedRetriever
from reground.support.verdicts import MOST_CHARACTERS, Checked, Verdict, verdicts

DANUBE = Passage(
    id="danube.md", title="Danube", url="danube.md", text="The Danube flows through Vienna. It is 2850 km long."
)
SEINE = Passage(id="seine.md", title="Seine", url="seine.md", text="The Seine flows through Paris. It is 775 km long.")


async def checked(answer: str, *passages: Passage, question: str = "") -> list[Checked]:
    said = await verdicts(answer, ScriptedRetriever(passages or [DANUBE, SEINE]), question=question)
    assert "".join(each.text for each in said) == answer
    return said


async def test_each_claim_is_searched_for_and_tied_to_what_says_it() -> None:
    said = await checked("# Rivers\n\nThe Danube is 2850 km long. It carries gold dust from distant mountains.")
    assert [each.verdict for each in said] == [Verdict.NO_CLAIM, Verdict.SUPPORTED, Verdict.NOT_FOUND]
    assert [(each.quote, each.url) for each in said[1].evidence] == [("It is 2850 km long.", "danube.md")]


async def test_what_an_answer_repeats_is_searched_for_once_and_progress_is_told() -> None:
    retriever, told = ScriptedRetriever([DANUBE]), list[tuple[int, int]]()
    said = await verdicts("The Danube is long.\n" * 9, retriever, progress=lambda *each: told.append(each))
    assert (len(said), len(retriever.queries), told) == (9, 1, [(1, 1)])


@pytest.mark.parametrize("answer", ["A fact. " * MOST_CHARACTERS, " ".join(f"Fact {at} is so." for at in range(9000))])
async def test_an_answer_that_is_too_long_ends_in_one_line_before_any_search(answer: str) -> None:
    retriever = ScriptedRetriever([DANUBE])
    with pytest.raises(RegroundError, match="check it in parts"):
        await verdicts(answer, retriever)
    assert not retriever.queries


QUAY = Passage(
    id="docs/quay.md",
    title="Quay of Alderby",
    url="docs/quay.md",
    text="# Quay\n\nThe quay of Alderby was opened by Hanna Voss on 3 May 1902. It is 240 metres long and holds about "
    "40 boats. The berth fee is 38 crowns a night, and at most 12 weeks can be booked. Dogs are not allowed on the "
    "quay. Hanna Voss was born in 1861. Fees rise by 5.25% more in summer, and brought 2.5 million crowns. Loads must "
    "not exceed 870 kg. The old chains are no longer kept. The season, which may be wet, ends on 31 March."
    "\n\n| Crane | Load | Year |\n|---|---|---|\n| North | 740 kg | 1911 |\n"
    "| South | 990 kg | 1934 |",
)
MAST = Passage(
    id="mast.md",
    title="Notes",
    text="A mast has at most 8 ropes. Sails must not have fewer than 3 rings. Stays of more than 5 days are not "
    "allowed. Guests may only enter with a token. Wait until the lamp is off, then open the lid. Karten gibt es unter "
    "karten.example. The yard is shut every day apart from Monday. The choir has thirty-one singers. Der Chor hat "
    "zweiundfünfzig Sänger. A crew has 3-12 rowers. The plank is ½ inch thick. The walk takes 2 1/2 hours. The hall "
    "holds 45,000 tiles. The mine gave 1 250 375 tons. In 2019 300 boats came. Take one or two tablets at night.",
)
DENIED = ["Dogs are allowed on the quay.", "The berth fee is not 38 crowns a night.", "The old chains are still kept."]


@pytest.mark.parametrize(
    ("claim", "difference"),
    [
        ("The quay of Alderby is 260 metres long.", ("260", "240")),
        ("The quay of Alderby was opened by Hanna Voss on 3 June 1902.", ("1902-06-03", "1902-05-03")),
        ("The quay of Alderby was opened by Jon Aker on 3 May 1902.", ("Jon Aker", "Hanna Voss")),
        ("At most 12 months can be booked at the quay.", ("months", "weeks")),
        ("At the quay at most forty weeks can be booked.", ("40", "12")),
        ("The load of the crane South is 740 kg.", ("740", "990 kg")),
        ("The season ends on 31 May.", ("May", "March")),
        ("| Crane | Load |\n|---|---|\n| North | 990 kg |", ("990", "740 kg")),
    ],
)
async def test_the_same_thing_with_another_value_is_contradicted_by_what_the_document_says(
    claim: str, difference: tuple[str, str]
) -> None:
    last = (await checked(claim, QUAY, DANUBE))[-1]
    assert (last.verdict, last.difference, len(last.evidence)) == (Verdict.CONTRADICTED, difference, 1)


@pytest.mark.parametrize("claim", DENIED)
async def test_what_only_one_of_both_denies_is_contradicted(claim: str) -> None:
    (said,) = await checked(claim, QUAY, DANUBE)
    assert (said.verdict, len(said.evidence), said.difference is None) == (Verdict.CONTRADICTED, 1, False)


ORDE = Passage(
    id="orde.md",
    title="Orde",
    text="The Orde rises in the Pilau Hills, and below Alderby it flows into the Vessel. The mills paid for the weir: "
    "Aker gave 900 crowns, Brunn 750 crowns and Vik 400 crowns.",
)


@pytest.mark.parametrize(
    ("claim", "difference"),
    [
        ("The Vessel flows into the Orde.", ("Orde", "Vessel")),
        ("For the weir Brunn gave 900 crowns.", ("900", "750")),
        ("Vik gave 750 crowns for the weir.", ("750", "400")),
    ],
)
async def test_what_a_sentence_says_of_another_thing_in_it_is_contradicted(
    claim: str, difference: tuple[str, str]
) -> None:
    assert [(each.verdict, each.difference) for each in await checked(claim, ORDE)] == [
        (Verdict.CONTRADICTED, difference)
    ]


BERTHS = Passage(
    id="berths.csv",
    title="berths",
    text="vessel: cruise ship; length_m: 350; fee_per_day_eur: 4800.00\n\nvessel: ferry; length_m: 120; "
    "discount_percent: 15; fee_per_day_eur: 900.00",
)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("A ferry pays a fee of 900.00 euros per day.", Verdict.SUPPORTED),
        ("The length of a ferry is 120 metres.", Verdict.SUPPORTED),
        ("A ferry pays a fee of 900.00 dollars per day.", Verdict.NOT_FOUND),
        ("The length of a ferry is 120 feet.", Verdict.NOT_FOUND),
        ("A ferry has a discount of 120 percent.", Verdict.NOT_FOUND),
    ],
)
async def test_a_number_has_the_unit_of_its_column(claim: str, verdict: Verdict) -> None:
    assert [each.verdict for each in await checked(claim, BERTHS)] == [verdict]


@pytest.mark.parametrize(
    "claim", ["The Orde flows into the Vessel.", "Aker gave 900 crowns and Brunn 750 crowns.", "Vik gave 400 crowns."]
)
async def test_what_a_sentence_says_of_that_thing_among_others_is_supported(claim: str) -> None:
    assert [each.verdict for each in await checked(claim, ORDE)] == [Verdict.SUPPORTED]


@pytest.mark.parametrize(
    "claim",
    [
        "Hanna Voss died in 1930.",
        "The quay of Alderby was repaired in 1950.",
        "The quay of Alderby holds at least 30 boats.",
        "Brinkholm has a quay of 300 metres.",
        "The crane of the harbour office lifts 500 kg.",
        "The Seine is 775 km long.",
        "About 12 million people visit it every year, and 40 of them wait for the lift.",
    ],
)
async def test_another_fact_on_the_same_thing_or_another_thing_is_not_found(claim: str) -> None:
    assert [each.verdict for each in await checked(claim, QUAY, DANUBE)] == [Verdict.NOT_FOUND]


@pytest.mark.parametrize(
    "claim",
    [
        "The Danube is 2,850 km long.",
        "The Danube is 2850 kilometres long.",
        "The quay opened in May 1902.",
        "The quay of Alderby is 240 meters long.",
        "On May 3, 1902, Hanna Voss opened the quay of Alderby.",
        "Dogs aren't allowed on the quay.",
        "The crane North lifts a load of 740 kg.",
        "You can book twelve weeks at most.",
        "The fees rise by 5.25 percent more in summer.",
        "In summer the fees rise by 5,25 % more.",
        "The fees brought 2,500,000 crowns.",
        "Loads are at most 870 kg.",
        "A mast cannot have more than 8 ropes.",
        "Sails have at least 3 rings.",
        "Stays may last at most 5 days.",
        "Guests must have a token to enter.",
        "Open the lid after the lamp is off.",
        "Karten gibt es über karten.example.",
        "The yard is shut every day except Monday.",
        "The choir has 31 singers.",
        "Der Chor hat 52 Sänger.",
        "A crew has 3 to 12 rowers.",
        "The plank is 0.5 inch thick.",
        "The walk takes 2½ hours.",
        "The hall holds 45 000 tiles.",
        "The mine gave 1,250,375 tons.",
        "300 boats came in 2019.",
        "Take 1 or 2 tablets at night.",
    ],
)
async def test_what_is_written_otherwise_is_supported(claim: str) -> None:
    assert [each.verdict for each in await checked(claim, QUAY, DANUBE, MAST)] == [Verdict.SUPPORTED]


YARD = """Moor your boat before you pay. Boats over 12 tons pay double. Some cranes are checked weekly. Guests may use
the slip. Returns are free, except for ropes that were cut. The north gate is closed at night. The keeper
pays for oil, and the owner for coal. Each berth gets 60 litres a day. In winter the sluice stays open at
noon. The oil must stay above -12 degrees. The lowest reading was 7.5 mm. The tank holds 3¾ barrels."""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Before you pay, moor your boat.", "Moor your boat after you pay."),
        ("Boats pay double if they are over 12 tons.", "Boats under 12 tons pay double."),
        ("Some of the cranes are checked weekly.", "All cranes are checked weekly."),
        ("The slip may be used by guests.", "Guests have to use the slip."),
        ("The oil must stay above −12 degrees.", "The oil must stay above 12 degrees."),
        ("7.5 mm was the lowest reading.", "The lowest reading was −7.5 mm."),
        ("The tank holds 3 3/4 barrels.", "The tank holds 3 barrels."),
        ("Returns are free.", "Returns are free for ropes that were cut."),
    ],
)
async def test_an_opposite_bound_order_number_or_duty_supports_nothing(right: str, wrong: str) -> None:
    said = await checked(f"{right} {wrong}", Passage(id="yard.md", title="Yard", text=YARD))
    assert [each.verdict is Verdict.SUPPORTED for each in said] == [True, False]


async def test_a_pronoun_means_what_stands_before_it_and_a_list_what_it_stands_under() -> None:
    said = await checked("The quay of Alderby lies in the south. It is 775 km long.", QUAY, SEINE)
    assert said[1].verdict is not Verdict.SUPPORTED
    retriever = ScriptedRetriever([QUAY, SEINE])
    said = await verdicts("## Alderby\n\nThe cranes lift:\n\n- North: 740 kg load\n- South: 740 kg load\n", retriever)
    assert [each.verdict for each in said[2:]] == [Verdict.SUPPORTED, Verdict.CONTRADICTED]
    assert "Alderby The cranes lift: North: 740 kg load" in retriever.queries


async def test_a_sentence_that_goes_on_in_the_next_line_is_one_claim() -> None:
    answer = "The quay of Alderby, which lies in the south, was opened by\nHanna Voss on 3 May 1902.\n"
    assert len(await checked(answer, QUAY)) == 1
    assert len(await checked(f"> {answer}".replace("by\n", "by\n> "), QUAY)) == 1


@pytest.mark.parametrize(
    ("cite", "verdict"),
    [
        ("[1].", Verdict.SUPPORTED),
        ("[2].", Verdict.ELSEWHERE),
        ("[2, 1].", Verdict.SUPPORTED),
        ("[^n].", Verdict.ELSEWHERE),
        (". [2]", Verdict.ELSEWHERE),
        ("[7].", Verdict.SUPPORTED),
        ("(see [the quay](docs/quay.md#fees)).", Verdict.ELSEWHERE),
        ("(danube.md).", Verdict.SUPPORTED),
        ("(quay.md).", Verdict.ELSEWHERE),
        ("(https://example.org/rivers).", Verdict.SUPPORTED),
        ("(os.path).", Verdict.SUPPORTED),
    ],
)
async def test_support_in_another_document_than_the_one_that_is_cited_is_told(cite: str, verdict: Verdict) -> None:
    sources = "\n\nSources:\n\n[1] Danube, danube.md\n[2] Quay of Alderby\n[^n]: docs/quay.md\n"
    said = await checked(f"The Danube is 2850 km long {cite}{sources}", QUAY, DANUBE)
    assert (said[0].verdict, said[0].evidence[0].passage_id) == (verdict, "danube.md")
    assert bool(said[0].cites) and all(each.strip("[]") in cite for each in said[0].cites)
    assert {each.verdict for each in said[1:]} == {Verdict.NO_CLAIM}


async def test_a_judge_decides_in_place_of_words() -> None:
    class No:
        name = "no"

        async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
            return [0.0] * len(pairs)

    said = await verdicts("The Danube is 2850 km long.", ScriptedRetriever([DANUBE]), judge=No())
    assert [(each.verdict, each.score) for each in said] == [(Verdict.NOT_FOUND, 0.0)]


@pytest.mark.parametrize(
    ("language", "text", "right", "wrong"),
    [
        ("de", "Der Fährhafen hat 1.250 Liegeplätze. Er wurde 1902 eröffnet.", "Der Fährhafen hat 1250 Liegeplätze.",
         "Der Fährhafen hat 1350 Liegeplätze."),
        ("de", "Der Fährhafen wurde am 3. Mai 1902 eröffnet.", "Eröffnet wurde der Fährhafen am 3. Mai 1902.",
         "Der Fährhafen wurde am 3. Juni 1902 eröffnet."),
        ("ja", "港の長さは240メートルです。1902年に開かれました。", "港の長さは240メートルです。",
         "港の長さは260メートルです。"),
        ("zh", "码头长240米。码头于1902年开放。", "码头于1902年开放。", "码头于1911年开放。"),
        ("de", "Der Fährhafen hat sieben Kräne.", "Der Fährhafen hat 7 Kräne.", "Der Fährhafen hat neun Kräne."),
        ("zh", "码头有二百五十个泊位。", "码头有250个泊位。", "码头有三百五十个泊位。"),
        ("zh", "码头1902年由工程师吴立国设计。", "工程师吴立国1902年设计了码头。", "码头1902年由工程师郑明辉设计。"),
        ("ja", "港には船が二百五十隻あります。", "港には250隻の船があります。", "港には船が三百五十隻あります。"),
        ("ja", "渡し船は函館と青森を結びます。", "函館と青森を渡し船は結びます。", "渡し船は函館と根室を結びます。"),
    ],
)  # fmt: skip
async def test_answers_in_the_language_of_the_documents(language: str, text: str, right: str, wrong: str) -> None:
    retriever = ScriptedRetriever([Passage(id="p", text=text)])
    for answer, verdict in ((right, Verdict.SUPPORTED), (wrong, Verdict.CONTRADICTED)):
        assert [each.verdict for each in await verdicts(answer, retriever, language=language)] == [verdict]


REPLY = Passage(
    id="reply.eml",
    title="Re: Crane",
    text="From: Bo Lund <bo@quay.example> To: Cy Roth <cy@quay.example> Date: 6 May 2024\n\nHi Cy,\n\n"
    "we pay 7,100 euros for the crane.\n\nOn 3 May Ada Kern wrote:\n> Hi Bo,\n>\n"
    "> our price for the crane is 9,400 euros.",
)


@pytest.mark.parametrize(
    ("claim", "supported"),
    [
        ("Ada Kern wrote that the price for the crane is 9,400 euros.", True),
        ("Bo Lund will pay 7,100 euros for the crane.", True),
        ("Bo Lund will pay 9,400 euros for the crane.", False),
        ("Ada Kern will pay 7,100 euros for the crane.", False),
    ],
)
async def test_what_a_mail_quotes_is_not_said_by_its_sender(claim: str, supported: bool) -> None:
    assert [each.verdict is Verdict.SUPPORTED for each in await checked(claim, REPLY)] == [supported]


CODE = "```python\nfor river in rivers:\n    print(river)\n```\n"


@pytest.mark.parametrize("answer", ["", " \n", "...", "Which river?", "I hope this helps!", CODE])
async def test_what_claims_nothing_is_not_searched_for(answer: str) -> None:
    assert all(each.verdict is Verdict.NO_CLAIM for each in await checked(answer))


async def test_a_short_answer_is_supported_where_the_question_is_about_or_one_link_further() -> None:
    passages = [
        Passage(id="hyder", title="Charles Hyder", text="Charles Hyder, a physicist, was born in Albuquerque."),
        Passage(id="smith", title="John Smith", text="John Smith was born in the city of London."),
        Passage(id="jaws", title="Jaws", text="Jaws is a film whose director was Steven Spielberg."),
        Passage(id="spielberg", title="Steven Spielberg", text="Steven Spielberg was born in the city of Cincinnati."),
    ]
    for question, answer, verdict in (
        ("In what city was Charles Hyder born?", "London", Verdict.NOT_FOUND),
        ("In what city was Charles Hyder born?", "Albuquerque", Verdict.SUPPORTED),
        ("In what city was the director of the film Jaws born?", "Cincinnati", Verdict.SUPPORTED),
        ("In what city was a scientist born?", "London", Verdict.SUPPORTED),
    ):
        (said,) = await checked(answer, *passages, question=question)
        assert (question, answer, said.verdict) == (question, answer, verdict)
