from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len
from rich.console import Console

from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, DataError
from reground.core.language import Usage
from reground.core.trajectory import Failure
from reground.evaluation.report import Table, as_data, as_markdown, build_reports, write_report
from reground.evaluation.results import Record, RunConfig, Stage, open_run, summarise, write_stored
from reground.evaluation.task import Score
from reground.evaluation.tasks.longform import METRIC


def write_run(
    path: Path,
    method: str,
    values: list[float | None],
    *,
    usd: float | None = 0.01,
    failed: int = 0,
    finished: bool = True,
    stopped: str | None = None,
    cut: bool = False,
    why: str = "",
    scoring: str | None = None,
    tokens: int | None = 1000,
    **config: object,
) -> None:
    """A run of a method whose questions have these values of its metric, and some that failed."""
    fields = {"task": "sums", "data": "d", "primary": "em", "form": "phrase", "model": "m/one", **config}
    identity = RunConfig(method=method, budget=Budget(tokens=tokens), **fields)
    spent = {"usage": Usage(calls=2, prompt=100, cached=40, completion=20, usd=usd), "seconds": 3.0}
    records = [
        Record(
            id=f"q{i}~{repeat}",
            example=f"q{i}",
            repeat=repeat,
            scores={} if scoring else {"em": Score(value=value, why=why), "f1": Score(value=0.5)},
            stages={"draft": Stage(calls=2, prompt=100, completion=20, seconds=3.0)},
            stopped=stopped,
            cut=cut,
            scoring=scoring,
            answer="x",
            metadata={"level": "easy" if i % 2 else "hard"},
            **spent,
        )
        for i, value in enumerate(values)
        for repeat in range(identity.repeats)
    ]
    failure = Failure(type="ModelError", message="no")
    records += [Record(id=f"f{i}~0", example=f"f{i}", repeat=0, failure=failure, **spent) for i in range(failed)]
    store(path, identity, records, expected=len(records) if finished else 99)


def store(path: Path, config: RunConfig, records: list[Record], *, expected: int) -> None:
    with open_run(path, config) as folder:
        for record in records:
            folder.append_record(record)
        write_stored(folder.path / "summary.json", summarise(config, records, expected=expected))


def test_the_tables_hold_means_intervals_differences_and_cost(tmp_path: Path) -> None:
    write_run(tmp_path / "direct", "direct", [1.0, 0.0, 0.0, 0.0])
    write_run(tmp_path / "rar", "rar", [1.0, 1.0, 1.0, 0.0], failed=1)
    (report,) = build_reports([tmp_path])
    results, every = report.tables
    assert report.baseline == "direct"
    assert results.headers == [
        "method", "budget", "em", "95 % interval", "minus direct", "95 % interval", "p (Holm)",
        "calls", "tokens", "USD", "seconds", "scored", "unscored", "failed",
    ]  # fmt: skip
    direct, rar = results.rows
    assert direct == ["direct", "1k", "0.250", "0.000–0.750", *"–––", "2.0", "120", "0.01000", "3.0", *"400"]
    assert rar[:3] + rar[4:7] == ["rar", "1k", "0.750", "+0.500", "+0.000 to +1.000", "0.500"]
    assert rar[-3:] == ["4", "0", "1"]
    assert [row[2:4] for row in every.rows] == [["em", "0.250"], ["f1", "0.500"], ["em", "0.750"], ["f1", "0.500"]]
    assert every.rows[2][5] == "0.600"
    assert any("rar@1k: 1 of 5 failed (1 x ModelError: " in note and "0.600" in note for note in report.notes)


def test_methods_are_compared_at_the_same_budget_and_model_only(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "direct", [0.0] * 6, tokens=1000)
    write_run(tmp_path / "b", "rar", [1.0] * 6, tokens=1000)
    write_run(tmp_path / "c", "rar", [1.0] * 6, tokens=2000)
    write_run(tmp_path / "d", "rar", [1.0] * 6, tokens=1000, model="m/two")
    (report,) = build_reports([tmp_path])
    by_label = {(r.config.model, r.config.method, r.config.budget.tokens): r for r in report.rows}
    assert by_label["m/one", "rar", 1000].comparison is not None
    assert by_label["m/one", "rar", 1000].comparison.p == 2 / 2**6
    assert by_label["m/one", "rar", 2000].comparison is None
    assert by_label["m/two", "rar", 1000].comparison is None
    assert report.tables[0].headers[2] == "model"
    assert [row.config.model for row in report.rows] == ["m/one"] * 3 + ["m/two"]


def test_a_baseline_can_be_chosen_and_must_be_there(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "cot", [0.0, 1.0])
    write_run(tmp_path / "b", "rar", [1.0, 1.0])
    assert build_reports([tmp_path])[0].baseline == "cot"
    (report,) = build_reports([tmp_path], baseline="rar")
    assert report.tables[0].rows[0][0] == "rar"
    assert report.tables[0].rows[1][4:7] == ["-0.500", "-1.000 to +0.000", "1.000"]
    with pytest.raises(ConfigurationError, match="there are cot, rar"):
        build_reports([tmp_path], baseline="direct")
    with pytest.raises(DataError, match="no run folder"):
        build_reports([tmp_path / "nowhere"])


def test_groups_are_told_apart(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "rar", [1.0, 0.0, 1.0, 0.0])
    (report,) = build_reports([tmp_path / "a"], by="level")
    table = report.tables[-1]
    assert table.title == "sums: em by level"
    assert [row[2:4] for row in table.rows] == [["easy", "0.000"], ["hard", "1.000"]]
    with pytest.raises(ConfigurationError, match=r"no question has a field 'levl'; did you mean level\?"):
        build_reports([tmp_path / "a"], by="levl")


def test_what_a_reader_must_know_is_said(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "rar", [1.0, None], why="no gold answer", usd=None, finished=False)
    write_run(tmp_path / "b", "rat", [1.0, 1.0], repeats=3, stopped="tokens", usd=None)
    write_run(tmp_path / "c", "cot", [None], scoring="ValueError: broken", usd=None, cut=True)
    (report,) = build_reports([tmp_path])
    said = "\n".join(report.notes)
    for expected in (
        "rar@1k is not finished: 2 questions so far",
        "rar@1k: 1 answered but unscored (no gold answer)",
        "rat@1k: the budget ended 6 early (6 by tokens)",
        "rat@1k: 3 repeats gave the same short answer for 2 of 2 questions",
        "cot@1k: 1 answered but unscored (ValueError: broken)",
        "cot@1k: the last reply of 1 of 1 was cut at its length limit",
        "USD is unknown",
    ):
        assert expected in said
    assert report.tables[0].rows[0][6] == "–"


def test_a_stale_summary_is_made_anew_from_the_scores(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "rar", [1.0, 0.0])
    (tmp_path / "a" / "summary.json").unlink()
    (report,) = build_reports([tmp_path / "a"])
    assert report.rows[0].primary.mean == 0.5
    assert not report.rows[0].summary.finished


def test_the_report_is_written_with_its_plots_the_same_every_time(tmp_path: Path) -> None:
    for method, values in (("direct", [1.0, 0.0, 0.0, 1.0]), ("rar", [1.0, 1.0, 0.0, 1.0])):
        for tokens in (1000, 4000, 16000):
            for model in ("m/one", "m/two"):
                write_run(
                    tmp_path / "runs" / f"{method}{tokens}{model[2:]}", method, values, tokens=tokens, model=model
                )
    first = write_report(build_reports([tmp_path / "runs"]), tmp_path / "one")
    second = write_report(build_reports([tmp_path / "runs"]), tmp_path / "two")
    assert [file.name for file in first] == ["report.md", "report.json", "sums-tokens.svg", "sums-tokens.png"]
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name
    assert ElementTree.parse(first[2]).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert first[3].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    text = first[0].read_text()
    assert text.startswith("# sums\n")
    assert "Baseline: direct." in text
    assert "| direct | 1k | m/one | 0.500 |" in text
    assert "](sums-tokens.svg)" in text


def test_several_tasks_have_a_part_each(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "rar", [1.0, 0.0], usd=None)
    write_run(tmp_path / "b", "rar", [1.0, 0.0], task="Products 2", usd=None)
    reports = build_reports([tmp_path])
    files = write_report(reports, tmp_path / "out")
    assert [r.task for r in reports] == ["sums", "Products 2"]
    assert [f.name for f in files if f.suffix == ".svg"] == ["sums-tokens.svg", "products-2-tokens.svg"]
    assert [each["task"] for each in as_data(reports)["reports"]] == ["sums", "Products 2"]
    assert (tmp_path / "out" / "report.md").read_text().count("\n# ") == 1


def test_a_run_without_a_single_score_has_no_point_and_no_plot(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "rar", [None, None])
    files = write_report(build_reports([tmp_path / "a"]), tmp_path / "out")
    assert [file.name for file in files] == ["report.md", "report.json"]
    assert "| rar | 1k | – | – |" in files[0].read_text()


def test_tables_print_on_a_terminal_and_escape_markdown() -> None:
    table = Table("a title", ["method", "em"], [["a|b [bold]", "0.5"]], words=1)
    assert "a\\|b" in table.markdown()
    assert "| --- | ---: |" in table.markdown()
    assert "a|b [bold]" in printed(table, 80)


@pytest.mark.parametrize("width", [40, 80, 100, 140, 10_000])
def test_no_number_is_broken_and_what_has_no_room_is_named(width: int) -> None:
    cells = {
        "f1": "0.512",
        "95 %": "0.401–0.623",
        "minus rag": "+0.200",
        "95 % of it": "+0.101 to +0.300",
        "p": "< 0.01",
    }
    rows = [
        [name, budget, *cells.values()] for name, budget in (("direct", "4k"), ("rewrite_retrieve_read", "unlimited"))
    ]
    text = printed(Table("橋", ["method", "budget", *cells], rows, words=2), width)
    shown, _, rest = text.partition("no room for: ")
    assert all((cell in shown) != (header in " ".join(rest.split()).split(", ")) for header, cell in cells.items())
    assert max(map(cell_len, text.splitlines())) <= width and ("+0.101 to +0.300" in shown) == (width >= 80)


def printed(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table.terminal(width))
    return console.file.getvalue()


def test_the_verdict_stands_in_the_report_and_in_its_json(tmp_path: Path) -> None:
    write_run(tmp_path / "direct", "direct", [0.0] * 12)
    write_run(tmp_path / "rar", "rar", [1.0] * 12, failed=1)
    write_run(tmp_path / "rat", "rat", [1.0] * 3, finished=False)
    reports = build_reports([tmp_path])
    text, data, *_ = write_report(reports, tmp_path / "out")
    (found,) = json.loads(data.read_text())["reports"]
    assert found["verdict"]["choice"] == "rar@1k"
    assert found["verdict"]["questions"] == 12
    assert found["verdict"]["text"] == reports[0].verdict.text
    assert f"## Verdict\n\n{found['verdict']['text']}\n" in text.read_text()
    by_label = {run["label"]: run for run in found["runs"]}
    assert by_label["rar@1k"]["against_baseline"]["p"] == pytest.approx(2 / 2**12)
    assert by_label["rar@1k"]["metrics"]["em"]["failed"] == 1
    assert (by_label["direct@1k"]["tokens"], by_label["direct@1k"]["seconds"]) == (120, 3.0)
    stage = {"calls": 2.0, "prompt": 100.0, "completion": 20.0, "seconds": 3.0}
    assert by_label["direct@1k"]["stages"] == {"draft": stage}
    assert "![" in text.read_text()
    assert "![" not in as_markdown(reports[0])
    assert "The verdict leaves out rat@1k, which is not finished." in reports[0].notes


def test_runs_on_other_questions_are_given_no_verdict(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "rar", [1.0, 0.0])
    write_run(tmp_path / "b", "direct", [1.0, 0.0], data="other")
    (report,) = build_reports([tmp_path])
    assert report.verdict is None
    assert json.loads(write_report([report], tmp_path / "out")[1].read_text())["reports"][0]["verdict"] is None


def rated(path: Path, method: str, *, judge: str | None = None, **scores: float) -> None:
    """A run with these scores of each question; a judge's rating is its primary metric."""
    primary = METRIC if judge else "em"
    config = RunConfig(
        task="sums", data="d", primary=primary, form="text", method=method, model="m/one",
        model_settings={"judge": judge},
    )  # fmt: skip
    named = {METRIC if name == "rating" else name: Score(value=value) for name, value in scores.items()}
    records = [Record(id=f"q{i}~0", example=f"q{i}", repeat=0, scores=named) for i in range(12)]
    store(path, config, records, expected=12)


def test_a_judges_ratings_are_not_ranked_beside_another_metric(tmp_path: Path) -> None:
    rated(tmp_path / "a", "direct", em=0.3)
    rated(tmp_path / "b", "rag", judge="m/judge", rating=1.0, em=0.1)
    (report,) = build_reports([tmp_path])
    assert report.tables[0].headers[2] == "em"
    assert [row[2] for row in report.tables[0].rows] == ["0.300", "0.100"]
    assert report.verdict is not None and (report.verdict.best, report.verdict.metric) == ("direct@none", "em")
    assert "Not all runs have the same primary metric: em, which all have, ranks them." in report.notes


def test_runs_without_a_metric_in_common_have_a_report_each(tmp_path: Path) -> None:
    rated(tmp_path / "a", "direct", em=0.3)
    rated(tmp_path / "b", "rag", judge="m/judge", rating=1.0)
    reports = build_reports([tmp_path])
    assert [(each.task, each.part, len(each.rows)) for each in reports] == [("sums", "em", 1), ("sums", METRIC, 1)]
    files = write_report(reports, tmp_path / "out")
    assert len(set(files)) == len(files)


def test_runs_that_different_judges_rated_are_given_no_verdict(tmp_path: Path) -> None:
    rated(tmp_path / "a", "direct", judge="m/judge", rating=0.3)
    rated(tmp_path / "b", "rag", judge="m/other", rating=1.0)
    (report,) = build_reports([tmp_path])
    assert report.verdict is None
