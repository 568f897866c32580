"""Who may ask a server without keys, by the names under which it is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reground.app.options import Serve
from reground.app.serving.keys import Keys, new_key
from reground.app.serving.server import application
from reground.models.scripted import ScriptedModel
from tests.app.serving.served import engine_of


def status(home: Path, host: str, headers: dict[str, str], *, keys: Keys | None = None, **options: Any) -> int:
    """What a server that listens at this host, for others too, answers to a request for its models."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        engine = engine_of(home, ScriptedModel([]))
        app = application(engine, Serve(host=host, home=home, no_keys=keys is None, **options), keys, here=False)
        lines = [(name.encode(), said.encode()) for name, said in headers.items()]
        scope = {"type": "http", "method": "GET", "path": "/v1/models", "headers": lines}
        await app(scope, None, send)  # type: ignore[arg-type]
        engine.close()

    asyncio.run(main())
    return int(sent[0]["status"])


@pytest.mark.parametrize("listening", ["0.0.0.0", "::", "10.1.2.3"])
def test_a_name_turned_to_an_address_without_keys_is_refused(listening: str, tmp_path: Path) -> None:
    evil = "evil.example:8000"
    assert status(tmp_path, listening, {"host": evil, "origin": f"http://{evil}"}) == 403
    assert status(tmp_path, listening, {"host": evil}) == 403
    for name in ("10.1.2.3:8000", "localhost:8000", "[fd00::1]:8000"):
        assert status(tmp_path, listening, {"host": name}) == 200


def test_a_name_that_the_user_gave_is_taken(tmp_path: Path) -> None:
    assert status(tmp_path, "chat.example", {"host": "chat.example:8000"}) == 200
    named = {"allow_origin": ["http://reground:8000"]}
    assert status(tmp_path, "0.0.0.0", {"host": "reground:8000"}, **named) == 200
    assert status(tmp_path, "0.0.0.0", {"host": "other:8000"}, **named) == 403
    assert status(tmp_path, "0.0.0.0", {"host": "other:8000"}, allow_origin=["*"]) == 200


def test_with_keys_any_name_may_be_asked(tmp_path: Path) -> None:
    key = new_key(tmp_path / "keys.jsonl", "me")
    headers = {"host": "ai.example.org", "authorization": f"Bearer {key}"}
    assert status(tmp_path, "0.0.0.0", headers, keys=Keys(tmp_path / "keys.jsonl")) == 200
