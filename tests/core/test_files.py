"""Where files lie, what makes a function another one, and damaged weights, named by their file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reground.core import files as paths
from reground.core.errors import ConfigurationError
from reground.core.files import function_fingerprint, trouble


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (partial(call, "a"), partial(call, "b")),
        (made("a"), made("b")),
        (Caller("a").say, Caller("b").say),
        (Caller("a"), Caller("b")),
        (lambda prompt, name="a": call(name, prompt), lambda prompt, name="b": call(name, prompt)),
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


HEADER = json.dumps(
    {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
).encode()
EMPTY = (2).to_bytes(8, "little") + b"{}"
WHOLE = len(HEADER).to_bytes(8, "little") + HEADER + bytes(8)


@pytest.mark.parametrize(
    "damaged",
    [b"", b"abc", WHOLE[:20], WHOLE[:-1], WHOLE + b"x", b"\xff" * 8 + WHOLE[8:], WHOLE.replace(b"data_", b"date_"),
     WHOLE.replace(b'"a"', b"\xff\xfe\xfd"), EMPTY[:8] + b"[]", EMPTY + b"x"],
)  # fmt: skip
def test_a_damaged_file_of_weights_is_named(damaged: bytes, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "good.safetensors").write_bytes(WHOLE)
    file = tmp_path / "inner" / "model.safetensors"
    file.write_bytes(damaged)
    assert trouble(ValueError("header too\n large"), tmp_path) == f"{file} is damaged or was not written whole"
    file.unlink()
    assert trouble(ValueError("header too\n large"), tmp_path, "org/absent", None) == "header too large"
    assert trouble(KeyError(), tmp_path) == "KeyError"


@pytest.mark.parametrize("name", ["models", "indexes", "cache", "runs"])
def test_one_variable_moves_everything(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path))
    assert getattr(paths, f"{name}_dir")() == tmp_path / name
    monkeypatch.setenv("REGROUND_HOME", "~nobody-of-that-name/x")
    with pytest.raises(ConfigurationError, match="~nobody-of-that-name/x begins with the home"):
        paths.runs_dir()


@pytest.mark.parametrize("given", ["", "relative/path"])
def test_an_empty_or_relative_xdg_folder_is_ignored(given, monkeypatch):
    monkeypatch.delenv("REGROUND_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("XDG_STATE_HOME", given)
    assert paths.cache_dir() == Path.home() / ".cache" / "reground" / "cache"
    assert paths.runs_dir() == Path.home() / ".local" / "state" / "reground" / "runs"
