"""What there is to see at a path, also while it changes, and the story of a question."""

import json
from typing import Any

from reground.core.language import Message, Reply, TokenLogprob
from reground.core.trajectory import GenerateStep, append_trajectory, write_trajectories
from reground.evaluation.results import open_run
from reground.view.contents import Contents, highlights, story, text_before
from reground.view.server import as_json
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


async def test_each_revision_is_compared_with_the_text_it_revises():
    steps = story(await told())["steps"]
    revisions = [step["replies"][0]["changes"] for step in steps if step["name"] == "revise"]
    assert [[(taken, put) for taken, put, _ in each if taken or put] for each in revisions] == [
        [(" Danube.", " Danube river.")],
        [(" 2000 km.", " 2850 km [1].")],
        [(" 900 km.", " 1230 km [2].")],
    ]
    assert not any("changes" in step["replies"][0] for step in steps if step["name"] in ("draft", "query"))


async def test_passages_come_in_pieces_with_their_marks():
    found = [step["passages"] for step in story(await told())["steps"] if step["kind"] == "retrieve"]
    assert all("text" not in passage for passages in found for passage in passages)
    marks = {mark for passages in found for passage in passages for _, mark in passage["parts"]}
    assert marks == {"", "q", "s", "qs"}


async def test_the_sentences_say_whether_they_are_supported():
    answer = story(await told())["answer"]
    assert [each["supported"] for each in answer["sentences"]] == [True, False, None]
    assert [step["changes"] is not None for step in answer["steps"] if "changes" in step] == [True, True, True]


async def test_the_cost_of_a_step_is_told_twice_and_adds_up():
    whole = story(await told())
    spent = sum(stage["prompt"] + stage["completion"] for stage in whole["stages"])
    assert spent == whole["usage"]["prompt"] + whole["usage"]["completion"]
    assert sum(stage["calls"] for stage in whole["stages"]) == sum("seconds" in step for step in whole["steps"])


async def test_the_probabilities_of_tokens_become_their_mean():
    trajectory = await told()
    first = trajectory.steps[0]
    assert isinstance(first, GenerateStep)
    reply = Reply(text="ab", token_logprobs=(TokenLogprob(token="a", logprob=-1), TokenLogprob(token="b", logprob=-3)))
    step = first.model_copy(update={"replies": (reply,)})
    shown = story(trajectory.model_copy(update={"steps": (step,)}))["steps"][0]["replies"][0]
    assert shown["logprob"] == -2 and "token_logprobs" not in shown


def test_a_question_that_failed_has_a_story():
    whole = story(failed("x"))
    assert whole["answer"] is None and whole["steps"] == [] and whole["failure"]["type"] == "ModelError"
    assert json.loads(as_json(whole)) == whole


def pieces(text, query, *quotes):
    found = highlights(text, query, quotes)
    assert "".join(piece for piece, _ in found) == text
    return [(piece, marks) for piece, marks in found if marks]


def test_the_words_of_the_query_are_marked_by_their_stems():
    text = "Rivers of Austria: the Danube flows there."
    assert pieces(text, "Which river flowed through the Danube's valley?") == [
        ("Rivers", "q"),
        ("Danube", "q"),
        ("flows", "q"),
    ]


def test_words_that_say_nothing_and_single_letters_are_not_marked():
    assert pieces("Which of the two is today's?", "which of the Halley's") == []
    assert pieces("It took 7 days.", "7") == [("7", "q")]


def test_writing_without_spaces_is_marked_by_pairs():
    assert pieces("東京の川は隅田川です。", "隅田川") == [("隅", "q"), ("田", "q"), ("川", "q")]


def test_a_supporting_sentence_is_found_whatever_its_white_space():
    text = "One.\nThe Danube is\n  2850 km long. Two."
    assert pieces(text, "", "The Danube is 2850 km long.") == [("The Danube is\n  2850 km long.", "s")]
    assert pieces(text, "Danube", "The Danube is 2850 km long.") == [
        ("The ", "s"),
        ("Danube", "qs"),
        (" is\n  2850 km long.", "s"),
    ]
    assert pieces(text, "", "Not in it.", "") == []


def test_nothing_to_mark():
    assert highlights("", "query", ["quote"]) == []
    assert highlights("text", "", []) == [("text", "")]


DRAFT = "Vienna lies on the Danube.\n\nThe Danube has 2000 km [1]."


def said(content, role="user"):
    return Message.model_validate({"role": role, "content": content})


def test_the_text_before_is_the_part_of_the_prompt_that_replies_wrote():
    prompt = (
        "Question:\nHow long?\n\nText:\nVienna lies on the Danube.\n\nThe Danube has 2000 km [2].\n\nRevise the text."
    )
    reply = "Vienna lies on the Danube.\n\nThe Danube has 2850 km."
    assert text_before([said(prompt)], reply, [DRAFT]) == "Vienna lies on the Danube.\n\nThe Danube has 2000 km [2]."


def test_a_label_before_the_text_is_left_out():
    prompt = "First answer: Vienna lies on the Danube.\nCorrect it."
    assert text_before([said(prompt)], "Vienna lies on the river Danube.", [DRAFT]) == "Vienna lies on the Danube."


def test_a_turn_of_the_model_counts_too():
    messages = [said("Plan."), said(DRAFT, "assistant"), said("Improve it.")]
    assert text_before(messages, DRAFT.replace("2000", "2850"), [DRAFT]) == DRAFT


def test_where_the_prompt_has_no_such_text_the_last_like_reply_is_the_one_before():
    earlier = ["He was born in Marton, a village in Yorkshire, in 1728.", "Marton; Yorkshire"]
    reply = "He was born in Foulby, a village in Yorkshire, in 1693."
    assert text_before([said("Where was he born?")], reply, earlier) == earlier[0]


def test_a_reply_of_another_kind_revises_nothing():
    assert text_before([said(f"{DRAFT}\nWrite a query.")], "danube length in km", [DRAFT]) is None
    assert text_before([said("Is it right?")], "Yes", ["Yes"]) is None
    assert text_before([said("Draft.")], DRAFT, []) is None
