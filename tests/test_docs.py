"""The documentation's Python and shell blocks are executed, page by page, in a folder of their own.

`<!-- not run: REASON -->` on the line before a block leaves it out. `<!-- output -->` before a block of text says that
it is what the block before it prints; `REGROUND_REWRITE_DOCS=1 pytest tests/test_docs.py` writes these again. A mock
server answers in every model's place, with the recorded replies where a page shows what a real model said.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reground.app.cli import run
from reground.core.trajectory import GenerateStep, read_trajectories
from reground.demo import corpus_path, questions_path
from reground.testing.openai_server import MockOpenAI
from tests.data import ROOT
from tests.sandbox.needed import skipping_without
from tests.servers import serving

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
QUICK = ("README", "tutorial")
RECORDS = ROOT / "docs" / "reproduction"  # commands of experiments that took hours on a model server: kept as they were
EXECUTED = [page for page in PAGES if RECORDS not in page.parents]
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
DEMO = [json.loads(line) for line in questions_path().read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the comment before it, where its text stands in the page."""

    language: str
    code: str
    mark: str
    span: tuple[int, int]

    @property
    def runs(self) -> bool:
        return self.language in ("python", "sh", "console", "bash") and not self.mark.startswith("not run")


def blocks(page: Path) -> list[Block]:
    return [
        Block(found["language"], found["code"], found["mark"] or "", found.span("code"))
        for found in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def python_blocks() -> list[Any]:
    found = ((page, n, block) for page in PAGES for n, block in enumerate(blocks(page)) if block.language == "python")
    return [pytest.param(block.code, id=f"{page.stem}-{n}") for page, n, block in found]


@pytest.mark.parametrize("code", python_blocks())
def test_what_an_example_imports_is_there_and_public(code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for name in node.names:
                importlib.import_module(name.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and "._" not in node.module
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def test_a_block_that_is_not_run_says_why() -> None:
    left_out = [
        block for page in EXECUTED for block in blocks(page) if block.language in ("python", "sh", "console", "bash")
    ]
    for block in left_out:
        if not block.runs:
            assert re.fullmatch(r"not run: \w.{8,}", block.mark), block.code
    assert sum(block.runs for block in left_out) >= 15


def model_script() -> Callable[[dict[str, Any]], str]:
    """Recorded replies where there are some, in their order or by their question; else one that suits any prompt."""
    recorded = next(read_trajectories(ROOT / "docs" / "images" / "trajectory.jsonl"))
    in_order = [step.replies[0].text for step in recorded.steps if isinstance(step, GenerateStep)]
    lines = (ROOT / "tests" / "recorded" / "articles_rag.jsonl").read_text(encoding="utf-8").splitlines()
    by_question = {line["question"]: line["reply"] for line in map(json.loads, lines)}

    def script(body: dict[str, Any]) -> str:
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        if recorded.question in prompt and in_order:
            return in_order.pop(0)
        said = (reply for question, reply in by_question.items() if question in prompt)
        return next(said, "The Charles Bridge was finished first [1].\n\nAnswer: Charles Bridge")

    return script


@pytest.fixture
def world(tmp_path: Path, monkeypatch) -> Iterator[MockOpenAI]:
    """A reader's folder: documents, benchmark questions in the layout of HotpotQA, a model behind a URL."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("charles-bridge.md", "brooklyn-bridge.md"):
        shutil.copy(corpus_path() / name, docs / name)
    passages = [
        {"id": path.name, "title": path.stem, "text": path.read_text(encoding="utf-8")}
        for path in sorted(corpus_path().glob("*.md"))
    ]
    for dataset in ("hotpotqa", "2wikimultihopqa"):
        folder = tmp_path / "data" / dataset
        folder.mkdir(parents=True)
        (folder / "corpus.jsonl").write_text("".join(json.dumps(passage) + "\n" for passage in passages))
        split = [{**each, "metadata": {**each["metadata"], "split": "dev"}} for each in DEMO[:3]]
        split += [{**each, "metadata": {**each["metadata"], "split": "train"}} for each in DEMO[3:5]]
        (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in split))
    (tmp_path / "reground.toml").write_text('model = "openai/mock"\n')  # where a command names no model
    monkeypatch.chdir(tmp_path)
    for name in ("REGROUND_DATA", "REGROUND_QUIET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # pages show what a terminal does, where prose is wrapped,
    monkeypatch.setenv("TERM", "dumb")  # without colours
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with serving(MockOpenAI(model_script(), models=("mock", "my-model", "gpt-4o-mini"))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def executed(block: Block) -> str:
    """Run a block; returns what it printed. A model in this process becomes the mock server's."""
    code = re.sub(r"gguf/[\w.-]+", "openai/mock", block.code)
    if block.language == "python":
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "example", "exec"), {"__name__": "__main__"})
        return out.getvalue()
    lines = code.replace("\\\n", "").splitlines()
    return "".join(command(line) for line in lines if line.strip() and not line.startswith("#"))


def command(line: str) -> str:
    """Run one command: reground's own in this process, any other, and what stands behind a pipe, in a shell."""
    found = re.match(r"reground ([^|>]*)(.*)", line)
    if found is None:
        return shell(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(shlex.split(found[1], comments=True))
    assert code == 0, f"{line}\n{err.getvalue()}"
    return shell(f"cat {found[2]}", out.getvalue()) if found[2] else out.getvalue()


def shell(line: str, given: str = "") -> str:
    """Run a line in a shell; returns what it printed."""
    return subprocess.run(["bash", "-c", line], input=given, capture_output=True, text=True, check=True).stdout


def settled(text: str) -> str:
    """Without what differs from run to run: seconds, memory, tokens as another tokenizer counts them, names of runs."""
    text = re.sub(r"[\d.]+k? (prompt |completion )?tokens( \([\d.]+k? cached\))?", "N tokens", text)
    text = re.sub(r"\d+\.\d s\b", "N s", text)
    text = re.sub(r"\d+ MB of memory", "N MB of memory", text)
    text = re.sub(r"\b[0-9a-f]{12,}\b", "ID", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines() if not line.startswith("trajectory: "))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=() if page.stem in QUICK else pytest.mark.slow)
        for page in EXECUTED
        if any(block.runs for block in blocks(page))
    ],
)
def test_a_pages_blocks_run_and_print_what_the_page_shows(page: Path, world: MockOpenAI) -> None:
    if page.stem == "tutorial":
        world.refuses = ("logprobs",)  # the mock's own would choose between recorded answers
    else:
        shutil.copytree(corpus_path(), "articles")  # as the page about installing says
    printed = ""
    shown: list[tuple[Block, str]] = []
    for block in blocks(page):
        if block.runs:
            with skipping_without():
                printed = executed(block)
        elif block.mark == "output":
            shown.append((block, printed))
    if os.environ.get("REGROUND_REWRITE_DOCS"):
        text = page.read_text(encoding="utf-8")
        for block, printed in reversed(shown):
            if settled(block.code) == settled(printed):
                continue  # what a real run printed stays, with its tokens and seconds
            kept = "\n".join(line.rstrip() for line in printed.strip().splitlines())
            text = f"{text[: block.span[0]]}{kept}\n{text[block.span[1] :]}"
        page.write_text(text, encoding="utf-8")
        return
    for block, printed in shown:
        assert settled(block.code) == settled(printed)
