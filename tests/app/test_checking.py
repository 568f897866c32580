"""`reground check` and `reground.check`: an answer that anybody wrote, sentence by sentence, by every door to them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
from pathlib import Path

import pytest

import reground
from reground.app.checking import checked, setup_of
from reground.app.cli import run
from reground.app.options import Check
from reground.app.session import Session
from reground.core.errors import ConfigurationError, DataError
from reground.support.verdicts import MOST_CHARACTERS, Verdict
from tests.browser import browser_page
from tests.view.samples import HOSTILE

RIGHT, WRONG, OTHER = "The Seine is 775 km long.", "The Danube flows through Paris.", "Penguins cannot fly."
pytestmark = pytest.mark.usefixtures("docs")


def given(text: str | bytes, monkeypatch) -> None:
    data = text.encode() if isinstance(text, str) else text
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def told(capsys, *arguments: str, code: int = 0) -> str:
    assert run(["check", *arguments, "--corpus", "docs"]) == code
    return capsys.readouterr().out


def test_a_claim_is_printed_with_its_verdict_its_quote_and_its_place(capsys) -> None:
    Path("answer.md").write_text(f"# Rivers\n\n{RIGHT} {OTHER}\n")
    out = told(capsys, "answer.md", code=4)
    assert re.search(r"supported: The Seine.*\n.*flows through Paris and is 775.*\n.*Seine.*seine\.md:3", out)
    assert f"not found: {OTHER}" in out and "Rivers" not in out
    assert out.endswith("1 of 2 claims supported, 1 not found\n")
    assert told(capsys, "answer.md", code=4) == out
    assert told(capsys, "--text", "Which river is longer?", code=4).count("\n") == 1, "it claims nothing"


def test_what_a_claim_is_contradicted_by_and_where_it_stands_are_shown(capsys) -> None:
    text = "The Seine is 757 km long. The Danube flows through Vienna (see seine.md)."
    out = told(capsys, "--text", text, code=4)
    assert "the answer says 757" in out and "the documents say 775" in out
    assert "it cites seine.md" in out and "danube.md:3" in out


@pytest.mark.parametrize("how", [("--text", RIGHT), ("answer.md",), ("-",), (), ("/dev/fd/{}",)])
def test_an_answer_comes_from_a_file_standard_input_or_the_command(how: tuple[str, ...], capsys, monkeypatch) -> None:
    Path("answer.md").write_text(RIGHT)
    given(RIGHT, monkeypatch)
    pipe, entry = os.pipe()
    os.write(entry, RIGHT.encode())
    os.close(entry)
    assert "1 of 1 claims supported" in told(capsys, *(word.format(pipe) for word in how))


@pytest.mark.parametrize(
    ("text", "least", "code"),
    [
        (RIGHT, None, 0),
        (f"{RIGHT} {OTHER}", None, 4),
        (f"{RIGHT} {OTHER}", "0.5", 0),
        (f"{RIGHT} {OTHER}", "0.51", 4),
        ("Which river is longer?", None, 4),
        ("Not in these passages.", None, 4),
        ("Not in these passages.", "0", 0),
    ],
)
def test_the_exit_code_says_whether_enough_is_supported(text: str, least: str | None, code: int, capsys) -> None:
    told(capsys, "--text", text, *(["--fail-under", least] if least else []), code=code)


def test_as_json(capsys) -> None:
    result = json.loads(told(capsys, "--text", f"{RIGHT} {OTHER}", "--json", code=4))
    assert "".join(each["text"] for each in result["sentences"]) == result["text"]
    assert (result["share"], result["counts"]["supported"], result["counts"]["not found"]) == (0.5, 1, 1)
    (quote,) = result["sentences"][0]["evidence"]
    assert (quote["url"], quote["line"], result["sentences"][1]["verdict"]) == ("seine.md", 3, "not found")


def test_many_answers_give_a_table_and_what_fell_in_each(capsys) -> None:
    lines = [{"id": "a", "answer": RIGHT}, {"text": f"{RIGHT} {OTHER}", "question": "How long is the Seine?"}]
    Path("answers.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    out = told(capsys, "--answers", "answers.jsonl", code=4)
    assert re.search(r"^a +1 +1 .* 1.00", out, re.MULTILINE) and re.search(r"^2 +2 +1 .* 0.50", out, re.MULTILINE)
    assert OTHER in out and RIGHT not in out and "1 of 2 answers pass" in out
    results = [json.loads(line) for line in told(capsys, "--answers", "answers.jsonl", "--json", code=4).splitlines()]
    assert [(each["id"], each["passes"], each["share"]) for each in results] == [("a", True, 1.0), ("2", False, 0.5)]
    assert results[1]["question"] == "How long is the Seine?"
    Path("a.md").write_text(RIGHT)
    Path("b.md").write_text(RIGHT)
    assert "2 of 2 answers pass" in told(capsys, "a.md", "b.md")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.md", "-c", "docs"], "absent.md"),
        (["docs", "-c", "docs"], "docs"),
        (["empty.md", "-c", "docs"], "empty"),
        (["binary.pdf", "-c", "docs"], "binary"),
        (["long.md", "-c", "docs"], f"{MOST_CHARACTERS:,}"),
        (["answer.md"], "--corpus DIR"),
        (["answer.md", "-c", "absent"], "no such corpus"),
        (["answer.md", "--text", "x", "-c", "docs"], "two ways"),
        (["answer.md", "-c", "docs", "--fail-under", "90"], "from 0 to 1"),
        (["answer.md", "-c", "docs", "--support", "none"], "--support none"),
        (["answer.md", "-c", "docs", "--support", "wrods"], "words"),
        (["answer.md", "-c", "docs", "--support", "critic:no-such-folder"], "no-such-folder"),
        (["--answers", "wrong.jsonl", "-c", "docs"], "wrong.jsonl:2"),
        (["--answers", "empty.md", "-c", "docs"], "no answers"),
        (["-", "-c", "docs"], "empty"),
    ],
)
def test_a_wrong_use_is_one_clear_line(arguments: list[str], said: str, capsys, monkeypatch) -> None:
    given("", monkeypatch)
    Path("answer.md").write_text(RIGHT)
    Path("empty.md").write_text(" \n")
    Path("binary.pdf").write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 9)
    Path("long.md").write_text("The Seine is long. " * 60_000)
    Path("wrong.jsonl").write_text('{"text": "a"}\n{"texts": "b"}\n')
    assert run(["check", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1 and "internal" not in err


def test_python_has_the_same(docs: Path) -> None:
    result = reground.check(f"{RIGHT} {OTHER}", corpus=docs, question="How long is it?")
    assert [each.verdict for each in result.claims] == [Verdict.SUPPORTED, Verdict.NOT_FOUND]
    assert (result.share, result.passes(), result.passes(0.5), result.fallen) == (0.5, False, True, result.claims[1:])
    assert OTHER in str(result) and json.dumps(result.to_dict())
    assert asyncio.run(reground.acheck(RIGHT, corpus=["The Seine is 775 km long."])).passes()
    for text, corpus in (("", docs), (RIGHT, None), (RIGHT, "absent")):
        with pytest.raises((ConfigurationError, DataError)):
            reground.check(text, corpus=corpus)


async def test_a_folder_that_changes_is_followed(docs: Path) -> None:
    async with Session.open(setup_of(Check(corpus=docs))) as session:
        session.look_every = 0.0
        for number in (3, 4):
            text = f"The Vltava passes {number} weirs."
            (docs / "vltava.md").write_text(f"# Vltava\n\n{text}\n")
            result = await checked(session, text)
            assert (result.share, result.claims[0].evidence[0].line) == (1.0, 3)


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
async def test_the_page_is_usable_wide_and_narrow_light_and_dark(docs: Path, width: int, dark: bool) -> None:
    out, text = docs.parent / "page.html", f"{RIGHT}\n\n{OTHER}\n\n{HOSTILE}"
    code = await asyncio.to_thread(run, ["check", "--text", text, "-c", "docs", "--html", str(out)])
    assert code == 4 and out.read_text().count("</script>") == 2
    async with browser_page(width=width, dark=dark) as browsed:
        await browsed.page.goto(out.as_uri())
        assert (await browsed.page.locator(".badge").all_inner_texts())[:2] == ["supported", "not found"]
        assert await browsed.page.locator("figure a").get_attribute("href") == (docs / "seine.md").as_uri()
        assert "<img src=x" in await browsed.page.inner_text("main")
        assert await browsed.page.title() == "reground check"
        assert await browsed.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await browsed.unusable() == [] == browsed.complaints
