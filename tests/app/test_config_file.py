"""The configuration file takes every option by its name, for every command that reads it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

import reground
from reground.app.cli import run
from reground.app.cli.commands import cli
from reground.app.cli.flags import config_keys, not_taken
from reground.app.runs import MARK
from reground.models.options import ModelOptions
from reground.models.scripted import ScriptedModel
from reground.testing.openai_server import MockOpenAI
from tests.data import ROOT
from tests.servers import model_of, serving

pytestmark = pytest.mark.usefixtures("home")


def test_every_key_that_the_documentation_names_is_accepted() -> None:
    keys = config_keys(cli).keys()
    assert {field.name for field in dataclasses.fields(ModelOptions)} <= keys
    page = (ROOT / "docs/how-to/models.md").read_text()
    assert {"seed", "rewriter", "concurrency", "timeout", "threads"} <= keys
    for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL):
        named = {line.split("=")[0].strip() for line in block.partition("\n[")[0].splitlines() if "=" in line}
        assert named <= keys


def test_names_that_were_refused_are_heeded(home: Path, bamboogle: list[str]) -> None:
    with serving(MockOpenAI(lambda body: "Answer: W0")) as server:
        (home / "reground.toml").write_text(
            f'model = "openai/mock"\nbase_url = "{server.url}"\nmethod = "direct"\ntask = "bamboogle"\ndata = "data"\n'
            'seed = 5\nconcurrency = 2\nlimit = 3\nout = "RUN"\nquiet = true\n[budget]\ncalls = 9\n[settings]\n'
            "max_tokens = 99\n"
        )
        own = ["--config", "reground.toml"]
        assert run(["eval", *own]) == 0
        config = json.loads((home / "RUN" / "config.json").read_text())
        assert (config["seed"], config["limit"], config["method"], config["budget"]["calls"]) == (5, 3, "direct", 9)
        assert config["settings"]["max_tokens"] == 99
        assert server.most_at_once <= 2
        assert run(["eval", "--limit", "4", *own]) == 0
        assert run(["ask", "Why?", *own]) == 0
    assert json.loads((home / "RUN" / "config.json").read_text())["limit"] == 4


def test_a_path_may_begin_with_the_home_of_the_user(home: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(home / "me"))
    (home / "own.toml").write_text('model = "openai/mock"\nmethod = "direct"\ntrace = "~/kept/trace.jsonl"\n')
    with serving(MockOpenAI()) as server:
        for given in (["--config", "own.toml"], ["--model=openai/mock", "-mdirect", "--trace=~/kept/trace.jsonl"]):
            assert run(["ask", "Why?", *given, "--base-url", server.url]) == 0
    assert len((home / "me" / "kept" / "trace.jsonl").read_text().splitlines()) == 2
    assert not (home / "~").exists()


def test_a_byte_order_mark_is_no_content(home: Path, capsys) -> None:
    (home / "reground.toml").write_text('method = "no-such"\n', encoding="utf-8-sig")
    assert run(["ask", "Why?"]) == 2
    assert "no method is called 'no-such'" in capsys.readouterr().err


def test_prompts_can_be_set_for_eval_and_compare_too(bamboogle: list[str]) -> None:
    heard: list[str] = []

    def script(body: dict[str, Any]) -> str:
        heard.append(body["messages"][-1]["content"])
        return "Answer: W0"

    given = 'prompts={answer = "Tell me: {question} {form}"}'
    with serving(MockOpenAI(script)) as server:
        where = [*bamboogle, *model_of(server), "-q"]
        assert run(["eval", *where, "--method", "direct", "--set", given, "--out", "RUN", "--limit", "2"]) == 0
        one = ["--set", f"direct.{given}", "--out", "COMPARISON", "--limit", "2"]
        assert run(["compare", *where, "--methods", "direct,cot", "--budgets", "2k", *one]) == 0
    assert len(heard) == 6
    assert sum(prompt.startswith("Tell me: Who wrote") for prompt in heard) == 4


HARMLESS: tuple[dict[str, object], ...] = (
    {"method": "rar", "k": 4, "language": "German", "form": "phrase", "retrieval": "hybrid", "rerank": "links"},
    {"method": "cr_planner+ranking", "settings": {"k": 3, "critic": "prompted", "temperature": 0.5, "rag": {"k": 2}}},
    {"model": "gguf/qwen2.5-coder-1.5b", "budget": {"tokens": 8000, "usd": 0.5, "seconds": "none"}, "support": "words"},
    {"model": "vllm/meta-llama/Llama-3.1", "corpus": "./docs/a.md", "attempts": 20, "budget_calls": 9, "quiet": True},
    {"model": ["ollama/llama3.2:1b", "gguf/smollm2", "none"], "corpus": ["docs", "more=docs"], "rewriter": "ollama/t5"},
    {"model": "openai/gpt-4o-mini", "corpus": "docs.python", "methods": "direct, rag", "budgets": "1k,2k"},
    {"include": ["*.md", "a b/**"], "exclude": ["x"], "where": "path:a/* AND NOT tag:'a b'", "corpus": "loop/x"},
    {"model": "anthropic/claude-sonnet-4-5", "model_options": {"timeout": 30.5, "lookup": True}, "seed": -1},
)
"""What a file may say wherever it lies."""


@pytest.fixture
def planted(home: Path) -> Path:
    """A folder of somebody else's, with documents, an index and code."""
    (home / "docs").mkdir()
    (home / "docs" / "a.md").write_text("The bridge is of iron.\n")
    (home / "own.py").write_text("open('ran', 'w')\n")
    (home / "loop").symlink_to("loop")
    assert run(["index", "docs", "--out", "made.idx"]) == 0
    return home


def test_what_is_not_marked_is_refused_whatever_its_value(planted: Path) -> None:
    for key in ("host", "port", "no_keys", "fresh", "yes", "price", "keep", "conversation", "out", "cache", "ray"):
        for value in (0, True, "x", ["x"]):
            assert all(each.startswith(f"{key} = ") for each in [*not_taken({key: value}, cli)] or ["taken"])


def test_a_file_that_only_lies_here_may_set_what_harms_nobody(planted: Path) -> None:
    for config in HARMLESS:
        assert [*not_taken(config, cli)] == []


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ('trace = "~/.bash_login"', ["ask", "Why?"]),
        ('rerank = "llama-server:URL"', ["ask", "Why?"]),
        ('web = "searxng:URL"', ["ask", "Why?"]),
        ('method = "./own.py"', ["ask", "Why?"]),
        ('[model_options]\nbase_url = "URL"', ["ask", "Why?"]),
        ('corpus = "made.idx"', ["ask", "Why?"]),
    ],
)
def test_a_file_that_only_lies_here_reaches_nothing(line: str, command: list[str], planted: Path, capsys) -> None:
    before = {path for path in planted.rglob("*") if "home" not in path.parts[-3:]}
    with serving(MockOpenAI()) as server:
        (planted / "reground.toml").write_text(line.replace("URL", server.url) + "\n")
        assert run([*command, "--model", "openai/mock"]) == 2
        assert not server.received
    said = capsys.readouterr().err
    assert line.split("\n")[-1].partition(" ")[0] in said and "--config reground.toml" in said
    assert len(said.splitlines()) == 1
    after = {path for path in planted.rglob("*") if "home" not in path.parts[-3:]}
    assert after - before == {planted / "reground.toml"}


def test_a_file_that_was_named_may_run_code(home: Path) -> None:
    (home / "own.py").write_text("open('ran', 'w')\n")
    (home / "reground.toml").write_text('method = "./own.py"\nmodel = "openai/x"\n')
    assert run(["ask", "Why?", "--config", "reground.toml"]) == 2  # it is no method
    assert (home / "ran").exists()


def test_fields_of_requests_are_a_table_of_the_file_or_the_json_of_an_option(home: Path) -> None:
    with serving(MockOpenAI(lambda body: "Answer: W0")) as server:
        (home / "reground.toml").write_text(
            f'model = "openai/mock"\nmethod = "direct"\nbase_url = "{server.url}"\n\n[extra_body]\ntop_k = 3\n'
        )
        ask = ["ask", "Why?", "--config", "reground.toml"]
        assert run(ask) == 0
        assert run([*ask, "--extra-body", '{"top_k": 4}']) == 0, "which is another run"
        assert [body["top_k"] for body in server.received] == [3, 4]
        assert run([*ask, "--extra-body", "top_k=4"]) == 2


def test_what_the_user_set_counts_everywhere_and_for_least(home: Path, docs: Path, capsys) -> None:
    with serving(MockOpenAI(lambda body: body["model"], models=("user", "here", "own", "given"))) as server:
        where = ["--base-url", server.url, "--json"]

        def answering(*given: str) -> str:
            assert run(["ask", "Why?", *where, *given]) == 0
            return str(json.loads(capsys.readouterr().out)["answer"])

        for key, value in (("model", "openai/user"), ("method", "direct"), ("seed", "7"), ("corpus", "docs")):
            assert run(["config", "set", key, value]) == 0
        assert answering() == "user"
        (home / "reground.toml").write_text('model = "openai/here"\n')
        assert answering() == "here"
        (home / "own.toml").write_text('model = "openai/own"\n')
        assert answering("--config", "own.toml") == "own"
        assert answering("--config", "own.toml", "--model", "openai/given") == "given"
        assert json.loads(next((home / "home").rglob("config.json")).read_text())["seed"] == 7
        assert run(["retrieve", "Danube", "--web", "bing"]) == 2  # not "give one of them"
        assert "retired" in capsys.readouterr().err
        assert run(["config", "unset", "model"]) == 0 and run(["config"]) == 0
        kept = capsys.readouterr().out
        assert json.dumps(str(docs)) in kept and f'{home}/reground.toml\nmodel = "openai/here"\n' in kept
        wrong = ["seed x", "modle x", "corpus absent", "where tag=x", "model gpt", "rewriter gguf/smol", "method rarr"]
        for given in ("unset model", *(f"set {each}" for each in wrong)):
            assert run(["config", *given.split()]) == 2
        assert run(["config"]) == 0 and capsys.readouterr().out == kept
        (home / "reground.toml").write_text('trace = "t"\nk = 2\n[model_options]\nbase_url = "u"\napi_key_env = "K"\n')
        assert run(["config"]) == 0
        refused = [line.partition(" =")[0] for line in capsys.readouterr().err.splitlines()]
        assert refused == ["note: trace", "note: model_options.base_url", "note: model_options.api_key_env"]


def test_earlier_questions_are_listed_shown_and_gone_when_they_are_old(home: Path, docs: Path, capsys) -> None:
    assert run(["log"]) == 0 and capsys.readouterr().err
    model = ScriptedModel(lambda messages, sampling: "The Seine flows through Paris [1].")
    for question in ("What flows through Paris?", "Which river flows through Paris?"):
        first = reground.ask(question, corpus=docs, model=model)
        os.utime(first.trajectory_path, (time.time() - 7200,) * 2)
    assert run(["log"]) == 0 and "1 call" in (out := capsys.readouterr().out) and "2.0 h ago" in out
    assert out.index("Which river") < out.index("What flows") or "2 h" in out
    assert run(["log", "1"]) == 0 and "seine.md" in capsys.readouterr().out
    assert run(["log", "3"]) == 2 and run(["log", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    for mark in (home / "home" / "runs").glob(f"*/{MARK}"):
        os.utime(mark, (time.time() - 86400 * 91,) * 2)
    third = reground.ask("Is it long?", corpus=docs, model=model)
    assert [*(home / "home" / "runs").glob("ask-*")] == [third.trajectory_path.parent]
