"""`reground eval`, `compare` and `report` from the outside, against a model behind a loopback server."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from reground.app.cli import run
from reground.app.options import Benchmark
from reground.app.runs import model_settings
from reground.models.options import ModelOptions
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving
from tests.signals import heed_ctrl_c

LEVEL = {"metadata": {"level": "easy"}}
QUESTIONS = [
    {"id": f"b{i}", "question": f"Who wrote book {i}?", "golden_answers": [f"Writer {i}"], **LEVEL} for i in range(6)
]


def said(body: dict[str, Any]) -> str:
    """Who wrote what, and that an answer is right."""
    question = body["messages"][-1]["content"]
    return "implied = True" if "implied" in question else f"Answer: Writer {question.rpartition('book ')[2][:1]}"


class Server(MockOpenAI):
    """A call has 50 tokens of prompt and 5 of reply. down: a part of the questions that are refused."""

    def __init__(self) -> None:
        super().__init__(said, models=("m", "judge", "my-model", "other"))
        self.down: str | None = None

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        if self.down is not None and self.down in body["messages"][-1]["content"]:
            return web.json_response({"error": {"message": "this question is refused"}}, status=400)
        return super()._refusal(request, body)

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**super().completion(body), "usage": {"prompt_tokens": 50, "completion_tokens": 5}}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data" / "bamboogle"
    folder.mkdir(parents=True)
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return folder.parent


def options(server: Server, data: Path | None = None) -> list[str]:
    return ["--model", "openai/m", "--base-url", server.url, *([] if data is None else ["--data", str(data)])]


def call(server: Server, data: Path, *command: str, task: str = "bamboogle") -> int:
    words = next((place for place, word in enumerate(command) if word.startswith("-")), len(command))
    return run([*command[:words], "--task", task, *options(server, data), *command[words:]])


def test_eval_takes_the_questions_that_are_named_and_keeps_their_ids(server: Server, data: Path, capfd) -> None:
    command = ("eval", "--method", "direct", "--out", "out")
    assert call(server, data, *command, "--ids", "b4,b1,6:6") == 0
    assert {json.loads(line)["example"] for line in Path("out/scores.jsonl").read_text().splitlines()} == {
        "b1",
        "b4",
        "b5",
    }
    assert json.loads(Path("out/config.json").read_text())["ids"] == ["b1", "b4", "b5"]
    capfd.readouterr()
    assert call(server, data, *command, "--ids", "b4") == 2
    assert "contains another run: ids was" in capfd.readouterr().err
    assert call(server, data, *command, "--ids", "b9") == 2
    assert "bamboogle has no question with the id 'b9'; ids look like b0" in " ".join(capfd.readouterr().err.split())


def test_eval_scores_every_question_and_writes_a_report(server: Server, data: Path, capfd) -> None:
    assert call(server, data, "eval", "--method", "direct", "--price", "1,2", "--out", "out") == 0
    out, err = capfd.readouterr()
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["metrics"]["exact match"]["mean"] == 1.0
    assert summary["usage"]["usd"] == pytest.approx(6 * (50e-6 + 10e-6))
    assert "1.000–1.000" in out
    assert "6/6 done" in err
    assert (Path("out") / "report.md").exists()
    assert "secret-key" not in "".join(p.read_text(errors="replace") for p in Path("out").iterdir())
    config = json.loads(Path("out/config.json").read_text())
    assert config["settings"]["temperature"] == 0.0
    assert config["limit"] == 100


def test_the_same_command_again_pays_for_nothing(server: Server, data: Path, capfd) -> None:
    assert call(server, data, "eval", "--method", "direct", "--limit", "4") == 0
    assert len(server.received) == 4
    assert call(server, data, "eval", "--method", "direct", "--limit", "4", "--quiet") == 0
    assert len(server.received) == 4
    assert [p.name for p in Path("runs").iterdir()] == ["bamboogle-direct@none-openai-m"]
    capfd.readouterr()
    assert call(server, data, "eval", "--method", "direct", "--limit", "4", "--set", "max_tokens=9") == 2
    assert "settings.max_tokens was 1024, now 9" in capfd.readouterr().err


def test_failed_questions_give_exit_code_3_and_can_be_retried(server: Server, data: Path, capfd) -> None:
    server.down = "book 3"
    assert call(server, data, "eval", "--method", "direct", "--out", "out") == 3
    assert "1 question failed" in capfd.readouterr().err
    server.down = None
    asked = len(server.received)
    assert call(server, data, "eval", "--method", "direct", "--out", "out") == 3
    assert len(server.received) == asked
    capfd.readouterr()
    for more, left in (([], "0"), (["--retry-failed"], "1")):
        assert call(server, data, "eval", "--method", "direct", "--out", "out", "--dry-run", *more) == 0
        (row,) = (line for line in capfd.readouterr().out.splitlines() if "measured" in line)
        assert row.split("│")[2].strip() == left
    assert call(server, data, "eval", "--method", "direct", "--out", "out", "--retry-failed") == 0
    assert len(server.received) == asked + 1


def test_compare_runs_methods_at_equal_budgets_and_reports(server: Server, data: Path, capfd) -> None:
    arguments = ["--methods", "direct,cot", "--budgets", "400,800", "--out", "cmp", "--set", "cot.temperature=0"]
    assert call(server, data, "compare", *arguments) == 0
    out, err = capfd.readouterr()
    assert sorted(p.name for p in Path("cmp").iterdir() if p.is_dir()) == [
        "cot@400",
        "cot@800",
        "direct@400",
        "direct@800",
    ]
    assert json.loads(Path("cmp/cot@400/config.json").read_text())["budget"]["tokens"] == 400
    assert "direct" in out
    last = out.strip().splitlines()[-1]
    assert "Take " not in last and "scored highest (cover-EM 1.000 for 55 tokens" in last
    assert "Which is best cannot be told from 6 questions" in last
    assert json.loads(Path("cmp/report.json").read_text())["reports"][0]["verdict"]["text"] == last
    assert "run 4 of 4" in err
    assert "![" in Path("cmp/report.md").read_text()
    asked = len(server.received)
    assert call(server, data, "compare", *arguments) == 0
    assert len(server.received) == asked
    assert run(["report", "cmp", "--out", "again", "--baseline", "cot", "--by", "level"]) == 0
    assert "minus cot" in Path("again/report.md").read_text()
    assert "by level" in Path("again/report.md").read_text()
    assert len(server.received) == asked


@pytest.fixture
def split(data: Path) -> Path:
    """HotpotQA in small: six questions that measure and four to train on."""
    folder = data / "hotpotqa"
    folder.mkdir()
    lines = [
        {"id": f"{part}{i}", "question": f"Of {part}: who wrote book {i}?", "golden_answers": [f"Writer {i}"]}
        | {"metadata": {"split": part}}
        for part, count in (("dev", 6), ("train", 4))
        for i in range(count)
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus = [
        {"id": f"c{i}", "title": "Writers", "text": f"Writer {i} wrote a lot. {'Much. ' * 300}"} for i in range(9)
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in corpus))
    return data


def test_a_limit_is_used_and_what_a_user_or_a_preset_sets_stays(server: Server, split: Path, capfd) -> None:
    command = ["compare", "--methods", "direct,rag,rag+one,self_consistency", "--budgets", "4k"]
    given = ["--set", "max_tokens=99", "--set", "self_consistency.n=2", "--limit", "1", "--out", "cmp"]
    assert call(server, split, *command, *given, task="hotpotqa") == 0, capfd.readouterr().err
    settings = {
        path.parent.name: json.loads(path.read_text())["settings"] for path in Path("cmp").glob("*@4k/config.json")
    }
    assert {name: each["max_tokens"] for name, each in settings.items()} == dict.fromkeys(settings, 99)
    assert settings["rag@4k"]["k"] > 5
    assert settings["rag+one@4k"]["k"] == 1
    assert settings["self_consistency@4k"]["n"] == 2


def test_a_dry_run_calls_nothing_and_knows_what_is_left(server: Server, data: Path, capfd) -> None:
    dry = ["--methods", "direct,cot", "--budgets", "400", "--out", "cmp", "--dry-run", "--price", "1,2"]
    assert call(server, data, "compare", *dry) == 0
    first = capfd.readouterr().out
    assert "direct@400" in first
    assert "a dry run" in first
    assert server.received == []
    assert not Path("cmp").exists()
    assert call(server, data, "compare", "--methods", "direct", "--budgets", "400", "--limit", "2", "--out", "cmp") == 0
    capfd.readouterr()
    assert call(server, data, "compare", *dry) == 0
    assert "2 measured" in capfd.readouterr().out
    assert len(server.received) == 2


def test_a_dry_run_refuses_the_names_that_the_run_refuses(server: Server, data: Path, capfd) -> None:
    for command in (("eval", "--method", "cott"), ("compare", "--methods", "direct,cott", "--budgets", "400")):
        assert call(server, data, *command, "--out", "cmp") == 2
        refused = capfd.readouterr().err
        assert "no method is called 'cott'" in refused
        assert call(server, data, *command, "--out", "cmp", "--dry-run") == 2
        assert capfd.readouterr().err == refused


def test_hyphens_in_names_are_shown_and_stored_as_underscores(server: Server, data: Path, capfd) -> None:
    options = ["--budgets", "4k", "--out", "cmp", "--baseline", "few-shot", "--set", "few-shot-cot.max_tokens=99"]
    assert call(server, data, "compare", "--methods", "few-shot,few-shot-cot", *options, "--limit", "1") == 0
    assert {path.parent.name for path in Path("cmp").glob("*/config.json")} == {"few_shot@4k", "few_shot_cot@4k"}
    assert json.loads(Path("cmp/few_shot_cot@4k/config.json").read_text())["settings"]["max_tokens"] == 99
    assert "Baseline: few_shot." in Path("cmp/report.md").read_text()
    assert run(["report", "cmp", "--baseline", "few-shot-cot"]) == 0
    assert "Baseline: few_shot_cot." in Path("cmp/report.md").read_text()


def test_a_judge_rates_long_answers_once(server: Server, data: Path, capfd) -> None:
    judged = ["--method", "direct", "--judge", "openai/judge", "--limit", "2", "--out", "out"]
    assert call(server, data, "eval", *judged) == 0
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["metrics"][summary["primary"]]["mean"] == 1.0
    assert json.loads(Path("out/config.json").read_text())["model_settings"]["judge"] == "openai/judge"
    asked = len(server.received)
    assert call(server, data, "eval", *judged, "--rescore") == 0
    assert len(server.received) == asked
    capfd.readouterr()
    assert call(server, data, "eval", "--method", "direct", "--limit", "2", "--out", "out") == 2
    assert "model_settings.judge was" in capfd.readouterr().err


def test_real_money_is_asked_about_first(server: Server, data: Path, capfd) -> None:
    dear = ["--method", "direct", "--budget-tokens", "4000", "--price", "100,200", "--out", "out"]
    assert call(server, data, "eval", *dear) == 2
    assert "may cost 4.80 USD: give --yes" in capfd.readouterr().err
    assert server.received == []
    assert call(server, data, "eval", *dear, "--yes") == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["eval", "--method", "dirct"], "did you mean direct"),
        (["eval", "--method", "rag"], "--corpus"),
        (["eval", "--method", "direct", "--set", "temperatur=1"], "a setting 'temperatur'; did you mean temperature"),
        (["compare", "--methods", "direct", "--budgets", "lots"], "a budget is a number of tokens"),
        (["compare", "--methods", "direct", "--baseline", "rar"], "the baseline among them"),
        (["compare", "--methods", ","], "names the methods"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(
    server: Server, data: Path, capfd, arguments: list[str], said: str
) -> None:
    assert call(server, data, *arguments, "--out", "out") == 2
    assert said in capfd.readouterr().err
    assert server.received == []


def test_a_key_that_is_refused_stops_the_run_and_fails_no_question(server: Server, data: Path, capfd) -> None:
    server.key = "another"
    assert call(server, data, "eval", "--method", "direct", "--out", "out") == 2
    assert not Path("out/scores.jsonl").exists()
    server.key = None
    assert call(server, data, "eval", "--method", "direct", "--out", "out") == 0


def test_ctrl_c_keeps_everything_and_says_how_to_go_on(server: Server, data: Path) -> None:
    server.latency = 0.05
    command = [
        sys.executable, "-c", "from reground.app.cli import main; main()", "eval", "--task", "bamboogle",
        *options(server, data), "--method", "direct", "--out", "out", "--concurrency", "1", "--repeats", "20",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c)
    while process.poll() is None and len(server.received) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err.decode()
    assert b"the same command continues from here" in err
    assert b"Traceback" not in err
    kept = len(Path("out/scores.jsonl").read_text().splitlines())
    assert kept >= 1
    server.latency = 0
    asked = len(server.received)
    assert call(server, data, "eval", "--method", "direct", "--out", "out", "--repeats", "20") == 0
    assert asked - kept <= 2
    assert len(server.received) - asked <= 120 - kept


def test_model_settings_hold_no_key() -> None:
    found = model_settings(ModelOptions(base_url="http://x/v1", api_key_env="MY_KEY", context=2048))
    assert found == {"base_url": "http://x/v1", "context": "2048"}


def test_the_task_s_own_corpus_is_indexed_where_a_method_needs_documents(tmp_path: Path, monkeypatch) -> None:
    from reground.app.benchmark import open_bench
    from tests.evaluation.fakes import SumTask

    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The Danube flows through Vienna.")
    task = SumTask()
    task.corpus = tmp_path / "docs"
    options = Benchmark(task="sums", model="vllm/x")

    async def titles(*methods: str) -> list[str] | None:
        async with open_bench(options, methods, task, tmp_path) as bench:
            searched = bench.session.retrievers.get("sums")
            return searched and [each.text for each in await searched.retrieve("Danube", k=1)]

    assert asyncio.run(titles("direct", "rag")) == ["The Danube flows through Vienna."]
    assert asyncio.run(titles("direct")) is None


@pytest.mark.parametrize("format", ["md", "json"])
def test_a_format_prints_the_report_and_nothing_else(server: Server, data: Path, capfd, format: str) -> None:
    given = ("--methods", "direct,cot", "--budgets", "400", "--out", "cmp")
    assert call(server, data, "compare", *given, "--format", format) == 0
    out = capfd.readouterr().out
    verdict = json.loads(Path("cmp/report.json").read_text())["reports"][0]["verdict"]
    if format == "json":
        assert json.loads(out) == json.loads(Path("cmp/report.json").read_text())
    else:
        assert out.startswith("# bamboogle\n")
        assert verdict["text"] in out
    assert run(["report", "cmp", "--format", format]) == 0
    assert capfd.readouterr().out == out


def test_a_preset_of_several_comparisons_has_no_single_format(capfd) -> None:
    assert run(["compare", "--preset", "rat-claims", "--format", "json"]) == 2
    assert "--format is for one comparison" in capfd.readouterr().err


@pytest.fixture
def mine(data: Path) -> Path:
    """A user's folder: documents, and questions in a spreadsheet's format with a semicolon."""
    docs = Path("docs")
    docs.mkdir()
    for i in range(4):
        (docs / f"book-{i}.md").write_text(f"# Book {i}\n\nBook {i} was written by Writer {i}.\n")
    lines = [f"Who wrote book {i}?;Writer {i};book-{i}.md" for i in range(4)]
    Path("my.csv").write_text("\ufeffQuestion;Answer;Passages\r\n" + "\r\n".join(lines) + "\r\n")
    return docs


def test_ones_own_questions_are_compared_on_ones_own_documents(server: Server, mine: Path, capfd) -> None:
    command = ["compare", "--questions", "my.csv", "--corpus", "docs/", "--methods", "direct,rag", *options(server)]
    assert run([*command, "--budgets", "none"]) == 0, capfd.readouterr().err
    out, _ = capfd.readouterr()
    assert "questions:my.csv: token F1" in out
    (folder,) = Path("runs").iterdir()
    runs = json.loads((folder / "report.json").read_text())["reports"][0]["runs"]
    assert {run["label"]: run["metrics"]["token F1"]["scored"] for run in runs} == {"direct@none": 4, "rag@none": 4}
    assert next(r for r in runs if r["method"] == "rag")["metrics"]["gold recall"]["mean"] == 1.0
    asked = len(server.received)
    assert run([*command, "--budgets", "none"]) == 0
    assert len(server.received) == asked
    with Path("my.csv").open("a") as file:
        file.write("Who wrote book 9?;\r\n")
    capfd.readouterr()
    assert run([*command, "--budgets", "none"]) == 2
    assert "my.csv:6: the question has no answer" in capfd.readouterr().err


def test_all_of_ones_own_questions_are_taken(server: Server, data: Path) -> None:
    lines = [json.dumps({"question": f"Who wrote book {i}?", "answer": f"Writer {i}"}) for i in range(103)]
    Path("my.jsonl").write_text("\n".join(lines))
    command = ["eval", "--questions", "my.jsonl", "--method", "direct", "--out", "out"]
    assert run([*command, *options(server)]) == 0
    assert json.loads(Path("out/summary.json").read_text())["runs"] == 103


def test_questions_and_a_benchmark_are_not_asked_at_once(mine: Path, capfd) -> None:
    for command, said in (
        (["compare", "--questions", "my.csv", "--task", "bamboogle"], "--task or --questions, not both"),
        (["eval", "--method", "direct"], "name what to measure on: --task NAME, or --questions FILE"),
        (["compare", "--preset", "rat-claims", "--questions", "my.csv"], "leave out --questions"),
        (["compare", "--questions", "gone.csv"], "no such file of questions"),
    ):
        assert run(command) == 2
        assert said in " ".join(capfd.readouterr().err.split())
