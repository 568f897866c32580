"""General worked examples, for few-shot prompts where a task brings none."""

from __future__ import annotations

from reground.core.answers import AnswerForm, Demonstration

_PHRASES = (
    Demonstration(
        question="Which of the two rivers is longer, the one that flows through Vienna or the one that "
        "flows through Paris?",
        reasoning=(
            "The river that flows through Vienna is the Danube, which is about 2,850 km long.\n\n"
            "The river that flows through Paris is the Seine, which is about 775 km long.\n\n"
            "2,850 km is more than 775 km, so the Danube is longer."
        ),
        answer="the Danube",
    ),
    Demonstration(
        question="Was the architect of the Sydney Opera House born before the Eiffel Tower was finished?",
        reasoning=(
            "The architect of the Sydney Opera House was Jørn Utzon, who was born in 1918.\n\n"
            "The Eiffel Tower was finished in 1889.\n\n"
            "1918 is after 1889, so he was not born before it was finished."
        ),
        answer="no",
    ),
    Demonstration(
        question="In which country was the discoverer of the element named after Poland born?",
        reasoning=(
            "The element named after Poland is polonium.\n\n"
            "Polonium was discovered by Marie and Pierre Curie; the one who named it after her homeland "
            "was Marie Curie.\n\n"
            "Marie Curie was born in Warsaw, which is in Poland."
        ),
        answer="Poland",
    ),
)
_NUMBERS = (
    Demonstration(
        question="A baker fills 6 trays with 12 rolls each and sells 50 rolls. How many rolls are left?",
        reasoning="6 trays of 12 rolls are 6 * 12 = 72 rolls.\n\nAfter 50 are sold, 72 - 50 = 22 rolls are left.",
        answer="22",
    ),
    Demonstration(
        question="A train covers 180 km in 2 hours. How far does it get in 5 hours at the same speed?",
        reasoning="Its speed is 180 / 2 = 90 km an hour.\n\nIn 5 hours it covers 90 * 5 = 450 km.",
        answer="450",
    ),
    Demonstration(
        question="A coat costs 80 dollars. It is reduced by 25 percent, and then a voucher takes off 10 dollars more. "
        "What is paid?",
        reasoning="25 percent of 80 dollars are 20 dollars, so the coat costs 80 - 20 = 60 dollars.\n\n"
        "With the voucher 60 - 10 = 50 dollars are paid.",
        answer="50",
    ),
)
_CHOICES = (
    Demonstration(
        question="Which planet is closest to the Sun?\nA. Venus\nB. Mercury\nC. Mars\nD. Earth",
        reasoning="In order of distance from the Sun the planets begin with Mercury, Venus, Earth and Mars.\n\n"
        "So the closest is Mercury, which is option B.",
        answer="B",
    ),
    Demonstration(
        question="Water is heated from 20 to 60 degrees Celsius at constant pressure. What happens to its density?\n"
        "A. It rises\nB. It stays the same\nC. It falls\nD. It becomes zero",
        reasoning="Above 4 degrees Celsius water expands when it is heated.\n\n"
        "The same mass in more space means a lower density, which is option C.",
        answer="C",
    ),
)
_PROGRAMS = (
    Demonstration(
        question="Write a function weekday_after(day, days) that returns the day of the week so many days after a day; "
        "the days of a week are 0 to 6.",
        reasoning="Days are added up, and every seventh is the same day of the week again.\n\n"
        "The remainder of a division by seven is 0 to 6.",
        answer="def weekday_after(day, days):\n    return (day + days) % 7",
    ),
    Demonstration(
        question="Write a function initials(name) that returns the first letters of the words of a name in upper case.",
        reasoning="The words are what white space separates.\n\nThe first letter of each is put in "
        "upper case and joined.",
        answer='def initials(name):\n    return "".join(word[0].upper() for word in name.split())',
    ),
)
_PAL = tuple(
    Demonstration(question=example.question, answer=program)
    for example, program in zip(
        _NUMBERS,
        (
            "def solution():\n    # rolls that are baked\n    baked = 6 * 12\n    # rolls that are left\n"
            "    return baked - 50",
            "def solution():\n    # speed in km an hour\n    speed = 180 / 2\n    # distance in 5 hours\n"
            "    return speed * 5",
            "def solution():\n    # price after the reduction\n    reduced = 80 * (1 - 0.25)\n    # "
            "price with the voucher\n"
            "    return reduced - 10",
        ),
        strict=True,
    )
)
_PLANS = (
    Demonstration(
        question="Make a plan for a cup of tea with nothing at hand but a kitchen.",
        answer="STEP 1: Fill the kettle with water.\nSTEP 2: Boil the water.\nSTEP 3: Put a tea bag into a cup.\n"
        "STEP 4: Pour the water into the cup.\nSTEP 5: Take the tea bag out after three minutes.",
    ),
)
_ARTICLES = (
    Demonstration(
        question="Write about the history of the telegraph.",
        reasoning=(
            "The first telegraphs were optical: Claude Chappe's towers linked Paris and Lille in 1794.\n\n"
            "Electric telegraphs followed: Cooke and Wheatstone's in 1837, and Samuel Morse's line of 1844.\n\n"
            "A cable that lasted lay across the Atlantic from 1866 on."
        ),
        answer=(
            "# The telegraph\n\n"
            "## Signals that were seen\n"
            "Claude Chappe's towers with movable arms linked Paris and Lille in 1794. They needed daylight and clear "
            "air.\n\n"
            "## Signals in a wire\n"
            "William Cooke and Charles Wheatstone patented an electric telegraph in 1837. Samuel Morse's line between "
            "Washington and Baltimore carried its first message in 1844.\n\n"
            "## Across the ocean\n"
            "The Atlantic cable of 1858 failed within weeks. That of 1866 lasted, and news crossed the ocean in "
            "minutes."
        ),
    ),
)
_BY_FORM = {
    **{"number": _NUMBERS, "choice": _CHOICES, "program": _PROGRAMS, "pal": _PAL, "plan": _PLANS},
    "article": _ARTICLES,
}


def general(form: AnswerForm) -> tuple[Demonstration, ...]:
    """Worked examples whose answers have the form; phrases for forms without examples."""
    return _BY_FORM.get(form.name, _PHRASES)
