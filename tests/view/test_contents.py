"""What there is to see at a path, also while it changes."""

from __future__ import annotations

from typing import Any

from reground.core.trajectory import append_trajectory, write_trajectories
from reground.evaluation.results import open_run
from reground.view.contents import Contents
from tests.view.samples import config, failed, record, run_folder, told


def read(contents):
    while contents.read():
        pass
    return contents


def items(contents, since=0):
    found: list[dict[str, Any]] = contents.news(contents.epoch, since)["items"]
    return found


async def test_a_run_has_a_line_of_the_table_and_its_questions(tmp_path):
    await run_folder(tmp_path / "rat")
    contents = read(Contents(tmp_path / "rat"))
    (run,) = contents.news()["sources"]
    assert (run["method"], run["primary"], run["score"], run["failed"], run["finished"]) == ("rat", "em", 0.5, 1, True)
    assert run["low"] is not None and run["tokens"] > 0
    first, second, last = items(contents)
    assert (first["n"], first["score"], first["answer"], first["example"]) == (0, 1.0, "the Danube", "q0")
    assert second["score"] == 0.0 and last["failure"] == "ModelError: the server said nothing"
    whole = contents.question(0)
    assert whole["record"]["scores"]["em"] == {"value": 1.0, "why": "as the judge said"}
    assert whole["question"].endswith("(0)") and len(contents) == 3


async def test_the_runs_of_a_comparison_are_found_and_new_ones_too(tmp_path):
    await run_folder(tmp_path / "rat")
    contents = read(Contents(tmp_path))
    assert [source["method"] for source in contents.news()["sources"]] == ["rat"]
    await run_folder(tmp_path / "direct", "direct", finished=False)
    read(contents)
    sources = contents.news()["sources"]
    assert [(source["method"], source["finished"], source["done"]) for source in sources] == [
        ("rat", True, 3),
        ("direct", False, 3),
    ]
    assert sources[1]["score"] == 0.5 and sources[1]["low"] is None


async def test_a_run_that_goes_on_gives_only_what_is_new(tmp_path):
    trajectory = await told("q0~0")
    with open_run(tmp_path / "run", config()) as folder:
        contents = read(Contents(folder.path))
        assert items(contents) == []
        folder.append(trajectory)
        (item,) = items(read(contents))
        assert "score" not in item
        seen = contents.news()["change"]
        assert items(read(contents), seen) == []
        folder.append_record(record(trajectory, 1.0))
        (item,) = items(read(contents), seen)
        assert (item["n"], item["score"]) == (0, 1.0)
        seen = contents.news()["change"]
        folder.append(failed("q1~0"))
        assert [each["n"] for each in items(read(contents), seen)] == [1]
        assert len(items(contents)) == 2


async def test_a_line_that_is_being_written_waits(tmp_path):
    path = tmp_path / "trace.jsonl"
    append_trajectory(path, failed("a"))
    line = path.read_bytes()
    path.write_bytes(line + line[:50])
    contents = read(Contents(path))
    assert len(items(contents)) == 1 and contents.news()["sources"][0]["notices"] == []
    with path.open("ab") as file:
        file.write(line[50:-1])  # whole, without its line end
    assert len(items(read(contents))) == 2
    assert len(items(read(contents))) == 2
    with path.open("ab") as file:
        file.write(b"\n" + line)
    assert len(items(read(contents))) == 3


async def test_a_damaged_line_is_told_of_and_the_others_are_read(tmp_path):
    path = tmp_path / "trace.jsonl"
    write_trajectories(path, [failed("a"), failed("b"), failed("c")])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"[1]\n\n" + lines[0] + lines[1].replace(b"answer", b"amswer") + b"\n" + lines[2])
    contents = read(Contents(path))
    assert [item["id"] for item in items(contents)] == ["a", "c"]
    notices = contents.news()["sources"][0]["notices"]
    assert "trace.jsonl:1" in notices[0]
    assert "trace.jsonl:4 cannot be read: its checksum does not match" in notices[1]


async def test_a_file_that_was_replaced_is_read_again(tmp_path):
    path = tmp_path / "trace.jsonl"
    write_trajectories(path, [failed("a"), failed("b")])
    contents = read(Contents(path))
    before = contents.epoch
    write_trajectories(path, [failed("c")])
    read(contents)
    assert contents.epoch != before
    assert [item["id"] for item in contents.news(before, 2)["items"]] == ["c"]
    path.unlink()
    read(contents)
    assert items(contents) == []


async def test_an_answered_question_s_folder_is_a_trace(tmp_path):
    folder = tmp_path / "runs" / "ask-1"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"question": "q"}')
    (tmp_path / "runs" / "ask-2").mkdir()
    (tmp_path / "runs" / "ask-2" / "config.json").write_text('{"question": "q"}')  # in work: no trajectory yet
    write_trajectories(folder / "trajectory.jsonl", [failed("ask-1")])
    assert [item["id"] for item in items(read(Contents(folder)))] == ["ask-1"]
    several = read(Contents(tmp_path / "runs"))
    assert [item["id"] for item in items(several)] == ["ask-1"]
    assert "ask-2" in several.news()["notices"][0]


async def test_one_damaged_folder_among_several_keeps_nobody_out_of_the_others(tmp_path):
    for name in ("ask-1", "ask-2"):
        (tmp_path / name).mkdir()
        write_trajectories(tmp_path / name / "trajectory.jsonl", [failed(name)])
    broken = tmp_path / "ask-1" / "trajectory.jsonl"
    broken.write_bytes(b"\0" * 100)  # as a power cut may leave it
    contents = read(Contents(tmp_path))
    assert [item["id"] for item in items(contents)] == ["ask-2"]
    (notice,) = contents.news()["notices"]
    assert f"{broken}:1: not a trajectory" in notice
    write_trajectories(broken, [failed("ask-1")])
    assert [item["id"] for item in items(read(contents))] == ["ask-2", "ask-1"]
    assert contents.news()["notices"] == []
