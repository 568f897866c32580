"""Nine original questions and how an agent handled them: the source of the exemplars. None is from a benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from reground.methods.search_agent.actions import Past, ResultItem, Search, SelectLink, Terminate


@dataclass(frozen=True)
class Story:
    """A question, the actions, the answer, and the thoughts behind it."""

    question: str
    past: tuple[Past, ...]
    answer: str
    thoughts: str


VOLCANO = Story(
    "How high is the volcano that destroyed Pompeii?",
    (
        Search("volcano that destroyed Pompeii", "Let's first find out which volcano it was."),
        SelectLink(
            (ResultItem(1, "Pompeii", "Pompeii was a Roman town. Mount Vesuvius buried it in AD 79."),),
            "[link_id=1] says that Mount Vesuvius destroyed Pompeii.",
            "Now we need the height of Mount Vesuvius.",
        ),
        Search("Mount Vesuvius height", "We know the volcano. Its height is missing."),
        SelectLink(
            (ResultItem(4, "Mount Vesuvius", "Mount Vesuvius is a volcano near Naples, 1,281 m high."),),
            "[link_id=4] says that Mount Vesuvius is 1,281 m high.",
            "We have both facts.",
        ),
        Terminate("Both facts are known."),
    ),
    "Pompeii was destroyed by Mount Vesuvius [link_id=1], which is 1,281 m high [link_id=4].",
    "The first search gives the volcano, the second its height.",
)

CANALS = Story(
    "Which is longer, the Suez Canal or the Panama Canal?",
    (
        Search("Suez Canal length", "We need both lengths. Let's begin with the Suez Canal."),
        SelectLink(
            (
                ResultItem(
                    2, "Suez Canal", "The Suez Canal joins the Mediterranean and the Red Sea. It is 193 km long today."
                ),
            ),
            "[link_id=2] says that the Suez Canal is 193 km long.",
            "The length of the Panama Canal is missing.",
        ),
        Search("Panama Canal length", "One length is known. Now the other."),
        SelectLink(
            (ResultItem(6, "Panama Canal", "The Panama Canal is about 82 km long and has locks at both ends."),),
            "[link_id=6] says that the Panama Canal is about 82 km long.",
            "We can compare 193 km and 82 km.",
        ),
        Terminate("Both lengths are known."),
    ),
    "The Suez Canal is longer. It is 193 km long [link_id=2], the Panama Canal about 82 km [link_id=6].",
    "193 km is more than 82 km.",
)

EGGS = Story(
    "Can I freeze hard-boiled eggs?",
    (
        Search("freezing hard-boiled eggs", "The question is clear. Let's look it up as it is."),
        SelectLink(
            (
                ResultItem(
                    1, "Freezing eggs", "Cooked egg whites turn tough and watery when frozen. Cooked yolks freeze well."
                ),
                ResultItem(3, "How long eggs keep", "Hard-boiled eggs keep for one week in the refrigerator."),
            ),
            "[link_id=1] says that cooked whites turn tough and watery and that cooked yolks freeze well. "
            "[link_id=3] says that boiled eggs keep for a week in the refrigerator.",
            "This answers the question and gives an alternative.",
        ),
        Terminate("We know what becomes of whites and of yolks."),
    ),
    "Only the yolks. Cooked yolks freeze well, but cooked whites turn tough and watery [link_id=1]. "
    "In the refrigerator hard-boiled eggs keep for one week [link_id=3].",
    "The first result answers the question, the second gives an alternative.",
)

SUNSET = Story(
    "Why is the sky red at sunset?",
    (
        Search("why is the sky red at sunset", "Let's look for an explanation."),
        SelectLink(
            (
                ResultItem(
                    1,
                    "Rayleigh scattering",
                    "Air scatters short wavelengths such as blue more than long ones such as red.",
                ),
                ResultItem(
                    2,
                    "Sunset",
                    "Light from a low sun takes a long way through the air, which takes the blue out of it.",
                ),
            ),
            "[link_id=1] says that air scatters blue light more than red. "
            "[link_id=2] says that at sunset light takes a longer way through the air.",
            "Together these explain the colour.",
        ),
        Terminate("We have the whole explanation."),
    ),
    "Air scatters blue light more than red light [link_id=1]. At sunset the light takes a long way through the air, "
    "so that most of the blue is gone and the red is left [link_id=2].",
    "Both results together explain the colour.",
)

COMPOSER = Story(
    "At which school did the composer of The Planets teach for nearly thirty years?",
    (
        Search("composer of The Planets", "Let's first find out who the composer is."),
        SelectLink(
            (
                ResultItem(
                    1, "The Planets", "The Planets is an orchestral suite by Gustav Holst, written from 1914 to 1917."
                ),
            ),
            "[link_id=1] says that Gustav Holst composed The Planets.",
            "Now we need the school where he taught.",
        ),
        Search("The Planets school", "Let's look for the school."),
        SelectLink((), "Nothing is selected.", "The query was about planets. It should name Gustav Holst."),
        Search("Gustav Holst music teacher school", "Let's name the composer in the query."),
        SelectLink(
            (
                ResultItem(
                    7,
                    "Gustav Holst",
                    "Holst taught music at St Paul's Girls' School in London from 1905 until his death in 1934.",
                ),
            ),
            "[link_id=7] says that Holst taught at St Paul's Girls' School from 1905 to 1934.",
            "That is the school.",
        ),
        Terminate("The school is known."),
    ),
    "The Planets is by Gustav Holst [link_id=1]. He taught at St Paul's Girls' School in London from 1905 until 1934 "
    "[link_id=7].",
    "The first search gives the composer, the last one the school.",
)

INVENTORS = Story(
    "Were the inventors of dynamite and of the telephone born in the same country?",
    (
        Search("inventor of dynamite birthplace", "We need two birthplaces. Let's begin with dynamite."),
        SelectLink(
            (
                ResultItem(
                    2, "Alfred Nobel", "Alfred Nobel, the inventor of dynamite, was born in Stockholm, Sweden, in 1833."
                ),
            ),
            "[link_id=2] says that Alfred Nobel invented dynamite and was born in Sweden.",
            "Now the telephone.",
        ),
        Search("inventor of the telephone birthplace", "The other inventor is missing."),
        SelectLink(
            (
                ResultItem(
                    5,
                    "Alexander Graham Bell",
                    "Alexander Graham Bell, who patented the telephone in 1876, was born in Edinburgh, Scotland.",
                ),
            ),
            "[link_id=5] says that Alexander Graham Bell patented the telephone and was born in Scotland.",
            "We can compare Sweden and Scotland.",
        ),
        Terminate("Both birthplaces are known."),
    ),
    "No. Alfred Nobel, the inventor of dynamite, was born in Sweden [link_id=2], and Alexander Graham "
    "Bell, who patented "
    "the telephone, was born in Scotland [link_id=5].",
    "Sweden and Scotland are different countries, so the answer is no.",
)

LIGHTHOUSE = Story(
    "What did the first keepers of Smeaton's lighthouse earn?",
    (
        Search("Smeaton's lighthouse keepers wages", "Let's look for the wages of the keepers."),
        SelectLink((), "Nothing is selected.", "None of the results is about wages. Let's try broader words."),
        Search("Smeaton's Tower history", "A history of the tower may mention wages."),
        SelectLink(
            (
                ResultItem(
                    4,
                    "Smeaton's Tower",
                    "Smeaton's Tower, the third lighthouse on the Eddystone Rocks, was lit in 1759.",
                ),
            ),
            "[link_id=4] says that the lighthouse was lit in 1759. It says nothing about wages.",
            "The wages do not seem to be in the documents.",
        ),
        Terminate("Two searches found no wages. More of them would not help."),
    ),
    "The search results do not say what its first keepers earned. They say only that it was lit in 1759 [link_id=4].",
    "The wages were not found. We say so and give what was found.",
)

CURRENCY = Story(
    "What is the currency of the country with the highest mountain in Africa?",
    (
        Search("highest mountain in Africa country", "Let's first find the mountain and its country."),
        SelectLink(
            (ResultItem(1, "Kilimanjaro", "Kilimanjaro in Tanzania is the highest mountain in Africa."),),
            "[link_id=1] says that the highest mountain in Africa is Kilimanjaro in Tanzania.",
            "Now we need the currency of Tanzania.",
        ),
        Search("currency of Tanzania", "The country is Tanzania. Its currency is missing."),
        SelectLink(
            (
                ResultItem(
                    3,
                    "Tanzanian shilling",
                    "The shilling is the currency of Tanzania. It took the place of the East African shilling in 1966.",
                ),
            ),
            "[link_id=3] says that the currency of Tanzania is the shilling, since 1966.",
            "That is the answer.",
        ),
        Terminate("Country and currency are known."),
    ),
    "The highest mountain in Africa is Kilimanjaro in Tanzania [link_id=1], where the Tanzanian "
    "shilling is the currency "
    "[link_id=3].",
    "The first search gives the country, the second its currency.",
)

WAX = Story(
    "How do I get candle wax out of a carpet?",
    (
        Search("remove candle wax from carpet", "The question is a good query, a little shortened."),
        SelectLink(
            (
                ResultItem(
                    1,
                    "Removing wax",
                    "Scrape off the hard wax. Lay paper over the rest and warm it with an iron: the paper takes it up.",
                ),
            ),
            "[link_id=1] says to scrape off the hard wax and to draw the rest into paper with a warm iron.",
            "This is a full instruction.",
        ),
        Terminate("We know what to do."),
    ),
    "Scrape off the hard wax. Then lay paper over the rest and warm it with an iron, so that the paper "
    "takes it up [link_id=1].",
    "The result is an instruction. We put it into order.",
)
