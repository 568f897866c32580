from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reground.evaluation.exports import as_csv, as_data, as_json, as_markdown
from reground.evaluation.report import build_reports, write_report
from reground.evaluation.tables import Report
from reground.evaluation.web_page import as_html
from tests.evaluation.test_report import write_run


class Page(HTMLParser):
    """What a browser would see of a page: its tags with attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def report(tmp_path: Path) -> Report:
    write_run(tmp_path / "direct", "direct", [0.0, 1.0] * 6)
    write_run(tmp_path / "rar", "rar", [1.0] * 11 + [None], why="<b>no gold</b>")
    (made,) = build_reports([tmp_path])
    return made


def test_the_page_has_all_that_the_report_says(report: Report, tmp_path: Path) -> None:
    write_report([report], tmp_path / "out")
    page = Page(as_html([report]))
    assert not page.open
    text = "".join(page.texts)
    assert report.verdict is not None
    for said in (report.verdict.text, *report.notes, *(table.title for table in report.tables)):
        assert said in text
    cells = [cell for table in report.tables for row in table.rows for cell in row]
    assert sum(tag == "td" for tag, _ in page.tags) == len(cells)
    assert sum(tag == "img" for tag, _ in page.tags) == sum(plot.suffix == ".svg" for plot in report.plots) > 0
    assert "prefers-color-scheme: dark" in text


def test_the_page_needs_nothing_else_and_may_load_nothing_else(report: Report, tmp_path: Path) -> None:
    write_report([report], tmp_path / "out")
    page = Page(as_html([report]))
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    sources = [own["src"] for tag, own in page.tags if tag == "img"]
    assert all(source is not None and source.startswith("data:image/svg+xml;base64,") for source in sources)
    policy = next(own["content"] for _, own in page.tags if own.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_hostile_names_and_texts_stay_text(tmp_path: Path) -> None:
    hostile = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
    write_run(tmp_path / "a", "direct", [0.0, 1.0], task=hostile, model=hostile)
    write_run(tmp_path / "b", hostile, [1.0, None], task=hostile, model=hostile, why=hostile)
    (report,) = build_reports([tmp_path])
    page = Page(as_html([report]))
    assert not any(tag in ("script", "img") or any(name.startswith("on") for name in own) for tag, own in page.tags)
    assert hostile in "".join(page.texts)


def test_a_line_of_csv_is_a_run_with_unrounded_numbers(report: Report) -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv([report]))))
    assert [line["run"] for line in lines] == ["direct@1k", "rar@1k"]
    direct, rar = lines
    headers = as_csv([report]).splitlines()[0].split(",")
    assert len(headers) == len(set(headers))
    assert "mean of em" not in headers
    assert (float(direct["mean"]), float(rar["mean"])) == (0.5, 1.0)
    assert (direct["difference"], float(rar["difference"])) == ("", pytest.approx(6 / 11))
    assert float(rar["difference p_holm"]) == report.rows[1].adjusted
    assert (rar["unscored"], rar["choice"], direct["choice"]) == ("1", "yes", "no")
    assert (float(rar["mean of f1"]), float(rar["tokens"])) == (0.5, 120)
    assert rar["undominated"] == "tokens seconds usd"


def test_a_spreadsheet_takes_no_text_for_a_formula(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "=HYPERLINK(1)", [0.0, 1.0], model='+1,"x"\n')
    (line,) = csv.DictReader(io.StringIO(as_csv(build_reports([tmp_path / "a"]))))
    assert (line["method"], line["model"]) == ("'=HYPERLINK(1)", '\'+1,"x"\n')


def test_several_tasks_are_in_one_file_of_each_format(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "rar", [1.0, 0.0])
    write_run(tmp_path / "b", "rar", [1.0, 0.0], task="other")
    reports = build_reports([tmp_path])
    assert [each["task"] for each in json.loads(as_json(reports))["reports"]] == ["sums", "other"]
    assert as_data(reports) == json.loads(as_json(reports))
    assert len(as_csv(reports).splitlines()) == 3
    assert re.findall("<h1>(.*)</h1>", as_html(reports)) == ["sums", "other"]


def test_markdown_for_the_terminal_has_no_pictures(report: Report, tmp_path: Path) -> None:
    text, *_ = write_report([report], tmp_path / "out")
    assert "![" in text.read_text()
    assert "![" not in as_markdown(report)
