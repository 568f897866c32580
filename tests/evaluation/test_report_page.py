"""The report's page in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from reground.evaluation.report import build_reports
from reground.evaluation.web_page import as_html
from tests.browser import browser_page
from tests.evaluation.test_report import write_run


@pytest.mark.parametrize("dark", [False, True])
async def test_the_page_can_be_used_and_complains_of_nothing(tmp_path: Path, dark: bool) -> None:
    write_run(tmp_path / "one", "rag", [1.0, 0.0, 1.0])
    write_run(tmp_path / "two", "<script>alert(1)</script>", [0.0, 0.0, 1.0])
    page = tmp_path / "report.html"
    page.write_text(as_html(build_reports([tmp_path / "one", tmp_path / "two"])), encoding="utf-8")
    async with browser_page(width=400, dark=dark) as browsed:
        await browsed.page.goto(page.as_uri())
        assert "<script>alert(1)</script>" in await browsed.page.inner_text("body")
        assert await browsed.unusable() == []
        assert browsed.complaints == []
