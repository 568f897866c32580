"""Methods, models, tasks and options of one's own that do not fit: a line says in which file and class, and what."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

import pytest

from reground.app import catalogue
from reground.app.cli import run
from reground.app.cli.flags import flattened
from reground.core.errors import ConfigurationError
from reground.testing.openai_server import MockOpenAI
from tests.servers import model_of, serving

OURS = {
    "method": """
from dataclasses import dataclass
from typing import Any
from reground.core.answers import Answer

@dataclass(frozen=True, kw_only=True)
class Own:
    model: Any

    async def solve(self, question, run):
        return Answer(text=await run.ask(self.model, question, name="answer"))

METHOD = Own
""",
    "model": """
from reground.core.language import Reply

class Own:
    name = "mine/x"

    async def generate(self, messages, sampling):
        return [Reply(text="Vienna", finish_reason="stop")]

def create(model, options):
    return Own()
""",
    "task": """
from reground.core.answers import PHRASE
from reground.evaluation.task import Example, Score, Task

class Own(Task):
    name, form, primary = "own", PHRASE, "exact"

    def examples(self):
        return [Example(id=each, question=each) for each in "ab"]

    async def score(self, example, trajectory, sandbox):
        return {"exact": Score(value={"a": 1.0}.get(example.id, 0.0))}

TASKS = {"own": Own}
""",
}


@pytest.fixture
def asked(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Iterator[Any]:
    """Writes a part into own.py, asks or evaluates with it twice, and gives the exit code and what was said."""
    monkeypatch.syspath_prepend(str(home))
    info = home / "own-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[reground.models]\nmine = own\n[reground.methods]\nmine = own:METHOD\n")
    for known in (importlib.invalidate_caches, catalogue.providers.cache_clear, catalogue.methods.cache_clear):
        known()

    def ask(kind: str, text: str, method: str = "./own.py") -> tuple[int, str]:
        (home / "own.py").write_text(text)
        model = ["--model", "mine/x"] if kind == "model" else model_of(server)
        command = ["ask", "Where?", "--method", method if kind == "method" else "direct", *model]
        if kind == "task":
            command = ["eval", "--task", "./own.py", "--method", "direct", *model, "--out", "RUN"]
        codes = [run([*command, "-q"]), run([*command, "-q"])]  # nothing is recorded that a second run trips over
        (first, second) = capsys.readouterr().err.splitlines() or ("", "")
        assert (codes[0], first) == (codes[1], second)
        return codes[0], first

    with serving(MockOpenAI(lambda body: "Vienna")) as server:
        yield ask
    sys.modules.pop("own", None)
    catalogue.providers.cache_clear()
    catalogue.methods.cache_clear()


@pytest.mark.parametrize("kind", OURS)
def test_what_fits_works(kind: str, asked: Any) -> None:
    assert asked(kind, OURS[kind]) == (0, "")


ROWS = [
    ("method", 'name="answer")', 'name={}["b"])', "own.py:11, in solve: KeyError: 'b'"),
    ("method", "async def solve(self, question, run)", "async def answer(self, question, run)", "has no solve"),
    ("method", "async def solve(self, question, run)", "async def solve(self, question)", "Own.solve() takes 2"),
    ("method", "async def solve(", "def solve(self, *_): return 1\n    async def other(", "Own.solve is no coroutine"),
    ("method", "return Answer(text=await run.ask", "return (await run.ask", "Own: solve gave 'Vienna', not"),
    ("method", "model: Any", "model: Any\n    llm: Any", "Own: the field llm has no default"),
    (
        "model",
        "def create(model, options)",
        "def make(model, options)",
        "own.py is no model provider: it has no create",
    ),
    ("model", "def create(model, options)", "def create(model)", "own.py: create() takes 1"),
    ("model", "def create(model, options)", "async def create(model, options)", "coroutine is no model, as"),
    ("model", "return Own()", "return None", "NoneType is no model, as"),
    ("model", 'name = "mine/x"', "", "Own is no model, as"),
    ("model", "async def generate", "async def write", "it has no generate"),
    ("model", "(self, messages, sampling)", "(self, messages)", "Own.generate() takes 2"),
    ("model", "    async def generate", "    def generate", "Own.generate is no coroutine"),
    ("model", '[Reply(text="Vienna", finish_reason="stop")]', "[]", "Own: generate gave [], not"),
    ("model", '[Reply(text="Vienna", finish_reason="stop")]', '["Vienna"]', "Own: generate gave ['Vienna'], not"),
    ("model", '[Reply(text="Vienna", finish_reason="stop")]', 'Reply(text="Vienna")', "generate gave Reply("),
    ("model", 'name = "mine/x"', 'name, samples = "mine/x", "5"', "it arose where reground uses /"),
    ("task", 'TASKS = {"own": Own}', "TASKS = Own", "own.py: TASKS is"),
    ("task", 'TASKS = {"own": Own}', 'TASKS = {"own": Own()}', "own.py: TASKS is"),
    ("task", 'TASKS = {"own": Own}', "", "it has no TASKS"),
    ("task", "name, form, primary =", "name, _, primary =", "Own is no task, as in"),
    ("task", "class Own(Task)", "class Own", "has no demonstrations and no solutions"),
    ("task", "name, form, primary =", "_, form, primary =", "it has no name"),
    ("task", "PHRASE, ", '"phrase", ', "Own: form is 'phrase', not one of"),
    ("task", "def examples", "def questions", "own.py: Own: Can't instantiate abstract class Own"),
    ("task", "Example(id=each, question=each)", "each", "Own: examples gave 'a', not"),
    ("task", '{"exact": Score(', '{"exact": dict(', "Own: score gave {'exact': {'value': 1.0}}, not a Score"),
    ("task", '{"exact"', '1.0  # {"exact"', "Own: score gave 1.0, not a Score"),
    ("task", '{"exact"', '{"other"', "Own: score gave other, and not exact, by which methods are ranked"),
    ("task", "example, trajectory, sandbox)", "example, trajectory)", "Own.score() takes 3"),
]


@pytest.mark.parametrize(("kind", "right", "wrong", "why"), ROWS, ids=[row[3][:30] for row in ROWS])
def test_what_does_not_fit_is_named_with_its_file(kind: str, right: str, wrong: str, why: str, asked: Any) -> None:
    assert right in OURS[kind]
    code, line = asked(kind, OURS[kind].replace(right, wrong))
    assert code == 2 and "own.py" in line and why in line and "internal error" not in line, line


def test_an_installed_method_is_told_of_alike_and_one_that_cannot_be_read_spoils_no_other(asked: Any) -> None:
    code, line = asked("method", OURS["method"].replace('name="answer")', 'name={}["b"])'), "mine")
    assert code == 2 and "own.py:11, in solve: KeyError: 'b'" in line
    sys.modules.pop("own")
    code, line = asked("method", "x = 1\ndef (\n", "mine")
    assert code == 2 and "mine (own:METHOD) cannot be imported:" in line and "own.py:2: SyntaxError" in line
    assert {"direct", "mine"} <= set(catalogue.methods())


def test_answers_that_a_task_cannot_score_are_no_success(asked: Any) -> None:
    code, line = asked("task", OURS["task"].replace(".get(example.id, 0.0)", "[example.id]"))
    assert code == 3 and "own.py:12, in score: KeyError: 'b'" in line


@pytest.mark.parametrize(
    ("text", "short", "why"),
    [
        ("tone: how. time: when.", "short", "two options of command are called -t"),
        ("", "short", "test_own_parts.py: Own: the field tone has no description"),
        ("tone: how. time: when.", "shrt", "test_own_parts.py: Own: the field tone, its metadata: .*'shrt'"),
    ],
)
def test_an_option_that_cannot_be_made_is_named_with_its_class(text: str, short: str, why: str) -> None:
    own = make_dataclass("Own", [(name, str, field(metadata={short: "-t"})) for name in ("tone", "time")])
    own.__module__, own.__doc__ = __name__, text

    def command(options: Any) -> None: ...

    command.__annotations__ = {"options": own}
    with pytest.raises(ConfigurationError, match=why):
        flattened()(command)
