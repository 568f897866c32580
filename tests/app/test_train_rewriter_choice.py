"""Multiple choice, English and Chinese: a rewriter is warmed up, trained by the paper's reward, and answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

from reground.app.cli import run
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving
from tests.signals import heed_ctrl_c
from tests.training.tiny import tiny_llama, tiny_t5

TASKS = """
from functools import partial
from pathlib import Path
from reground.evaluation.tasks.choice import load_agieval, load_mmlu


def gaokao_train(root: Path):
    return load_agieval(root, "gaokao_train", ["gaokao-history"])


def mmlu_train(root: Path):
    return load_mmlu(root, "mmlu_train", ["other"])


TASKS = {"gaokao_train": gaokao_train, "mmlu_train": mmlu_train}
"""


@pytest.fixture
def server() -> Iterator[MockOpenAI]:
    def say(body):
        asked = body["messages"][-1]["content"]
        return "Query: river of Vienna" if "search engine" in asked else "Answer: B **"

    with serving(MockOpenAI(say)) as running:
        yield running


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Questions in the three layouts, and a shelf."""
    root = tmp_path / "data"
    chinese = [
        {
            "id": f"g{n}", "passage": "", "question": f"第{n}题：哪条河流经维也纳？", "label": "AB" if n == 5 else "B",
            "options": ["(A)莱茵河", "(B)多瑙河", "(C)塞纳河", "(D)易北河"],
        }
        for n in range(6)
    ]  # fmt: skip
    files = {
        "agieval/gaokao-history.jsonl": [*chinese, {**chinese[0], "id": "without a label", "label": None}],
        "mmlu/test.jsonl": [
            {
                "id": f"m{n}", "subject": "management", "question": f"Which river is number {n}?",
                "choices": ["Rhine", "Danube", "Seine", "Elbe"], "answer": "B",
            }
            for n in range(6)
        ],
        "mmlu/dev.jsonl": [],
    }  # fmt: skip
    files["mmlu/dev.jsonl"] = [{**files["mmlu/test.jsonl"][0], "id": "d", "question": "Which one is shown?"}]
    for name, lines in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    (root / "shelf").mkdir()
    (root / "shelf" / "danube.txt").write_text("The Danube flows through Vienna. 多瑙河流经维也纳。")
    (root / "tasks.py").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return root


def given(data: Path, server: MockOpenAI, task: str) -> list[str]:
    return [
        "--task", f"{data}/tasks.py:{task}", "--data", str(data), "--corpus", str(data / "shelf"), "--out", "out",
        "--model", "openai/mock", "--base-url", server.url,
    ]  # fmt: skip


SHORT = ["--iterations", "1", "--episodes", "8", "--batch", "4"]


@pytest.mark.slow
@pytest.mark.timeout(900)  # every stage, one after the other
@pytest.mark.parametrize(("task", "make"), [("mmlu_train", tiny_llama), ("gaokao_train", tiny_t5)])
def test_choices_are_trained_and_answered(task, make, data: Path, server: MockOpenAI, tmp_path: Path, capfd) -> None:
    base = str(make(tmp_path / "base"))
    shared = given(data, server, task)
    assert run(["train", "rewriter", "collect", *shared]) == 0
    few = ["--epochs", "1", "--threads", "1", "--base", base]
    assert run(["train", "rewriter", "warmup", "--out", "out", *few]) == 0
    told = capfd.readouterr().out
    assert f"{5 if task != 'mmlu_train' else 6} rewritings and 0 copies" in told, "options are no query of their own"
    Path("ppo.toml").write_text(
        'validation = 2\nreply_tokens = 3\ncollapse_invalid = 1.1\nno_end = "none"\ntarget = "none"\n'
    )
    learn = ["train", "rewriter", "ppo", *shared, *SHORT, "--threads", "1", "--config", "ppo.toml"]
    assert run([*learn, "--reward", "paper"]) == 0, capfd.readouterr().err
    said = capfd.readouterr().err
    assert "exact match 1.000" in said or "exact match 0." in said
    assert "option F1" in said
    assert all(word in said for word in ("divergence", "entropy", "ended", "empty", "value loss", "clipped"))
    answer = ["eval", "--method", "rewrite_retrieve_read", "--rewriter", "hf/out/model", "--set", "total=3"]
    assert run([*answer, *(each if each != "out" else "answers" for each in shared), "--limit", "2"]) == 0


@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.parametrize("stage", ["warmup", "ppo"])
def test_ctrl_c_ends_a_fit_at_once_and_it_goes_on(stage, data: Path, server: MockOpenAI, tmp_path: Path) -> None:
    base = str(tiny_llama(tmp_path / "base"))
    shared = given(data, server, "mmlu_train")
    if stage == "warmup":
        assert run(["train", "rewriter", "collect", *shared]) == 0
        more = ["--out", "out", "--epochs", "1e6", "--threads", "1", "--base", base]
    else:
        more = [*shared, *SHORT, "--iterations", "1000000", "--threads", "1", "--base", base, "--reward", "paper"]
        Path("ppo.toml").write_text("validation = 2\ncollapse_invalid = 1.1")
        more += ["--config", "ppo.toml"]
    command = [sys.executable, "-c", "from reground.app.cli import main; main()", "train", "rewriter", stage, *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c)
    place = Path("out/fit") / stage
    while process.poll() is None and not list(place.glob("checkpoint-*/whole")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err
    assert time.monotonic() - began < 20, "it waited for the fit"
    assert list(place.glob("checkpoint-*/whole"))
