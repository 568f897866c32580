"""A real browser for tests of pages: Chromium where the machine has one, with what the page complained of."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Browsed:
    """A page in a browser. complaints: errors of its scripts and of its console, and requests that failed."""

    page: Any
    complaints: list[str] = field(default_factory=list)

    async def unusable(self) -> list[str]:
        """What axe-core finds that keeps people from using the page: its serious and critical findings."""
        from axe_playwright_python.async_playwright import Axe

        found = (await Axe().run(self.page)).response["violations"]
        return [
            f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:200]}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:3]
        ]


@asynccontextmanager
async def browser_page(*, width: int = 1200, height: int = 900, dark: bool = False) -> AsyncIterator[Browsed]:
    """A new page of a browser of its own. The test is skipped where there is no browser."""
    pytest.importorskip("playwright", reason="needs playwright, see CONTRIBUTING.md")
    from playwright.async_api import async_playwright

    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("needs a browser: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            page = await browser.new_page(
                viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
            )
            browsed = Browsed(page)
            page.on("pageerror", lambda error: browsed.complaints.append(f"script: {error}"))
            page.on("console", lambda said: said.type == "error" and browsed.complaints.append(f"console: {said.text}"))
            page.on("requestfailed", lambda request: browsed.complaints.append(f"request: {request.url}"))
            yield browsed
        finally:
            await browser.close()
