"""Ollama by its own name: no key, no setup, a clear line where it does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from reground.app import catalogue
from reground.app.cli import run
from reground.core.errors import ConfigurationError, ModelError, TransientModelError
from reground.core.language import Message, Sampling
from reground.models.options import ModelOptions
from reground.models.servers import OLLAMA, ollama_url
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

ASK = (Message(role="user", content="one two"),)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("box", "http://box:11434/v1"),
        ("box:1234", "http://box:1234/v1"),
        ("http://box", "http://box:80/v1"),
        ("https://box/ollama/", "https://box:443/ollama/v1"),
        ("http://box:1234/v1", "http://box:1234/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert ollama_url() == url


@pytest.mark.parametrize("host", ["box:port", "ftp://box"])
def test_what_is_no_address_is_said(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(ConfigurationError, match="OLLAMA_HOST"):
        OLLAMA.create("llama3.2", ModelOptions())


async def test_a_model_that_is_not_there_says_how_to_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MockOpenAI(models=("llama3.2:latest",)) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        model = OLLAMA.create("qwen3", ModelOptions())
        with pytest.raises(ModelError, match="ollama pull qwen3"):
            await model.generate(ASK, Sampling())
        await model.aclose()


async def test_a_server_that_never_answered_is_not_waited_for_and_one_that_did_is() -> None:
    async with MockOpenAI() as server:
        url = server.url
        model = OLLAMA.create("mock", ModelOptions(base_url=url))
        await model.generate(ASK, Sampling())
    with pytest.raises(TransientModelError, match=r"cut the connection|OLLAMA_HOST"):
        await model.generate(ASK, Sampling())
    await model.aclose()
    fresh = OLLAMA.create("mock", ModelOptions(base_url=url))
    with pytest.raises(ModelError, match="ollama serve") as refused:
        await fresh.generate(ASK, Sampling())
    assert not isinstance(refused.value, TransientModelError)
    await fresh.aclose()


async def test_its_models_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MockOpenAI(models=("llama3.2:latest", "qwen3:8b")) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        assert [each.name for each in await OLLAMA.available(ModelOptions())] == [
            "ollama/llama3.2:latest",
            "ollama/qwen3:8b",
        ]
    (gone,) = await OLLAMA.available(ModelOptions())
    assert not gone.usable
    assert "ollama serve" in gone.why
    assert "ollama" in catalogue.providers()


def test_it_answers_from_the_command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["ask", "Why?", "--method", "direct", "--model", "ollama/llama3.2", "-q"]
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert "cannot reach http://127.0.0.1:9/v1" in said and "ollama serve" in said
    assert len(said.strip().splitlines()) == 1
    with serving(MockOpenAI(lambda body: "Because.", models=("llama3.2",))) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        assert run([*arguments, "--budget-usd", "1"]) == 0
    assert "Because." in capsys.readouterr().out
