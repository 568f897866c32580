"""Values that no option, setting or file should hold: one clear line, the right exit code, and soon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from reground.app.cli import run
from reground.app.cli.commands import cli
from reground.core.errors import ConfigurationError, DataError, IndexRefused, RegroundError
from reground.evaluation.compare import read_plan
from reground.models.options import ModelOptions
from reground.retrieval.documents import SourceFile, read_jsonl
from reground.retrieval.storage import read_manifest
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

HUGE = "99999999999999999999"


@pytest.fixture(autouse=True)
def server(docs: Path, monkeypatch) -> Iterator[MockOpenAI]:
    with serving(MockOpenAI(lambda body: "Answer: yes")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def refused(arguments: list[str], capsys) -> str:
    """The one line in which a command line is refused."""
    code, said = run(arguments), capsys.readouterr()
    assert code == 2, said.err
    (line,) = said.err.splitlines()
    assert line.startswith("error: ")
    assert len(line) < 1_500
    assert said.out == ""
    return line


ASK = ["ask", "Why?", "--corpus", "docs", "--model", "openai/mock", "--quiet"]


@pytest.mark.parametrize(
    ("method", "setting", "says"),
    [
        ("cr_planner", f"candidates={HUGE}", "candidates"),
        ("cr_planner", "candidates=1000000", "candidates"),
        ("self_consistency", f"n={HUGE}", "n"),
        ("rag", f"k={HUGE}", "k"),
        ("rag", f"max_tokens={HUGE}", "max_tokens"),
        ("rar", f"max_rounds={HUGE}", "max_rounds"),
        ("direct", "temperature=1e308", "temperature"),
        ("direct", "temperature=" + "9" * 400, "temperature"),
        ("direct", "max_tokens=" + "9" * 5_000, "max_tokens"),
        ("direct", "max_tokens=" + "[" * 3_000, "max_tokens"),
        ("direct", "max_tokens=0x" + "f" * 5_000, "max_tokens"),
        ("rag", "k=-" + "9" * 400, "k"),
        ("reflexion", "seconds=1" + "0" * 400, "seconds"),
        ("direct", "x" * 20_000, "--set"),
    ],
)
def test_a_setting_out_of_bounds_is_refused(method: str, setting: str, says: str, capsys) -> None:
    assert says in refused([*ASK, "--method", method, "--set", setting], capsys)


@pytest.mark.parametrize("option", ["--budget-tokens", "--budget-calls", "--budget-seconds", "--seed", "--threads"])
@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "nan", "inf"])
def test_a_number_that_counts_nothing_is_refused(option: str, number: str, capsys) -> None:
    for command in ([*ASK, "--method", "direct", option, number], ["compare", "--task", "x", "--budgets", number]):
        assert run(command) == 2
        assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        *(["show", "-n", "1"], ["view"], [*ASK, "--config"], [*ASK, "-m", "rat", "--draft"], [*ASK, "--trace"]),
        *(["check", *given] for given in (["--corpus=docs"], ["--corpus=docs", "--answers"])),
        *(["check", "--text=A river.", "--corpus=docs", "--html"], ["serve", "--new-key=x", "--keys"]),
    ],
)
@pytest.mark.parametrize("device", ["/dev/zero", "pipe"])
def test_a_file_that_never_ends_or_never_begins_is_refused(command: list[str], device: str, home: Path, capsys) -> None:
    os.mkfifo(home / "pipe")
    if device == "/dev/zero" and not {"--html", "--keys"}.isdisjoint(command):
        return  # a fault would take its place
    assert run([*command, device]) == 2
    assert "is a device or a pipe" in capsys.readouterr().err and (home / "pipe").is_fifo()


def test_a_link_that_leads_to_itself_is_no_internal_error(home: Path, monkeypatch, capsys) -> None:
    (home / "loop").symlink_to("loop")
    for command in ([*ASK, "--trace"], ["index", "docs", "--out"], ["view"], ["serve", "--corpus"]):
        assert run([*command, "loop/x"]) == 2, command
    monkeypatch.setenv("REGROUND_HOME", str(home / "loop"))
    assert run([*ASK, "-m", "rag"]) == 2 and "symbolic links" in capsys.readouterr().err


NAMED = [
    *([*ASK, f"--model={model}"] for model in ("gguf/{}", "gguf/o/r:{}.gguf", "gguf/{}/r:x.gguf", "hf/./{}")),
    *([*ASK, option] for option in ("--corpus={}", "--trace={}", "--method={}.py")),
    *(["index", "{}"], ["index", "docs", "--out={}"], ["show", "{}"], ["view", "{}"], ["report", "{}"]),
    *(["serve", "--new-key=x", "--keys={}"], ["chat", "--resume", "--conversation={}"]),
]


@pytest.mark.parametrize("command", NAMED)
def test_a_name_that_no_file_can_have_is_refused(command: list[str]) -> None:
    for name in ("a" * 400, "b/" * 3000, "c\0", "\ud800"):
        with pytest.raises((RegroundError, typer.BadParameter)) as refused:
            cli(args=[word.replace("{}", name) for word in command], standalone_mode=False)
        assert len(str(refused.value)) < 1_500


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ('modell = "x"', "did you mean model"),
        ("budget = 5", "[budget]"),
        ("settings = 5", "[settings]"),
        ("[model]\nname = 5", "model in the configuration is no table"),
        ('timeout = "long"', "timeout"),
        ("attempts = 0", "attempts"),
        ("[budget]\ntoken = 5", "token"),
        ("[budget]\ntokens = -5", "tokens"),
        ("[settings]\nkk = 5", "no setting 'kk'"),
        ("price = 5", "PROMPT,COMPLETION"),
        ("timeout = " + "9" * 400, "timeout"),
        ("base_url = 5", "base URL"),
        ("x = " + "[" * 3_000, "TOML"),
        ("x = " + "9" * 5_000, "TOML"),
        ("k = 0x" + "f" * 5_000, "TOML"),
        *((f"{table}{'.a' * 30_000} = 1", "TOML") for table in ("settings", "extra_body")),
        ('[settings]\ntemperature = "x"', "temperature"),
        ("language = 5", "language"),
    ],
)
def test_a_configuration_of_wrong_types_is_refused(written: str, says: str, capsys, tmp_path: Path) -> None:
    (tmp_path / "reground.toml").write_text(written + "\n")
    assert says in refused([*ASK, "--method", "direct", "--config", str(tmp_path / "reground.toml")], capsys)


@pytest.mark.parametrize(
    ("name", "value"),
    [("base_url", 5), ("api_key_env", 5), ("adapter", 5), ("cache", [1]), ("timeout", 10**400), ("attempts", 10**20)],
)
def test_a_model_option_of_the_wrong_type_or_size_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        ModelOptions(**{name: value})


DEEP = "[" * 5_000


def test_deep_nesting_in_files_that_are_read_back_is_refused_by_name(tmp_path: Path) -> None:
    for name in ("compare.json", "manifest.json", "corpus.jsonl"):
        (tmp_path / name).write_text(DEEP)
    with pytest.raises(DataError, match=r"\.json"):
        read_plan(tmp_path)
    with pytest.raises(IndexRefused, match=r"manifest\.json is not JSON"):
        read_manifest(tmp_path)
    with pytest.raises(DataError, match=r"line 1: .*nested too deeply"):
        list(read_jsonl(SourceFile(tmp_path / "corpus.jsonl", "corpus.jsonl", 5_000, 0)))
