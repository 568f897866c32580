"""What small models add to a reply: parts of the prompt that they repeat, and sentences in a loop."""

from __future__ import annotations

import re
from collections import Counter

from reground.text.sentences import sentences

_NUMBER = re.compile(r"^\W*+(?:step\s*+)?+\d++\s*+[.:)]\s*+")
_LOOP = 3
_TASK = 20  # minimum length in characters of a template's first or last line for recognising it in a reply


def unlooped(text: str) -> str:
    """The text before the first repetition of a sentence that it holds three times or more.

    Sentences that differ only in a step's number are the same.
    """
    parts = sentences(text)
    keys = [_NUMBER.sub("", " ".join(part.split()).casefold()) for part in parts]
    looping = {key for key, count in Counter(keys).items() if key and count >= _LOOP}
    seen: set[str] = set()
    for i, key in enumerate(keys):
        if key in looping and key in seen:
            return "".join(parts[:i]).strip()
        seen.add(key)
    return text.strip()


def without_echo(text: str, template: str, before: str = "") -> tuple[str, str]:
    """The reply without the parts of the prompt that a small model repeats, and what stood behind the first of them.

    Labels and the task at the start are left out, and everything from a later one on. Of a reply that repeats the
    prompt from its beginning only what follows the task is its own, or what follows the label of the text under
    revision. Lines of the text before never count as the template's.
    """
    own = {line.strip() for line in before.split("\n")}
    labels, task = labels_of(template), task_of(template)
    lines = text.strip().split("\n")
    tasks = [bool(task) and line.strip().startswith(task) and line.strip() not in own for line in lines]
    echoes = [is_task or line.strip() in labels - own for is_task, line in zip(tasks, lines, strict=True)]
    first, fixed = lines[0].strip(), template.strip().partition("\n")[0].partition("{")[0].strip()
    begins = first == fixed or (min(len(first), len(fixed)) >= _TASK and fixed.startswith(first))
    repeats = before.strip() != "" and begins and fixed not in {"", *own}
    behind = 1 + max((i for i, is_task in enumerate(tasks) if is_task), default=-1)
    if (repeats or echoes[0]) and behind and any(map(str.strip, lines[behind:])):
        start = behind  # the whole prompt stands before it
    elif repeats:
        label = next(
            (line.strip() for line in reversed(template.split("\n")) if line.strip() in labels_of(template)), ""
        )
        start = max((i + 1 for i, line in enumerate(lines) if line.strip() == label), default=len(lines))
    else:
        start = 0
    while start < len(lines) and (echoes[start] or not lines[start].strip()):
        start += 1
    end = next((i for i in range(start, len(lines)) if echoes[i]), len(lines))
    return "\n".join(lines[start:end]).strip(), "\n".join(lines[end:]).strip()


def labels_of(template: str) -> frozenset[str]:
    """The template's lines that end in a colon and have no place, such as "Step to check:"."""
    lines = (line.strip() for line in template.split("\n"))
    return frozenset(line for line in lines if len(line) > 1 and line.endswith(":") and "{" not in line)


def task_of(template: str) -> str:
    """The start of the template's last line, up to its first place; empty if too short to be recognised."""
    fixed = template.rstrip().rpartition("\n")[2].partition("{")[0].strip()
    return fixed if len(fixed) >= _TASK else ""
