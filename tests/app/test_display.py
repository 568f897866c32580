from __future__ import annotations

import io
from functools import partial
from pathlib import Path

from rich.console import Console

import reground
from reground.app.cli.display import corrected, cost_line, plain, show_line, show_result, show_trajectory
from reground.core.evidence import Passage
from reground.core.language import Reply, Usage
from reground.core.trajectory import Failure, Trajectory
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever


def shown(show: object, *arguments: object) -> str:
    out = io.StringIO()
    show(Console(file=out, width=100, highlight=False), *arguments)  # type: ignore[operator]
    return out.getvalue()


def test_outside_text_cannot_style_or_move_the_terminal() -> None:
    assert plain("a\x1b[2Jb\x07[red]c[/red]").plain == "a[2Jb[red]c[/red]"


def test_a_result_shows_answer_steps_evidence_and_cost(tmp_path: Path) -> None:
    retriever = ScriptedRetriever([Passage(id="danube.md", title="Danube", text="Vienna lies on it.")])
    replies = lambda messages, sampling: "Vienna lies on the Danube [1].\n\nSo it is the Danube [1]."  # noqa: E731
    result = reground.ask("Which river?", method="rat", model=ScriptedModel(replies), corpus=retriever, home=tmp_path)
    text = shown(partial(show_result, steps=True), result)
    for part in (
        "Answer",
        "Steps",
        "Supported by",
        "danube.md",
        "calls",
        "trajectory:",
        "Vienna lies on the Danube [1].",
    ):
        assert part in text
    assert "Steps" not in shown(show_result, result)


def test_cited_sources_stand_under_the_answer_and_what_was_also_read_apart_from_them(tmp_path: Path) -> None:
    found = [Passage(id=f"{name}.md", title=name, text=f"The {name}.") for name in ("Danube", "Seine")]
    retriever = ScriptedRetriever(found)

    def ask(reply: str) -> str:
        result = reground.ask(
            "Which?", method="rag", model=ScriptedModel([reply]), corpus=retriever, home=tmp_path, fresh=True
        )
        return shown(show_result, result)

    text = ask("The Seine [2].")
    assert (
        text.index("The Seine [2].") < text.index("Supported by") < text.index("Seine.md") < text.index("“The Seine.”")
    )
    assert text.index("“The Seine.”") < text.index("Also read") < text.index("Danube.md")
    part = ask("The Seine [2]. The Rhine carries nine hundred ships every day.")
    assert part.index("Supported by") < part.index("Not supported by what was read") < part.rindex("nine hundred ships")
    none = ask("The Rhine carries nine hundred ships every day.")
    assert "Your documents do not say" in none and "Supported by" not in none and "Danube.md" in none


def test_the_passages_of_one_file_stand_in_one_line(tmp_path: Path) -> None:
    names = ("a.md#1", "b.md#1", "a.md#2")
    found = [Passage(id=name, title=name[0], url=name[:4], text=f"The {name}.") for name in names]
    model = ScriptedModel(["Nine hundred ships."])
    result = reground.ask("How many?", method="rag", model=model, corpus=ScriptedRetriever(found), home=tmp_path)
    read = shown(show_result, result).splitlines()
    assert [line for line in read if line.startswith("[")] == ["[1][3] a  a.md", "[2] b  b.md"]


def test_an_answer_that_was_cut_is_said_to_be(tmp_path: Path) -> None:
    reply = Reply(text="The database that is stored in the", finish_reason="length")
    retriever = ScriptedRetriever([Passage(id="a", text="The Seine.")])
    result = reground.ask("Which?", method="rag", model=ScriptedModel([reply]), corpus=retriever, home=tmp_path)
    assert "the limit on a reply's length cut the answer" in shown(show_result, result)


def test_a_correction_is_shown_word_by_word() -> None:
    text = corrected("It was built in 1889.", "The tower was built in 1887.")
    assert text.plain == "[-It-]{+The tower+} was built in[- 1889.-]{+ 1887.+}"
    few = corrected("one of all of two", "three of all of four")
    assert few.plain == "[-one-]{+three+} of all of[- two-]{+ four+}"
    fewer = corrected("one of two", "three of four")
    assert fewer.plain == "[-one of two-]{+three of four+}", "a single word between changes is no comfort"
    assert corrected("same words", "same words").plain == "same words"
    assert corrected("word " * 300, "word " * 300 + "end").plain.count("word") == 300, "nothing is cut"


def test_a_trajectory_is_shown_step_by_step(tmp_path: Path) -> None:
    retriever = ScriptedRetriever([Passage(id="a", text="[bold]not markup[/bold]")])
    result = reground.ask("Which?", method="rag", model=ScriptedModel(["That."]), corpus=retriever, home=tmp_path)
    text = shown(show_trajectory, result.trajectory)
    assert "query: Which?" in text
    assert "[bold]not markup[/bold]" in text
    assert "That." in text


def test_a_failed_trajectory_shows_its_failure_in_one_line() -> None:
    trajectory = Trajectory(id="1", question="Q?", method="rar", failure=Failure(type="ModelError", message="down"))
    assert "down" in shown(show_line, 1, trajectory)
    assert "ModelError: down" in shown(show_trajectory, trajectory)


def test_the_cost_line_names_every_part() -> None:
    line = cost_line(Usage(calls=2, prompt=1500, cached=500, completion=20, usd=0.25), 3.0, 1)
    assert line == (
        "2 calls, 1.5k prompt tokens (500 cached), 20 completion tokens, 0.2500 USD, 3.0 s, 1 calls replayed, not "
        "paid again"
    )
