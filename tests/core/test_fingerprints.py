"""A function's fingerprint: what changes it, and that every process has the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

from reground.core.files import function_fingerprint


def call(name: str, prompt: str) -> str:
    return f"{name}: {prompt}"


def made(name: str) -> Callable[[str], str]:
    def say(prompt: str) -> str:
        return call(name, prompt)

    return say


class Caller:
    def __init__(self, name: str) -> None:
        self.name = name

    def say(self, prompt: str) -> str:
        return call(self.name, prompt)

    def __call__(self, prompt: str) -> str:
        return self.say(prompt)


def defaulting(prompt: str, name: str = "a") -> str:
    return call(name, prompt)


def otherwise(prompt: str, name: str = "b") -> str:
    return call(name, prompt)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (partial(call, "a"), partial(call, "b")),
        (made("a"), made("b")),
        (Caller("a").say, Caller("b").say),
        (Caller("a"), Caller("b")),
        (defaulting, otherwise),
        (lambda text: [word.upper() for word in text], lambda text: [word.lower() for word in text]),
        (lambda text: text in {"a", "b"}, lambda text: text in {"a", "c"}),
    ],
    ids=["partial", "closure", "method", "object", "default", "comprehension", "set"],
)
def test_what_a_function_holds_makes_it_another(one: object, other: object) -> None:
    assert function_fingerprint(one) == function_fingerprint(one)
    assert function_fingerprint(one) != function_fingerprint(other)


def test_it_is_the_same_in_every_process() -> None:
    code = (
        "from reground.core.files import function_fingerprint\n"
        "print(function_fingerprint(lambda text: text in {'alpha', 'beta', 'gamma', 'delta'}))"
    )
    seeds = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2"))
    ran = [subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True) for env in seeds]
    assert ran[0].stdout == ran[1].stdout != b""


@pytest.mark.parametrize("hold", [lambda held: Caller(held).say, lambda held: partial(call, held), made])
def test_what_an_object_that_it_holds_does_changes_nothing(hold: Callable[[object], object]) -> None:
    client = Caller("a")
    before = function_fingerprint(hold(client))
    client.name = "a request later"
    assert function_fingerprint(hold(client)) == before
