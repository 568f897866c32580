from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError, DataError
from reground.downloads import PullError
from reground.evaluation.data import HUB, data_path, data_root, is_hub, numbered_records
from reground.evaluation.tasks import load_task, qa


def test_records_come_in_order_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    text = '{"id": "a"}\n\n  \n{"id": "b", "x": "é"}'.encode()
    for name, content in (("q.jsonl", text), ("q.jsonl.gz", gzip.compress(text))):
        (tmp_path / name).write_bytes(content)
        assert [each for _, each in numbered_records(tmp_path / name, ["id"])] == [{"id": "a"}, {"id": "b", "x": "é"}]


PACKED = gzip.compress(b'{"id": "a"}\n' * 100, mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("q.jsonl", b'{"id": "a"}\n{"id": \n', ":2: not JSON"),
        ("q.jsonl", b'\n\n["id"]\n', ":3: expected a JSON object, found list"),
        ("q.jsonl", b'{"id": "a"}\n{"question": "q"}\n', ":2: the field 'id' is missing"),
        ("q.jsonl", b'{"id": ' + b"1" * 5000 + b"}", ":1: not JSON"),
        ("q.jsonl", b"[" * 200_000, ":1: "),
        ("q.jsonl", b"\xff\xfe\x00", ":1: not UTF-8"),
        ("q.jsonl", None, ": cannot be read"),
        ("q.jsonl.gz", PACKED[: len(PACKED) // 2], ": the compressed file is damaged or cut short"),
        ("q.jsonl.gz", b"plain text", ": the compressed file is damaged or cut short"),
    ],
)
def test_a_bad_line_or_file_is_named(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(numbered_records(path, ["id"]))
    assert str(caught.value).startswith(f"{path}{says}")


def test_the_root_is_what_was_given_then_the_variable_then_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, named, default = tmp_path / "given", tmp_path / "named", tmp_path / "data"
    for folder in (given, named, default):
        folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_DATA", str(named))
    assert data_root(given) == given
    assert data_root(None) == named
    monkeypatch.delenv("REGROUND_DATA")
    assert data_root(None).resolve() == default.resolve()


def test_a_missing_root_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGROUND_DATA", raising=False)
    with pytest.raises(ConfigurationError, match="--data DIR or in REGROUND_DATA"):
        data_root(None)
    with pytest.raises(ConfigurationError, match="--data"):
        data_root(tmp_path / "none")
    monkeypatch.setenv("REGROUND_DATA", "/nowhere")
    with pytest.raises(ConfigurationError, match=r"/nowhere \(REGROUND_DATA\)"):
        data_root(None)


def test_a_compressed_file_stands_in_for_the_plain_one(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    packed = tmp_path / "set" / "test.jsonl.gz"
    packed.write_bytes(gzip.compress(b"{}\n"))
    assert data_path(tmp_path, "set", "test.jsonl") == packed
    plain = tmp_path / "set" / "test.jsonl"
    plain.write_text("{}\n")
    assert data_path(tmp_path, "set", "test.jsonl") == plain
    with pytest.raises(DataError, match="--data DIR") as caught:
        data_path(tmp_path, "set", "dev.jsonl")
    assert "dev.jsonl" in str(caught.value)


QUESTION = {
    "id": "dev_0",
    "question": "Which year?",
    "golden_answers": ["1564"],
    "metadata": {"type": "bridge", "supporting_facts": {"title": ["A"], "sent_id": [0]}},
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files of a model hub by their names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    files: dict[str, str] = {}

    def download(repository: str, file: str, path: Path, *, begins: bytes) -> None:
        if file not in files:
            raise PullError(f"it has no {repository}:{file}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[file])

    monkeypatch.setattr(qa, "download", download)
    return files


def test_a_task_comes_from_the_hub(hub: dict[str, str]) -> None:
    hub["hotpotqa/dev.jsonl"] = json.dumps(QUESTION) + "\n"
    task = load_task("hotpotqa", data_root(HUB))
    assert [(example.id, example.golden_answers) for example in task.examples()] == [("dev_0", ("1564",))]
    assert task.corpus is None  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"no datasets/RUC-NLPIR/FlashRAG_datasets:musique/dev.jsonl; .*--data DIR"):
        load_task("musique", HUB)
    with pytest.raises(DataError, match=r"theoremqa/test.jsonl is not available from the hub; .*--data DIR"):
        load_task("theoremqa", HUB)


def test_a_folder_called_hub_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_hub(data_root(HUB))
    (tmp_path / "hub" / "set").mkdir(parents=True)
    assert not is_hub(data_root(HUB))
    assert data_path(HUB, "set") == HUB / "set"
