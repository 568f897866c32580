"""A SearXNG server of one's own, where REGROUND_SEARXNG says where it is."""

from __future__ import annotations

import os

import pytest

from reground.web.engines import engine

URL = os.environ.get("REGROUND_SEARXNG", "")


@pytest.mark.skipif(not URL, reason="REGROUND_SEARXNG does not name a SearXNG server")
async def test_a_real_server_is_searched() -> None:
    searxng = engine(f"searxng:{URL}")
    found = await searxng.search("clock", k=3)
    await searxng.aclose()  # type: ignore[attr-defined]
    assert 0 < len(found) <= 3
    assert all(each.url.startswith("http") and each.title for each in found)
