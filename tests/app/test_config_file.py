"""The configuration file takes every option by its name, for every command that reads it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from reground.app.cli import run
from reground.app.cli.commands import cli
from reground.app.cli.flags import check_found, config_keys
from reground.core.errors import ConfigurationError
from reground.models.options import ModelOptions
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
        assert run(["eval"]) == 0
        config = json.loads((home / "RUN" / "config.json").read_text())
        assert (config["seed"], config["limit"], config["method"], config["budget"]["calls"]) == (5, 3, "direct", 9)
        assert config["settings"]["max_tokens"] == 99
        assert server.most_at_once <= 2
        assert run(["eval", "--limit", "4"]) == 0
        assert run(["ask", "Why?"]) == 0
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


CODE = ["method", "web", "retriever", "task"]


@pytest.mark.parametrize("key", CODE)
@pytest.mark.parametrize("value", ["./own.py", "own.py:NAME", "brave, own.py:search"])
def test_a_file_that_only_lay_here_runs_no_code(key: str, value: str, home: Path, capsys) -> None:
    (home / "own.py").write_text("open('ran', 'w')\n")
    (home / "reground.toml").write_text(f'{key} = "{value}"\n')
    assert run(["ask", "Why?", "--model", "openai/x", "--base-url", "http://127.0.0.1:9/v1"]) == 2
    said = capsys.readouterr().err
    assert f"{key} in reground.toml names code" in said and "pass --config reground.toml" in said
    assert not (home / "ran").exists()


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
        assert run(["ask", "Why?"]) == 0
        assert run(["ask", "Why?", "--extra-body", '{"top_k": 4}']) == 0, "which is another run"
        assert [body["top_k"] for body in server.received] == [3, 4]
        assert run(["ask", "Why?", "--extra-body", "top_k=4"]) == 2


def test_a_file_that_only_lay_here_sends_no_key_that_it_names(home: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "sk-other-key-of-the-user")
    with serving(MockOpenAI(lambda body: "Answer: W0")) as server:
        (home / "reground.toml").write_text(
            f'model = "openai/mock"\nmethod = "direct"\nbase_url = "{server.url}"\napi_key_env = "OTHER_KEY"\n'
        )
        assert run(["ask", "Why?"]) == 2
        assert "pass --config reground.toml" in capsys.readouterr().err
        assert not server.most_at_once
        assert run(["ask", "Why?", "--config", "reground.toml"]) == 0


@pytest.mark.parametrize(
    "address", ["https://example.org/v1", "http://10.0.0.7:8000/v1", "http://localhost@example.org/v1", "http://[::1"]
)
def test_a_file_that_only_lay_here_sends_nothing_to_another_machine(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"on another machine.*pass --config reground\.toml"):
        check_found({"model": "openai/x", "base_url": address})
    with pytest.raises(ConfigurationError, match="on another machine"):
        check_found({"model_options": {"base_url": address}})


@pytest.mark.parametrize("host", ["localhost:8000", "LOCALHOST", "127.0.0.1", "[::1]:8000"])
def test_a_file_that_only_lay_here_may_name_a_server_of_this_machine(host: str) -> None:
    check_found({"model": "openai/x", "base_url": f"http://{host}/v1"})


@pytest.mark.parametrize("key", ["web_network", "allow_origin", "no_keys", "keys", "host"])
def test_a_file_that_only_lay_here_opens_no_edge(key: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{key}.*pass --config reground\.toml"):
        check_found({key: ["10.0.0.0/8"]})


def test_a_text_with_a_dot_is_no_code(home: Path) -> None:
    check_found({"corpus": "docs.python", "settings": {"prompts": {"answer": "Write a.py. Then {question}"}}, "k": 3})
