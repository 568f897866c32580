"""Which models `reground models` and `reground ask` offer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from reground.app.catalogue import found_servers, model_listings
from reground.app.cli import run
from reground.app.cli.ask import other_models_offered
from reground.app.options import DEFAULT_MODEL
from reground.core.errors import ConfigurationError, MissingExtra
from reground.downloads import PullError
from reground.models import LOCAL_SERVERS
from reground.models.options import ModelOptions
from reground.models.pull import ALIASES
from reground.testing.openai_server import MockOpenAI
from tests.models import small_model
from tests.servers import Recorded, RecordedServer, serving

MODEL = DEFAULT_MODEL.removeprefix("gguf/")


@pytest.fixture(scope="module")
def weights() -> Path:
    return small_model(MODEL)


@pytest.fixture(autouse=True)
def no_key(home: Path, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")


def test_found_servers_are_listed_with_the_words_to_type(capsys, monkeypatch) -> None:
    with serving(MockOpenAI(models=("llama3.2:latest",))) as near, serving(MockOpenAI(models=("big",))) as far:
        monkeypatch.setenv("OLLAMA_HOST", near.url)
        monkeypatch.setenv("OPENAI_BASE_URL", far.url)
        assert run(["models"]) == 0
        said = capsys.readouterr().out
        assert run(["models", "--json"]) == 0
        rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
        assert f"  yes --model ollama/llama3.2:latest  {near.url}\n" in said
        assert f"  yes --model openai/big  {far.url}, no key\n" in said
        assert "no  anthropic/<model>  ANTHROPIC_API_KEY is not set" in said
        row = rows["ollama/llama3.2:latest"]
        assert (row["usable"], row["server"], row["use"]) == (True, near.url, "--model ollama/llama3.2:latest")
        assert rows["gemini/<model>"]["use"] is None
        # the words are right: they choose the model
        assert run(["ask", "Why?", "-m", "direct", "-q", *row["use"].split()]) == 0
    assert "Why?" in capsys.readouterr().out


def test_very_many_models_are_not_all_printed(capsys, monkeypatch) -> None:
    with serving(MockOpenAI(models=[f"m{n:03}" for n in range(120)])) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        assert run(["models"]) == 0
        said = capsys.readouterr().out
        assert run(["models", "--json"]) == 0
    assert "ollama/m019" in said and "ollama/m020" not in said and "and 100 more; --json lists them all" in said
    assert "ollama/m119" in capsys.readouterr().out


def test_a_wrong_setting_of_one_provider_is_its_line(capsys, monkeypatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "ftp://box")
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    assert run(["models"]) == 0
    said = capsys.readouterr().out
    assert "no  ollama/<model>  OLLAMA_HOST must look like" in said
    assert "no  openai/<model>  the base URL" in said
    assert "gguf/smollm2" in said


async def test_all_are_asked_at_once(monkeypatch) -> None:
    open_now: set[asyncio.StreamWriter] = set()
    most = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most
        open_now.add(writer)
        most = max(most, len(open_now))
        await reader.read(-1)
        open_now.discard(writer)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    monkeypatch.setenv("OLLAMA_HOST", url)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    listings = await model_listings(ModelOptions(), only=("ollama", "openai"))
    server.close()
    assert most == 2
    assert all("did not answer within 0.9 s" in line.why for lines in listings.values() for line in lines)


async def test_what_is_found_is_on_this_machine_only(monkeypatch) -> None:
    async with MockOpenAI() as elsewhere, MockOpenAI(models=("llama3.2",)) as near:
        monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.url)
        monkeypatch.setenv("OLLAMA_HOST", near.url)
        found = await found_servers()
    assert "ollama/llama3.2" in {line.name for line in found}
    assert {line.name.partition("/")[0] for line in found} <= set(LOCAL_SERVERS)


class TestWhereNoModelIsNamed:
    @pytest.mark.parametrize("error", [MissingExtra("gguf/smollm2", "local"), PullError("no network")])
    def test_the_error_names_a_server_that_answers(self, error: MissingExtra | PullError, monkeypatch) -> None:
        said = str(error)
        with serving(MockOpenAI(models=("llama3.2", "qwen3"))) as server:
            monkeypatch.setenv("OLLAMA_HOST", server.url)
            with pytest.raises(type(error)) as named, other_models_offered(is_named=True):
                raise error
            assert str(named.value) == said
            with pytest.raises(type(error)) as offered, other_models_offered(is_named=False):
                raise error
        assert str(offered.value).startswith(f"{said}; or take a model that answers on this machine: --model ollama/")
        assert "more: reground models" in str(offered.value)

    def test_another_error_stays_as_it_is(self) -> None:
        with pytest.raises(ConfigurationError, match=r"^wrong$"), other_models_offered(is_named=False):
            raise ConfigurationError("wrong")

    def test_ask_asks_no_server_where_a_model_is_named(self, home: Path, capsys, monkeypatch) -> None:
        listing = Recorded(200, '{"object": "list", "data": [{"id": "llama3.2"}]}')
        with serving(RecordedServer([listing])) as server, serving(MockOpenAI()) as named:
            monkeypatch.setenv("OLLAMA_HOST", server.url)
            monkeypatch.setenv("OPENAI_BASE_URL", named.url)
            assert run(["ask", "Why?", "-m", "direct", "--model", "openai/mock"]) == 0
            assert "ollama" not in capsys.readouterr().err
            (home / "reground.toml").write_text('model = "openai/mock"\n')
            assert run(["ask", "Why?", "-m", "direct"]) == 0
        assert "ollama" not in capsys.readouterr().err
        assert server.asked == []

    @pytest.mark.slow
    @pytest.mark.parametrize("command", ["ask", "demo"])
    def test_the_default_model_answers_and_what_else_there_is_is_said(
        self, command: str, weights: Path, home: Path, capsys, monkeypatch: Any
    ) -> None:
        (home / "home" / "models").mkdir(parents=True)
        (home / "home" / "models" / ALIASES[MODEL].file).symlink_to(weights)
        with serving(MockOpenAI(models=("llama3.2",))) as server:
            monkeypatch.setenv("OLLAMA_HOST", server.url)
            assert run([command, "Which sea?", "-m", "direct"]) == 0
            said = capsys.readouterr().err
            assert run(["ask", "Which sea?", "-m", "direct", "-q"]) == 0
        assert "--model ollama/llama3.2" in " ".join(said.split())
        assert "ollama" not in capsys.readouterr().err
        assert server.received == []  # it is offered, not used
