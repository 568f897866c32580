"""The worked examples of each step: 9 for decisions, 6 for summaries, 5 for answers, 6 and 5 for the two self-checks.

The shortest common case comes first, because short prompts show only that one. If a step has two kinds of action, its
first two examples show both.
"""

from __future__ import annotations

from dataclasses import dataclass

from reground.methods.search_agent.actions import (
    Action,
    CheckAnswer,
    GivenAnswer,
    LinkSelection,
    ResultItem,
    ReviseAnswer,
    Search,
    SelectLink,
    Terminate,
)
from reground.methods.search_agent.stories import (
    CANALS,
    COMPOSER,
    CURRENCY,
    EGGS,
    INVENTORS,
    LIGHTHOUSE,
    SUNSET,
    VOLCANO,
    WAX,
    Story,
)
from reground.methods.search_agent.view import View


@dataclass(frozen=True)
class Exemplar:
    """A state, and a good reply to it: its comments and its action."""

    view: View
    action: Action
    comments: tuple[str, ...] = ()


def _decide(story: Story, done: int, *, remaining: int) -> Exemplar:
    """The decision that the story takes after `done` actions."""
    action = story.past[done]
    if not isinstance(action, Search | Terminate):
        raise TypeError("a decision is a search or an end")
    return Exemplar(View(story.question, story.past[:done], remaining=remaining), action)


def _summarise(story: Story, done: int, others: tuple[ResultItem, ...], *comments: str) -> Exemplar:
    """The selection that the story makes after `done` actions, from its links and `others`."""
    selected = story.past[done]
    if not isinstance(selected, SelectLink):
        raise TypeError("a selection is a SelectLink")
    results = tuple(sorted((*selected.selected_links, *others), key=lambda link: link.link_id))
    ids = tuple(link.link_id for link in selected.selected_links)
    action = LinkSelection(selected.grounded_summarization, ids, selected.thoughts)
    return Exemplar(View(story.question, story.past[:done], results=results), action, comments)


def _answer(story: Story) -> Exemplar:
    return Exemplar(View(story.question, story.past), GivenAnswer(story.answer, story.thoughts))


def _check(story: Story, *comments: str, answer: str | None = None) -> Exemplar:
    """The story's own answer passes; another one is revised to the story's own. Listings 5 and 6."""
    action = CheckAnswer(True) if answer is None else ReviseAnswer(story.answer)
    given = answer or story.answer
    past = (*story.past, GivenAnswer(given, story.thoughts))
    return Exemplar(View(story.question, past, answer=given), action, comments)


DECIDE = (
    _decide(CURRENCY, 0, remaining=10),
    _decide(SUNSET, 2, remaining=4),
    _decide(VOLCANO, 2, remaining=9),
    _decide(CANALS, 4, remaining=8),
    _decide(COMPOSER, 4, remaining=8),
    _decide(WAX, 0, remaining=10),
    _decide(LIGHTHOUSE, 4, remaining=3),
    _decide(INVENTORS, 2, remaining=9),
    _decide(EGGS, 2, remaining=9),
)

SUMMARISE = (
    _summarise(
        VOLCANO,
        1,
        (ResultItem(2, "Visiting Pompeii", "The ruins are open all year."),),
        "[link_id=1] names the volcano. [link_id=2] does not help.",
    ),
    _summarise(
        COMPOSER,
        3,
        (
            ResultItem(4, "The planets for schools", "Eight planets go round the Sun. Mercury is the nearest to it."),
            ResultItem(5, "Planetarium", "School classes can visit the planetarium on weekdays."),
        ),
        "[link_id=4] and [link_id=5] are about astronomy, not about the composer. Not selected.",
    ),
    _summarise(
        CANALS,
        3,
        (ResultItem(5, "Panama", "Panama is a country in Central America. Its capital is Panama City."),),
        "[link_id=5] is about the country. Not selected.",
        "[link_id=6] gives the length of the canal. Selected.",
    ),
    _summarise(
        EGGS,
        1,
        (ResultItem(2, "Boiling eggs", "A hard-boiled egg takes about ten minutes in boiling water."),),
        "[link_id=1] says what freezing does. Selected.",
        "[link_id=2] is about boiling. Not selected.",
        "[link_id=3] is about keeping boiled eggs, which helps whoever asks. Selected.",
    ),
    _summarise(
        LIGHTHOUSE,
        1,
        (
            ResultItem(1, "Eddystone Rocks", "The Eddystone Rocks lie in the English Channel off Cornwall."),
            ResultItem(2, "John Smeaton", "John Smeaton was an English civil engineer, born in 1724."),
        ),
        "[link_id=1] and [link_id=2] say nothing about wages. Not selected.",
    ),
    _summarise(
        SUNSET,
        1,
        (ResultItem(3, "Weather rhymes", "Red sky at night, shepherd's delight."),),
        "[link_id=1] and [link_id=2] explain the colour. Selected.",
        "[link_id=3] is a saying and explains nothing. Not selected.",
    ),
)

ANSWER = (
    _answer(WAX),
    _answer(VOLCANO),
    _answer(LIGHTHOUSE),
    _answer(CANALS),
    _answer(INVENTORS),
)

RELEVANCE = (
    _check(VOLCANO, "The ORIGINAL_QUESTION asks for a height, and the ANSWER gives it."),
    _check(
        CANALS,
        "The ORIGINAL_QUESTION asks which canal is longer. The ANSWER gives both lengths and does not say which.",
        answer="The Suez Canal is 193 km long [link_id=2]. The Panama Canal is about 82 km long [link_id=6].",
    ),
    _check(SUNSET, "The ORIGINAL_QUESTION asks for a reason, and the ANSWER explains it."),
    _check(
        COMPOSER,
        "The ORIGINAL_QUESTION asks for a school. The ANSWER names the composer only.",
        answer="The Planets was composed by Gustav Holst from 1914 to 1917 [link_id=1].",
    ),
    _check(LIGHTHOUSE, "The ANSWER says openly that the wages were not found. It does not wander off."),
    _check(
        EGGS,
        "The ORIGINAL_QUESTION asks about freezing. The ANSWER is about the refrigerator.",
        answer="Hard-boiled eggs keep for one week in the refrigerator [link_id=3].",
    ),
)

GROUNDING = (
    _check(
        VOLCANO,
        "[link_id=1] says that Vesuvius destroyed Pompeii, [link_id=4] that it is 1,281 m high, as the ANSWER does.",
    ),
    _check(
        CANALS,
        "[link_id=2] says 193 km, as the ANSWER does.",
        "[link_id=6] says about 82 km. The ANSWER says 120 km, which is wrong.",
        answer="The Suez Canal is longer. It is 193 km long [link_id=2], the Panama Canal about 120 km [link_id=6].",
    ),
    _check(INVENTORS, "[link_id=2] says Sweden and [link_id=5] says Scotland, as the ANSWER does."),
    _check(
        CURRENCY,
        "[link_id=1] says that Kilimanjaro is in Tanzania, as the ANSWER does.",
        "[link_id=3] names the shilling. Nothing says that it is the oldest currency of Africa, so that is left out.",
        answer="The highest mountain in Africa is Kilimanjaro in Tanzania [link_id=1], where the "
        "Tanzanian shilling, the "
        "oldest currency of Africa, is used [link_id=3].",
    ),
    _check(WAX, "[link_id=1] says to scrape the wax off and to use paper and an iron, as the ANSWER does."),
)
