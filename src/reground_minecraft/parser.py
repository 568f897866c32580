"""Reads plans in the papers' STEP format leniently (RAT, appendix E.1), and writes them strictly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Goal:
    """A number of an item to obtain, by the plan's name for it."""

    name: str
    count: int = 1


@dataclass(frozen=True)
class PlanStep:
    """One step: its number in the text, and its goals. A step without goals looks around or places something.

    certain: whether an item line names the goals. Otherwise they come from prose and may not be items.
    """

    number: int
    goals: tuple[Goal, ...] = ()
    certain: bool = True
    text: str = field(default="", compare=False)


_SPACES = re.compile(r"[ \t]{2,}")  # long runs would make the patterns below slow
_MARKUP = re.compile(r"[*`\"{}]+|(?<!\w)_+|_+(?!\w)|\[\d+(?:[ \t]*[,;][ \t]*\d+)*\]")  # and citation markers
_LINE_START = r"(?:^|\n)[ \t>#\-•+]*+"
_STEP = re.compile(
    rf"{_LINE_START}step[ \t]*+#?+[ \t]*+(\d{{1,4}})(?![ \t]*[-–][ \t]*\d)[ \t]*[:.)\]\-–—]*"
    rf"|\bSTEP[ \t]++(\d{{1,4}})[ \t]*+[:.)]",
    re.IGNORECASE,
)
_NUMBERED = re.compile(rf"{_LINE_START}(\d{{1,3}})[.):][ \t]+")
_LABEL = re.compile(
    r"(?:^|\n|[-–—•;,.(\[|]|(?<![ \t])[ \t]{2})[ \t]*+(?:the[ \t]++)?"
    r"((?:(?:object|target|resulting|obtained|required|needed|used|necessary|minecraft|goal|input|output)[ \t]+){0,3}"
    r"(?:minecraft[ \t]+)?(?:items?|objects?|obtain(?:ed|s)?|outputs?|results?|produces?|yields?|gain|quantity"
    r"|number|count|amount"
    r"|materials?|ingredients?|tools?|plan|action|description|recipe|requires?|location|reason|task|note|inventory)"
    r"(?:[ \t]+(?:used|needed|required|obtained|gained|crafted|produced|and[ \t]+(?:its[ \t]+)?(?:number|count"
    r"|quantity)))?(?:[ \t]*\([^()\n]{0,20}\))?)[ \t]*[:：=][ \t]*",
    re.IGNORECASE,
)
_NUMBERS = {
    **{"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10},
    **{"eleven": 11, "twelve": 12},
    **{"a": 1, "an": 1, "sixteen": 16, "twenty": 20, "dozen": 12, "a dozen": 12, "twenty-four": 24, "thirty-two": 32},
    **{"a stack of": 64, "a pair of": 2, "a couple of": 2},
}
_WORD = "|".join(sorted((re.escape(word) for word in _NUMBERS), key=len, reverse=True))
_COUNT = (
    rf"(?:(?P<digits>\d{{1,5}})(?:[ \t]*[-–][ \t]*\d{{1,5}})?[ \t]*(?:[x×]\b|×)?|[x×][ \t]?(?P<xdigits>\d{{1,5}})"
    rf"|(?P<word>{_WORD})(?=[ \t]))"
)
_LEADING = re.compile(
    rf"^(?:at least|about|around|approximately|~)?[ \t]*{_COUNT}[ \t]*(?:pieces? of)?[ \t]*", re.IGNORECASE
)
_TRAILING = re.compile(
    r"(?<![ \t])[ \t]*+(?:[-–:,][ \t]*+)?[(\[]?[ \t]*+(?:[x×][ \t]*+(\d{1,5})|(\d{1,5})[ \t]*+(?:[x×]|pieces?"
    r"|units?)?+)[ \t]*+[)\]]?$",
    re.IGNORECASE,
)
_PAREN_COUNT = re.compile(
    r"\([ \t]*+(?:[x×][ \t]*+)?+(\d{1,5})[ \t]*+[x×]?+[ \t]*+(?:pieces?|units?|total)?+[ \t]*+\)", re.IGNORECASE
)
_PAREN = re.compile(r"\([^()\n]*\)?")
_SEPARATOR = re.compile(rf"[,;+&\n]|\band\b(?=[ \t]+(?:\d|(?:{_WORD})\b))", re.IGNORECASE)
_BULLET = re.compile(r"\A[ \t]*+(?:[-•+>#]++|(?=\d))[ \t]*+")
_NOTHING = re.compile(
    r"^(?:none|nothing|n/?a|no (?:minecraft )?items?|not applicable|(?:empty|bare)?[ ]?(?:hands?|inventory|slots?)"
    r"|empty|-+)?$",
    re.IGNORECASE,
)
_ARROW = re.compile(r"(?:->|=>|→|⇒)")
_VERB = re.compile(
    r"\b(?:obtain|get|craft|make|mine|collect|gather|smelt|harvest|create|produce|build|chop|acquire|find|dig|cut"
    r"|cook|pick up|pick)\b[ \t]+",
    re.IGNORECASE,
)
_PREPOSITION = re.compile(
    r"(?<![ \t])[ \t]*+(?:[.,;:(]|\b(?:from|with|using|by|in|on|at|for|to|via|until|out|near|inside|through|if|so"
    r"|that|which)\b).*$",
    re.IGNORECASE | re.DOTALL,
)
_INTO = re.compile(r"\binto[ \t]+", re.IGNORECASE)
_EXPLICIT = re.compile(r"\b\d{1,5}[ \t]?[x×][ \t]*[A-Za-z][A-Za-z' _-]*")

_INPUTS = ("material", "ingredient", "tool", "require", "needed", "used", "input", "recipe", "necessary", "inventory")
_MOST_WORDS = 5  # of a step that may be only an item
_TALK = ("plan", "action", "description", "location", "reason", "task", "note")
_COUNTS = ("quantity", "number", "count", "amount")


def parse_plan(text: str) -> list[PlanStep]:
    """The steps of a plan, in order; empty if the text has none.

    Goals come from item lines ("Minecraft items: 4x Stick", "Item: Acacia Log" with or without "Quantity: 3"), or else
    from an explicit "4x Stick" or the text after an arrow, or else from the object of the first verb ("mine 3 iron
    ore"). Lines with materials or tools are not goals. Of several plans, each counting from 1, the last one is used.
    """
    steps = []
    for number, body in _last_plan(text):
        labelled = _labelled(body)
        goals = _from_prose(body.split("\n\n")[0]) if labelled is None else labelled
        steps.append(PlanStep(number, goals, labelled is not None, " ".join(body.split())[:200]))
    return steps


def readable_plan(text: str) -> str:
    """The plan as people read it: every step on a line of its own, `STEP 1: ...`, with all its words.

    The plan is the one that `parse_plan` reads. What stands before it is left out; a remark behind it has its own line.
    Markup and markers are left out. A text without steps stays as it is.
    """
    steps = _last_plan(text)
    if not steps:
        return text.strip()
    number, last = steps.pop()
    # A paragraph behind the last step that is neither a bullet nor an item line begins a remark.
    first, *behind = re.split(r"\n[ \t]*+\n\s*+", last)
    ends = (i for i, part in enumerate(behind) if not _BULLET.match(part) and not _LABEL.match(part))
    end = next(ends, len(behind))
    steps.append((number, "\n".join([first, *behind[:end]])))
    lines = [f"STEP {number}: {_one_line(body)}".rstrip(" :") for number, body in steps]
    remark = " ".join(" ".join(behind[end:]).split())
    return "\n".join([*lines, *([remark] if remark else [])])


def _one_line(body: str) -> str:
    text = ""
    for line in filter(None, map(str.strip, body.split("\n"))):
        bullet = _BULLET.match(line) if not line[0].isdigit() else None
        rest = line[bullet.end() :] if bullet else line
        text += f"{' - ' if text and bullet else ' ' if text else ''}{rest}"
    return " ".join(text.split())


def _last_plan(text: str) -> list[tuple[int, str]]:
    """The numbers and texts of the steps; of several plans, each counting from 1, the last one with several steps."""
    text = _SPACES.sub("  ", _MARKUP.sub("", text.replace("\r\n", "\n")))
    marks = list(_STEP.finditer(text)) or list(_NUMBERED.finditer(text))
    ends = [*(match.start() for match in marks), len(text)][1:]
    numbers = [int(next(filter(None, match.groups()))) for match in marks]
    steps = [(number, text[match.end() : end].strip()) for number, match, end in zip(numbers, marks, ends, strict=True)]
    starts = [index for index, number in enumerate(numbers) if number == 1] or [0]
    plans = [steps[start:end] for start, end in zip(starts, [*starts[1:], len(steps)], strict=True)]
    return next((plan for plan in reversed(plans) if len(plan) > 1), steps)


def _labelled(body: str) -> tuple[Goal, ...] | None:
    """The goals of the step's item lines; None without such lines."""
    marks = list(_LABEL.finditer(body))
    if not marks:
        return None
    goals: list[Goal] = []
    has_items = False
    for mark, end in zip(marks, [*(m.start() for m in marks[1:]), len(body)], strict=True):
        label, value = mark.group(1).lower(), body[mark.end() : end].split("\n\n")[0]
        if any(word in label for word in _COUNTS) and "item" not in label and "object" not in label:
            goals = _with_count(goals, value)
        elif not any(word in label for word in (*_INPUTS, *_TALK)):
            has_items = True
            goals += _goals(value)
    return tuple(goals) if has_items else None


def _with_count(goals: list[Goal], value: str) -> list[Goal]:
    match = re.search(r"\d{1,5}", value.split("\n")[0])
    if match and len(goals) == 1 and int(match.group()) > 0:
        return [Goal(goals[0].name, int(match.group()))]
    return goals


def _goals(value: str) -> list[Goal]:
    """The goals of one item line: up to its line break, or in the bullets below it."""
    first, *below = value.split("\n")
    if not first.strip():
        first = "\n".join(line[mark.end() :] for line in below if (mark := _BULLET.match(line)))
    elif _NOTHING.match(first.strip(" \t.-")):
        return []
    obtained = _PAREN.sub(_count_or_nothing, _ARROW.split(first)[-1])
    goals: list[Goal] = []
    for part in _SEPARATOR.split(obtained):
        goal = _goal(part)
        if goal is not None:
            goals.append(goal)
        elif part.strip(" .").isdigit():
            goals[-1:] = _with_count(goals[-1:], part)
    return goals


def _count_or_nothing(bracket: re.Match[str]) -> str:
    """Keep a bracket with only a count; drop other remarks, which may list materials."""
    return bracket.group() if _PAREN_COUNT.fullmatch(bracket.group()) else " "


def _goal(part: str) -> Goal | None:
    """One item and its count, which may come before, after or in brackets."""
    text, count = part.strip(" \t.-–•[]"), None
    inside = _PAREN_COUNT.search(text)
    if inside:
        count, text = int(inside.group(1)), text[: inside.start()] + text[inside.end() :]
    text = _PAREN.sub(" ", text)
    text = re.split(r"(?:/|\bor\b)", text)[0].strip(" \t.:-–")
    leading = _LEADING.match(text)
    if leading and text[leading.end() :].strip():
        if count is None:
            digits = leading["digits"] or leading["xdigits"]
            count = int(digits) if digits else _NUMBERS[leading["word"].lower()]
        text = text[leading.end() :]
    elif count is None and (trailing := _TRAILING.search(text)) is not None and trailing.start() > 0:
        count, text = int(trailing.group(1) or trailing.group(2)), text[: trailing.start()]
    name = " ".join(text.split()).strip(" .:-–")
    if _NOTHING.match(name) or count == 0 or not re.search(r"[A-Za-z]", name):
        return None
    return Goal(name, 1 if count is None else count)


def _from_prose(body: str) -> tuple[Goal, ...]:
    """The goal, at most one, of a step without an item line."""
    text = " ".join(body.split())
    if _ARROW.search(text):
        return _single(_ARROW.split(text)[-1])
    explicit = _EXPLICIT.findall(text)
    if explicit:
        return _single(_PREPOSITION.sub("", explicit[-1]))
    sentence = re.split(r"(?<=[a-z])[.!](?:\s|$)", text)[0]
    verb = _VERB.search(sentence)
    if verb is None:
        count = _LEADING.match(sentence) or _TRAILING.search(sentence)
        return _single(sentence) if count and len(sentence.split()) <= _MOST_WORDS else ()
    rest = sentence[verb.end() :]
    into = _INTO.search(rest)
    return _single(_PREPOSITION.sub("", rest[into.end() :] if into else rest))


def _single(text: str) -> tuple[Goal, ...]:
    goal = _goal(text)
    return (goal,) if goal is not None else ()


def render_plan(steps: Sequence[PlanStep]) -> str:
    """The plan in the format that `parse_plan` reads back unchanged."""
    lines = []
    for step in steps:
        items = ", ".join(f"{goal.count}x {goal.name}" for goal in step.goals)
        lines.append(f"STEP {step.number}: {step.text or 'Look around.'}{items and f' - Minecraft items: {items}'}")
    return "\n".join(lines)
