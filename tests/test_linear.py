"""Every pattern and every function that reads text from outside takes time in step with the text's length."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from reground.core.answers import FORMS
from reground.core.errors import RegroundError
from reground.retrieval.reading.mail import read_mail
from reground.retrieval.reading.result import PLAIN
from tests.adversarial import modules, patterns, slow, ways

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TEXTS = {
    "text", "reply", "response", "draft", "query", "said", "phrase", "prediction", "raw", "page", "line", "step",
    "code", "written", "body", "source", "value", "content", "output", "html", "expression",
}  # fmt: skip
"""Names of a first parameter that holds text from outside."""

OTHERS: dict[str, object] = {
    "most": 9, "known": (1, 2), "golds": ("a",), "gold": "a", "target": 1.0, "words": 60, "size": 100, "tokens": 100,
    "stop": "**", "fallback": "", "template": "Step to check:\n{step}\n", "quote": "'", "mend": True, "kind": "float",
    "answer": 10**9, "plain": True, "markers": (1, 2), "ids": (1, 2),
}  # fmt: skip
NOT_TEXT = ("reground.app.", "reground.text.languages", "reground.evaluation.compare", "reground.testing")
"""What these read comes from the command line or from tests."""

WAYS = ("```python\n", "Answer: ", "STEP 1: 4x a")


def functions() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Every function over a text whose other parameters are known here, once for each form where it takes one."""
    for module in modules():
        for name, function in vars(module).items():
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                yield from _calls(f"{module.__name__.removeprefix('reground.')}.{name}", function)


def _calls(name: str, function: Callable[..., object]) -> Iterator[tuple[str, Callable[[str], object]]]:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].name not in TEXTS or parameters[0].annotation != "str":
        return
    if inspect.iscoroutinefunction(function) or name.endswith("_tokens_of") or f"reground.{name}".startswith(NOT_TEXT):
        return
    others = [each for each in parameters[1:] if each.default is each.empty]
    given = {each.name: OTHERS[each.name] for each in others if each.name in OTHERS}
    given |= {each.name: "a" for each in others if each.annotation == "str" and each.name == "answer"}
    needed = [each.name for each in others]
    if needed == list(given):
        yield name, partial(_read, function, given)
    elif [*given, "form"] == sorted(needed, key=lambda each: each == "form"):
        for form in ("phrase", "choice", "program", "plan"):
            yield f"{name}:{form}", partial(_read, function, given | {"form": FORMS[form]})


def _read(function: Callable[..., object], given: dict[str, object], text: str) -> None:
    """Call it by name of its parameters, take all that it yields, and let it refuse the text in its own words."""
    names = list(inspect.signature(function).parameters)
    try:
        result = function(text, **{name: given[name] for name in names if name in given})
        if inspect.isgenerator(result):
            deque(result, 0)
    except RegroundError:
        pass


def consume(pattern: re.Pattern[str], text: str) -> None:
    """Find every match of the pattern."""
    deque(pattern.finditer(text), 0)


def test_every_pattern_is_linear() -> None:
    found = patterns()
    assert found
    problems = {name: slow(partial(consume, pattern), ways(pattern)) for name, pattern in found.items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_every_function_over_text_is_linear() -> None:
    found = dict(functions())
    assert found
    problems = {name: slow(function, WAYS) for name, function in found.items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-7", "hz", "iso2022_jp", "gb18030"])
def test_an_encoding_that_a_message_names_is_linear(charset: str) -> None:
    head = f"Content-Type: text/plain; charset={charset}\n\n-"
    assert slow(lambda text: read_mail((head + text).encode(), PLAIN), ("-", "+AGE", "a")) == ""


def test_a_pattern_that_is_not_linear_is_caught() -> None:
    for text in (r"^\s*answer", r"\s+$", r"answer\s*(?:is)?\s*:", r"step \d+\s*[*_]*\s*[.:)]"):
        pattern = re.compile(text, re.MULTILINE)
        assert slow(partial(consume, pattern), ways(pattern))
