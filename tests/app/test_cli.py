"""The command line as a user meets it: helpful errors, exit codes, JSON, progress, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reground.app.cli import run
from reground.core.trajectory import read_trajectories
from reground.testing.openai_server import MockOpenAI
from tests.servers import in_order, model_of, serving
from tests.signals import heed_ctrl_c


@pytest.fixture(autouse=True)
def files(home: Path, docs: Path) -> None:
    (home / "bytes.jsonl").write_bytes(b"\xff\xfe")
    (home / "q.jsonl").write_text('{"question": "How long is the Seine?", "answer": "775 km"}\n')


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask"], "question"),
        (["askk"], "ask"),
        (["ask", "Why?", "--budget-tokens", "many"], "--budget-tokens"),
        (["ask", "Why?", "--budget-tokens"], "--budget-tokens"),
        (["ask", "Why?", "--method", "raar"], "did you mean rar"),
        (["ask", "Why?", "--method", "rag"], "--corpus"),
        (["ask", "Why?", "--method", "direct", "--model", "gguf/nothing-like-it"], "nothing-like-it"),
        (["ask", "Why?", "--method", "direct", "--model", "openai/x", "--budget-usd", "1"], "--price"),
        (["ask", "Why?", "--corpus", "nowhere"], "nowhere"),
        (["ask", "Why?", "--method", "direct", "--set", "k"], "KEY=VALUE"),
        (["ask", "Why?", "--method", "direct", "--config", "absent.toml"], "absent.toml"),
        (["index", "nowhere", "--out", "x.idx"], "nowhere"),
        (["index", "docs", "--out", "x.idx", "--kind", "magic"], "magic"),
        (["methods", "RAR"], "did you mean rar"),
        (["show", "absent.jsonl"], "absent.jsonl"),
        (["show", "bytes.jsonl"], "no text in UTF-8"),
        (["ask", "Why?", "--method", "direct", "--model", "openai/x", "--set", "temperature=-1"], "must be 0 or more"),
        (["ask", "Why?", "--method", "direct", "--model", "openai/x", "--trace", "docs"], "trace docs"),
        (["ask", "Why?", "--method", "direct", "--model", "openai/x", "--price", "5"], "PROMPT,COMPLETION"),
        (["ask", "Why?", "--method", "direct", "--model", "openai/x", "--budget-calls", "0"], "a budget of 0 calls"),
        (["questions", "--corpus", "docs", "--model", "openai/x", "--budget-seconds", "0"], "a budget of 0 seconds"),
        (["ask", "Why?", "--method", "direct", "--model", "gpt-4o-mini"], "openai/gpt-4o-mini"),
        (["ask", "Why?", "--method", "direct", "--budget-seconds", "inf"], "finite"),
        (["--corpus", "docs", "ask", "Why?"], "reground ask --corpus"),
        (["ask", "Why", "is", "it?"], "quotes"),
        (["index", "docs", "--out", "docs/danube.md"], "docs/danube.md"),
        (["methods", "cr_planner+rank"], "did you mean ranking"),
        (["ask", "Why?", "--corpus", "docs", "--retrieval", "bm52"], "'--retrieval': 'bm52' is not one of"),
        (["ask", "Why?", "\u2014corpus", "docs"], "did you mean --corpus"),
        (["eval", "--questions", "q.jsonl", "--corpus", "nowhere"], "nowhere: there is no such corpus"),
        (["ask", "Why?", "-corpus", "docs"], "did you mean --corpus"),
        (["serve", "--corpus"], "--corpus"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_exit_code_2(arguments: list[str], says: str, capsys) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.startswith("error: ") and said.err.count("\n") == 1
    assert said.out == ""


def test_where_a_command_is_missing_some_are_named_to_begin_with(capsys) -> None:
    assert run([]) == 0
    assert set(re.findall(r"reground (\w+)", capsys.readouterr().out)) == {"demo", "ask", "models"}
    assert run(["help", "ask"]) == 0
    assert "--corpus" in capsys.readouterr().out
    assert run(["train"]) == 2
    said = capsys.readouterr()
    assert "Usage: " in said.out + said.err
    assert "error: a command is missing" in said.err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--set", "kk=1", "--model", "openai/x"], "no setting 'kk'"),
        (["--set", "k=many", "--model", "openai/x"], "cannot be 'many'"),
        (["--model", "opnai/x"], "did you mean openai"),
        (["--model", "openai/x", "--rewriter", "y", "--method", "rewrite_retrieve_read"], "provider/model"),
    ],
)
def test_a_wrong_word_is_told_before_the_documents_are_read(more: list[str], says: str, capsys, home: Path) -> None:
    assert run(["ask", "Why?", "--corpus", "docs", *more]) == 2
    assert says in capsys.readouterr().err
    assert not (home / "home").exists()


@pytest.mark.parametrize(
    "command",
    [["ask", "Why?", "--model", "openai/x", "--corpus"], ["index", "--out", "x.idx"], ["index", "docs", "--out"]],
)
def test_an_empty_path_is_not_the_current_folder(command: list[str], capsys, home: Path) -> None:
    assert run([*command, ""]) == 2
    assert "a path is empty" in capsys.readouterr().err
    (home / "reground.toml").write_text('corpus = ""\nmodel = "openai/x"\n')
    assert run(["ask", "Why?"]) == 2
    assert "a path is empty" in capsys.readouterr().err
    assert not (home / "home").exists() and not (home / "x.idx").exists()


def test_an_unreachable_server_is_named(capsys, home: Path) -> None:
    (home / "reground.toml").write_text("attempts = 1\n")
    assert run(["ask", "Why?", "-m", "direct", "-q", "--model=openai/x", "--base-url=http://127.0.0.1:9/v1"]) == 2
    said = capsys.readouterr().err
    assert "127.0.0.1:9" in said
    assert len(said.strip().splitlines()) == 1


def test_a_wrong_key_is_said_without_showing_it(capsys, home: Path) -> None:
    with serving(MockOpenAI(key="another")) as server:
        assert run(["ask", "Why?", "--method", "direct", *model_of(server)]) == 2
    said = capsys.readouterr().err
    assert "OPENAI_API_KEY" in said
    assert "sk-secret" not in said
    assert not any(b"sk-secret" in path.read_bytes() for path in (home / "home").rglob("*") if path.is_file())


def test_openai_without_a_key_is_refused_before_any_call(capsys, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert run(["ask", "Why?", "--method", "direct", "--model", "openai/x"]) == 2
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err


def test_an_empty_corpus_is_refused(capsys, home: Path) -> None:
    (home / "empty").mkdir()
    assert run(["ask", "Why?", "--corpus", "empty", "--model", "openai/x"]) == 2
    assert "empty" in capsys.readouterr().err


def test_a_model_without_log_probabilities_is_refused_where_they_are_needed(capsys) -> None:
    with serving(MockOpenAI(lambda body: "Plain.", refuses=("logprobs",))) as server:
        assert run(["ask", "Why?", "--method", "flare", "--corpus", "docs", *model_of(server)]) == 2
    assert "log-prob" in capsys.readouterr().err


def test_json_holds_the_answer_citations_steps_usage_and_the_trajectorys_path(capsys, home: Path) -> None:
    with serving(in_order("The Danube is 2850 km long [1].")) as server:
        arguments = ["ask", "Which is longer, Danube or Seine?", "--corpus", "docs", *model_of(server)]
        code = run([*arguments, "--method", "rag", "--json", "--trace", "t.jsonl"])
    said = capsys.readouterr()
    assert code == 0, said.err
    answer = json.loads(said.out)
    keys = "question answer method steps usage stopped trajectory citations shown sentences ungrounded answered"
    assert answer.keys() == {*keys.split(), "faithfulness", "unchecked", "skipped", "notes", "quoted", "misquoted"}
    assert [passage["marker"] for passage in answer["citations"]] == [1]
    assert [passage["marker"] for passage in answer["shown"]] == [1, 2]
    assert answer["ungrounded"] is None
    assert answer["answer"] == "The Danube is 2850 km long [1]."
    assert answer["usage"]["calls"] == 1
    (trajectory,) = read_trajectories(Path(answer["trajectory"]))
    assert trajectory.method == "rag"
    assert run(["show", "t.jsonl"]) == 0
    assert run(["show", "t.jsonl", "-n", "1"]) == 0
    assert "The Danube is 2850 km long [1]." in capsys.readouterr().out


def test_progress_goes_to_standard_error_and_the_answer_to_standard_output(capsys) -> None:
    with serving(in_order("Vienna [1].")) as server:
        assert run(["ask", "Where is Vienna?", "--corpus", "docs", "--method", "rag", *model_of(server)]) == 0
    said = capsys.readouterr()
    assert "answer" in said.err and "Vienna [1]." in said.out and "Supported by" in said.out


def test_an_answer_for_which_nothing_was_retrieved_says_so_and_the_exit_code_tells(capsys) -> None:
    with serving(in_order("It is blue [1].", "It is blue [1].", "It is blue.")) as server:
        arguments = ["ask", "Xyzzy plugh?", "--corpus", "docs", *model_of(server)]
        assert run([*arguments, "--method", "rag", "--json", "--trace", "t.jsonl"]) == 4
        answer = json.loads(capsys.readouterr().out)
        assert run([*arguments, "--method", "rag", "--fresh"]) == 4
        said = capsys.readouterr()
        assert run([*arguments, "--method", "direct"]) == 0
    assert answer["ungrounded"] == "nothing was found"
    assert (answer["answer"], answer["citations"], answer["shown"]) == ("It is blue.", [], [])
    (trajectory,) = read_trajectories(Path("t.jsonl"))
    assert {"ungrounded", "unknown markers removed"} <= {step.name for step in trajectory.steps}
    assert said.out.count("Your documents do not say") == 1 and "do not say" not in said.err
    assert "Supported by" not in said.out


@pytest.mark.parametrize("question", ["How long is Bridget Ohm of Danzig?", "Where is Vienna?"])
def test_where_the_documents_do_not_answer_the_words_or_the_model_say_so(question: str, capsys) -> None:
    with serving(in_order("Not in these passages.")) as server:
        assert run(["ask", question, "--corpus", "docs", "--method", "grounded+cautious", *model_of(server)]) == 4
        assert len(server.received) == ("Vienna" in question)
    said = " ".join(capsys.readouterr().out.split())
    assert "Your documents do not say: the passages do not hold the answer. Not in these passages." in said


def test_a_budget_that_ends_is_said(capsys) -> None:
    with serving(MockOpenAI(lambda body: "The Danube.\n\nAnother.")) as server:
        assert run(["ask", "Where?", "--corpus", "docs", "-m", "rar", *model_of(server), "--budget-calls", "2"]) == 0
    said = capsys.readouterr()
    assert "stopped early: the calls budget ended" in said.out and "note:" not in said.err


def test_index_builds_updates_and_reports(capsys, home: Path) -> None:
    assert run(["index", "docs", "--out", "docs.idx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 2
    (home / "docs" / "rhine.md").write_text("# Rhine\n\nThe Rhine flows through Cologne.\n")
    assert run(["index", "docs", "--out", "docs.idx"]) == 0
    said = capsys.readouterr().out
    assert "3 documents" in said and "1 document read, 2 unchanged" in said
    with serving(in_order("Cologne [1].")) as server:
        arguments = ["ask", "Where does the Rhine flow?", "--corpus", "docs.idx", "--method", "rag", "--json"]
        assert run([*arguments, *model_of(server)]) == 0
    assert json.loads(capsys.readouterr().out)["citations"][0]["title"] == "Rhine"


def test_an_index_is_not_indexed_as_if_its_files_were_documents(capsys, home: Path) -> None:
    assert run(["index", "docs", "--out", "docs.idx"]) == 0
    for where in (["--out", "other.idx"], ["--report"]):
        assert run(["index", "docs.idx", *where]) == 2
        assert "docs.idx is an index: give the documents" in capsys.readouterr().err
    assert not (home / "other.idx").exists()


def test_decontamination_drops_what_overlaps_a_benchmark_and_lists_it(capsys, home: Path) -> None:
    solution = "def add(a, b):\n    total = a + b\n    print('the sum is', total)\n    return total if total else 0\n"
    record = {"task_id": "X/0", "prompt": "def add(a, b):\n", "entry_point": "add", "test": "x"}
    (home / "data" / "humaneval").mkdir(parents=True)
    (home / "data" / "humaneval" / "HumanEval.jsonl").write_text(
        json.dumps({**record, "canonical_solution": solution}) + "\n"
    )
    (home / "docs" / "leak.md").write_text(f"# Leak\n\nA program:\n\n{solution}\n")
    arguments = ["index", "docs", "--out", "clean.idx", "--decontaminate", "humaneval", "--data", "data"]
    assert run(arguments) == 0
    said = capsys.readouterr().out
    assert "2 passages" in said and "dropped 1" in said and "leak.md" in said


def test_methods_and_models_are_listed(capsys) -> None:
    assert run(["methods", "--json"]) == 0
    assert {"rar", "rat", "direct"} <= set(json.loads(capsys.readouterr().out))
    assert run(["methods"]) == 0
    assert run(["methods", "rar"]) == 0
    assert "--set" in capsys.readouterr().out
    with serving(MockOpenAI(models=("one-model",))) as server:
        assert run(["models", "--json", "--base-url", server.url]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert any("smollm2" in entry["name"] for entry in listed)
    (found,) = [entry for entry in listed if entry["name"] == "openai/one-model"]
    assert found["use"] == f"--model openai/one-model --base-url {found['server']}"


def test_the_real_embedded_model_answers_from_the_command_line(capsys, home: Path) -> None:
    from tests.models import small_model

    os.environ.pop("REGROUND_HOME", None)
    model = small_model()
    os.environ["REGROUND_HOME"] = str(home / "home")
    arguments = ["ask", "Which river flows through Vienna?", "--corpus", "docs", "--method", "rag", "--json"]
    code = run([*arguments, "--model", f"gguf/{model}", "--set", "k=1", "--set", "max_tokens=24"])
    said = capsys.readouterr()
    assert code == 0, said.err
    answer = json.loads(said.out)
    assert answer["answer"].strip()
    assert answer["usage"]["completion"] > 0
    assert answer["shown"]


def test_ctrl_c_leaves_everything_resumable(home: Path) -> None:
    prompts = {"calls": 0}

    def script(body: dict[str, object]) -> str:
        prompts["calls"] += 1
        return "A thought.\n\nAnother thought."

    with serving(MockOpenAI(script, latency=0.3)) as server:
        asked = ["ask", "Which is longer?", "--corpus", "docs", "--method", "rar", *model_of(server)]
        command = [sys.executable, "-m", "reground", *asked]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c
        )
        deadline = time.monotonic() + 60
        while prompts["calls"] < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        assert child.returncode == 130, err
        assert "the same command continues" in err
        assert "Traceback" not in err
        done = sum(server.completed.values())
        again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert again.returncode == 4, again.stderr  # no document holds a thought
        assert "replayed, not paid again" in again.stdout
        whole = sum(server.completed.values())
    asked_twice = [prompt for prompt, count in server.completed.items() if count > 1]
    assert len(asked_twice) <= 3, "only calls that were in flight may be asked again"
    assert whole > done > 0
