"""Original worked programs for few-shot prompts, in the layouts of HumanEval and of MBPP.

RAT and RaR show no examples from the benchmark, so MBPP's tasks 1 to 10 are not used. A test checks that none of these
is close to a problem of a benchmark, and that every program passes its tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import Demonstration


@dataclass(frozen=True)
class Worked:
    """A solved problem: an imperative sentence, the signature, some reasoning, the body, tests as asserts."""

    asked: str
    signature: str
    reasoning: str
    body: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.signature.partition("(")[0]

    @property
    def program(self) -> str:
        """The whole function."""
        return f"def {self.signature}:\n{self.body}"


WORKED = (
    Worked(
        "Count the readings of a river gauge that are higher than the one before them.",
        "count_rising(readings: list[int]) -> int",
        "Each reading is compared with the one before it; the first has none.",
        "    return sum(later > earlier for earlier, later in zip(readings, readings[1:]))",
        ("assert count_rising([3, 5, 5, 6]) == 2", "assert count_rising([]) == 0"),
    ),
    Worked(
        "Share a bill, in whole cents, among guests; the first ones pay the cents that are left over.",
        "shares(cents: int, guests: int) -> list[int]",
        "Everyone pays the whole part. As many guests as there are cents left over pay one more.",
        "    each, over = divmod(cents, guests)\n    return [each + (place < over) for place in range(guests)]",
        ("assert shares(100, 3) == [34, 33, 33]", "assert shares(8, 4) == [2, 2, 2, 2]"),
    ),
    Worked(
        "Name the candidate with the most votes; None for a tie.",
        "elected(votes: dict[str, int]) -> str | None",
        "The most votes are found first. Only one candidate may have that many.",
        "    most = max(votes.values())\n    first = [name for name in votes if votes[name] == most]\n"
        "    return first[0] if len(first) == 1 else None",
        ('assert elected({"Ann": 3, "Bo": 5}) == "Bo"', 'assert elected({"Ann": 4, "Bo": 4}) is None'),
    ),
    Worked(
        "Write a duration in seconds as hours, minutes and seconds, such as 1:02:05.",
        "clock(seconds: int) -> str",
        "Seconds are divided by 60 into minutes, and these into hours. Minutes and seconds have two digits.",
        "    minutes, left = divmod(seconds, 60)\n    hours, minutes = divmod(minutes, 60)\n"
        '    return f"{hours}:{minutes:02}:{left:02}"',
        ('assert clock(3725) == "1:02:05"', 'assert clock(59) == "0:00:59"'),
    ),
    Worked(
        "Tell whether a boat takes all families across a river, in order and none divided, in so many trips.",
        "crosses(families: list[int], seats: int, trips: int) -> bool",
        "Families board while there is room; the next one that does not fit waits for the next trip. "
        "A family larger than the boat never gets across.",
        "    used, room = 0, 0\n    for people in families:\n        if people > seats:\n            return False\n"
        "        if people > room:\n            used, room = used + 1, seats\n        room -= people\n"
        "    return used <= trips",
        ("assert crosses([2, 3, 1], 4, 2) is True", "assert crosses([5], 4, 9) is False"),
    ),
)


def from_docstring(worked: Worked) -> Demonstration:
    """A worked problem in HumanEval's layout."""
    shown = f'def {worked.signature}:\n    """{worked.asked}"""'
    return Demonstration(
        question=function_question(worked.name, shown), reasoning=worked.reasoning, answer=worked.program
    )


def from_tests(worked: Worked) -> Demonstration:
    """A worked problem in MBPP's layout."""
    asked = f"Write a function to {worked.asked[0].lower()}{worked.asked[1:]}"
    return Demonstration(
        question=tested_question(asked, worked.tests), reasoning=worked.reasoning, answer=worked.program
    )


def function_question(name: str, shown: str) -> str:
    """A question that shows a signature with its docstring."""
    return f"Write the Python function `{name}` so that it does what its docstring says.\n\n```python\n{shown}\n```"


def tested_question(asked: str, tests: Sequence[str]) -> str:
    """A question that shows a sentence and some tests."""
    shown = "\n".join(tests)
    return f"{asked}\n\nThe program has to satisfy:\n```python\n{shown}\n```"


FROM_DOCSTRING = tuple(map(from_docstring, WORKED))
FROM_TESTS = tuple(map(from_tests, WORKED))
