"""A text of somebody else, given to a method as its draft, and mended where the documents do not support it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import reground
from reground.app.cli import run
from reground.app.mending import Mending, Outcome, same_subject
from reground.core.budget import Budget
from reground.core.errors import RegroundError
from reground.core.evidence import Passage
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import MockOpenAI
from tests.methods.helpers import Paid
from tests.servers import model_of, serving

RIVERS = ScriptedRetriever([Passage(id="danube", title="Danube", text="The Danube is 2850 km long.")])
ADA = "Ada Lovelace was born in London in 1815. She wrote notes on the Analytical Engine in 1843. She died in 1852."
CURIE = "Marie Curie won the Nobel Prize in Physics in 1903."
DOCUMENTS = ScriptedRetriever(
    [Passage(id="ada.md", title="Ada Lovelace", text=ADA), Passage(id="curie.md", title="Marie Curie", text=CURIE)]
)
LENGTH = "How long is the Danube?"


def silent(messages: object, sampling: object) -> str:
    return "NO CHANGE"


@pytest.mark.parametrize("method", ["rar", "rat"])
def test_a_draft_in_a_file_is_revised_and_another_draft_is_another_run(tmp_path: Path, method: str) -> None:
    file = tmp_path / "draft.md"
    file.write_text("The Danube is 2850 km long.", encoding="utf-8")
    asked = {"question": LENGTH, "method": method, "corpus": RIVERS, "home": tmp_path / "runs", "draft": file}
    model = ScriptedModel(silent)
    assert reground.ask(model=model, **asked).text == "The Danube is 2850 km long."
    assert not any("Think step by step" in messages[-1].content for messages, _ in model.calls)
    again = ScriptedModel([])
    assert reground.ask(model=again, **asked).text == "The Danube is 2850 km long."
    file.write_text("The Danube flows through Vienna.", encoding="utf-8")
    other = ScriptedModel(silent)
    assert reground.ask(model=other, **asked).text == "The Danube flows through Vienna."
    assert other.calls != [] == again.calls


@pytest.mark.parametrize(
    ("method", "content"),
    [
        ("rag", b"A."),
        ("chain_of_knowledge", b"A."),
        ("rar", None),
        ("rar", b" \n"),
        ("rat", b"\x89PNG\r\n\x1a\n\x00\x00"),
    ],
)
def test_a_draft_that_no_method_can_begin_with_is_refused_before_anything_is_asked(
    tmp_path: Path, method: str, content: bytes | None
) -> None:
    file = tmp_path / "draft.md"
    if content is not None:
        file.write_bytes(content)
    model = ScriptedModel([])
    with pytest.raises(RegroundError, match=r"draft"):
        reground.ask(LENGTH, method=method, model=model, corpus=RIVERS, home=tmp_path / "runs", draft=file)
    assert model.calls == []


def reviser(corrections: Mapping[str, str], otherwise: str = "NO CHANGE") -> ScriptedModel:
    """A model that corrects the steps that hold the keys, and says the same of all others."""

    def reply(messages: Any, sampling: object) -> str:
        prompt = messages[-1].content
        if "Write only the query" in prompt:
            return prompt.split("\nText:\n")[-1].split("\n\nTask:")[0]
        if "Find the errors" in prompt:
            return "It is wrong."
        subject = prompt.split("\n\nTask:")[0].split("\n\n")[-2 if "Somebody answered" in prompt else -1]
        return next((right for wrong, right in corrections.items() if wrong in subject), otherwise)

    return Paid(reply)


def mend(text: str, tmp_path: Path, model: ScriptedModel, **options: Any) -> Mending:
    asked = {"model": model, "corpus": DOCUMENTS, "home": tmp_path, "mend": True, **options}
    result = reground.check(text, **asked)
    assert result.mended is not None
    return result.mended


TEXT = """# Ada Lovelace

Ada Lovelace was born in London in 1820 [3].  She died in 1852 [4].

* She wrote *notes* on the `Analytical Engine` in 1843.
* She invented the telephone.

```text
She invented the telephone.
```

    She invented the telephone.

| name | born |
|---|---|
| Ada Lovelace | 1820 |
"""
RIGHT = {"London in 1820": "Ada Lovelace was born in London in 1815 [1].", "| 1820": "| Ada Lovelace | 1815 |"}


@pytest.mark.parametrize("method", ["rar", "rat"])
def test_what_fell_is_corrected_with_its_source_and_the_rest_is_the_same_letter_by_letter(
    tmp_path: Path, method: str
) -> None:
    result = mend(TEXT, tmp_path, reviser(RIGHT), method=method, unsupported="keep")
    expected = TEXT.replace("1820 [3].", "1815 [source: Ada Lovelace].")
    assert result.text == expected.replace("1820 |", "1815 [source: Ada Lovelace] |")
    became = [(part.outcome, part.source[0].passage_id) for part in result.parts if part.outcome != Outcome.KEPT]
    assert became == 2 * [(Outcome.CORRECTED, "ada.md")]


@pytest.mark.parametrize(
    ("unsupported", "after"),
    [
        ("mark", "* She invented the telephone [unsupported: not in the documents].\n"),
        ("keep", "* She invented the telephone.\n"),
        ("remove", ""),
    ],
)
def test_what_nothing_can_take_the_place_of_is_marked_kept_or_removed(
    tmp_path: Path, unsupported: str, after: str
) -> None:
    before = "* She invented the telephone.\n"
    lines = f"Ada Lovelace died in 1852.\n\n* She wrote notes on the Analytical Engine.\n{before}\nEnd?\n"
    result = mend(lines, tmp_path, reviser({}), unsupported=unsupported)
    assert result.text == lines.replace(before, after)
    again = mend(result.text, tmp_path, reviser({}), unsupported=unsupported)
    assert again.text == result.text  # a mended text is not marked twice


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("# A\n\nShe flew.\n\n# B\n\nAda Lovelace died in 1852.\n", "# B\n\nAda Lovelace died in 1852.\n"),
        ("# A\n\n## B\n\nShe flew.\n\n## C\n\nShe swam.\n\n# D\n\nWhy?\n", "# D\n\nWhy?\n"),
        ("She died in 1852. Her feats:\n\n- She flew.\n- She swam.\n\nWhy?\n", "She died in 1852.\n\nWhy?\n"),
        ("Feats:\n\n- By air:\n  - She flew.\n- She died in 1852.\n", "Feats:\n\n- She died in 1852.\n"),
        ("| feat | year |\n|---|---|\n| She flew | 1999 |\n\nWhy?\n", "Why?\n"),
        ("She flew. She died in 1852.\n\nWhy?\n", "She died in 1852.\n\nWhy?\n"),
        ("- She flew. She died in 1852.\n- Why?\n", "- She died in 1852.\n- Why?\n"),
        ("She died in 1852. She flew.\n\nWhy?\n", "She died in 1852.\n\nWhy?\n"),
        ("Feats:\n\n- She flew.\n- She died in 1852.\n", "Feats:\n\n- She died in 1852.\n"),
        ("# A\n\nShe flew.\n\n```sh\nls\n```\n", "# A\n\n```sh\nls\n```\n"),
    ],
)
def test_nothing_dangles_where_content_was_removed(tmp_path: Path, text: str, left: str) -> None:
    text, left = (each.replace("She died", "Ada Lovelace died") for each in (text, left))
    assert mend(text, tmp_path, reviser({}), unsupported="remove").text == left


def test_a_revision_that_the_documents_do_not_support_or_that_is_another_text_replaces_nothing(tmp_path: Path) -> None:
    wrong = "Ada Lovelace won the Nobel Peace Prize in Physics in 1999."
    text = f"# Ada Lovelace\n\nAda Lovelace died in 1852. {wrong}\n"
    for revision in (
        "Ada Lovelace won the Nobel Peace Prize in Chemistry in 1998.",
        CURIE,
        "Ada Lovelace died in 1852.",
        f"The prize of 1903: {ADA} {CURIE}",
        "- a\n- b",
    ):
        result = mend(text, tmp_path, reviser({"Nobel": revision}), unsupported="keep")
        assert (result.text, revision) == (text, revision)
        assert [part.before.text.strip() for part in result.parts if part.why] == [wrong]


def test_a_short_answer_is_mended_as_an_answer(tmp_path: Path) -> None:
    model = reviser({"1999": "Answer: 1815"})
    result = mend("1999", tmp_path, model, question="When was Ada Lovelace born in London?")
    assert result.text == "1815 [source: Ada Lovelace]"
    nothing = mend("1999", tmp_path, reviser({}, otherwise="[1]"), question="In what year was Ada Lovelace born?")
    assert nothing.parts[0].outcome == Outcome.MARKED


def test_where_the_method_finds_nothing_the_word_of_the_documents_stands_in_a_contradicted_sentence(
    tmp_path: Path,
) -> None:
    text = "Ada Lovelace was born in London in 1820.\n"
    right = "Ada Lovelace was born in London in 1815 [source: Ada Lovelace].\n"
    assert mend(text, tmp_path, reviser({})).text == right
    silent = reviser({"1820": "Marie Curie won the Nobel Prize in Physics in 1903."})
    assert mend(text, tmp_path / "other", silent).text == right


@pytest.mark.parametrize("cited", ["[1]", "([Curie](curie.md))", "(curie.md)"])
def test_a_sentence_that_cites_another_source_than_its_own_gets_a_new_citation_without_a_model(
    tmp_path: Path, cited: str
) -> None:
    model = ScriptedModel([])
    text = f"- Ada Lovelace wrote **notes** on the Analytical Engine in 1843 {cited}.\n\n[1] Marie Curie\n"
    result = mend(text, tmp_path, model)
    assert result.text.startswith("- Ada Lovelace wrote **notes** on the Analytical Engine in 1843")
    assert (result.parts[0].outcome, model.calls) == (Outcome.CITED, [])
    assert "[source: Ada Lovelace]." in result.text and cited not in result.text.partition("\n")[0]
    assert result.text.endswith("\n\n[1] Marie Curie\n")


@pytest.mark.parametrize("tokens", [1, 600, 1200])
def test_where_the_budget_ends_what_is_mended_so_far_holds_and_it_is_said(tmp_path: Path, tokens: int) -> None:
    result = mend(TEXT, tmp_path, reviser(RIGHT), unsupported="keep", budget=Budget(tokens=tokens))
    assert result.stopped is not None and "tokens" in result.stopped
    assert result.usage.prompt + result.usage.completion <= tokens
    assert "She died in 1852 [4].\n" in result.text


def test_the_same_text_again_is_replayed_and_a_text_that_holds_asks_no_model(tmp_path: Path) -> None:
    first = mend(TEXT, tmp_path, reviser(RIGHT))
    silent = ScriptedModel([])
    assert mend(TEXT, tmp_path, silent).text == first.text
    holds = "Ada Lovelace died in 1852.\n"
    result = mend(holds, tmp_path, silent)
    assert (result.text, result.usage.calls, silent.calls) == (holds, 0, [])


@pytest.mark.usefixtures("docs")
def test_the_command_prints_the_mended_text_alone_and_says_what_changed_beside_it(capsys: Any) -> None:
    text = "# Rivers\n\nThe Seine is 775 km long.  \nThe Danube is 12 km long [7].\n"
    Path("answer.md").write_text(text, encoding="utf-8")
    with serving(MockOpenAI(lambda body: "The Danube is 2850 km long.")) as server:
        told = ["check", "answer.md", "-c", "docs", "--mend", *model_of(server)]
        assert run(told) == 0
        out, error = capsys.readouterr()
        assert out == text.replace("12 km long [7].", "2850 km long [source: danube.md:3].")
        assert "[- 12 km long [7].-]{+ 2850 km long" in error.replace("\n", " ")
        asked = len(server.received)
        assert run([*told, "--json"]) == 0
        mended = json.loads(capsys.readouterr().out)["mended"]
        assert (mended["text"], mended["share"]) == (out, 1.0)
        assert [part["outcome"] for part in mended["parts"]] == ["corrected"]
        assert run([*told, "-o", "by_json.md", "--json"]) == 0
        assert Path("by_json.md").read_text(encoding="utf-8") == json.loads(capsys.readouterr().out)["mended"]["text"]
        assert run([*told, "-o", "mended.md", "--quiet"]) == 0
        assert (Path("mended.md").read_text(encoding="utf-8"), capsys.readouterr().out) == (out, "")
        assert len(server.received) == asked  # replayed
        assert run([*told, "--fresh", "--quiet"]) == 0
        assert len(server.received) == 2 * asked


@pytest.mark.usefixtures("docs")
@pytest.mark.parametrize(
    "more",
    [
        *(["--mend", *given] for given in (["--method", "rag"], ["other.md"], ["--method", "rar+non_causal"])),
        *(["--mend", option, place] for option in ("-o", "--html") for place in ("docs", "/dev/x", "/proc/x.md")),
        ["-o", "x.md"],
    ],
)
def test_what_cannot_mend_is_refused(more: list[str]) -> None:
    for name in ("answer.md", "other.md"):
        Path(name).write_text("The Seine is 775 km long. The Danube is 12 km long.", encoding="utf-8")
    with serving(MockOpenAI(lambda body: "x")) as server:
        assert run(["check", "answer.md", *more, "-c", "docs", *model_of(server)]) == 2
        assert server.received == []


SAME = [
    ("In Paris, Ada Lovelace was born in 1820.", "Ada Lovelace was born in London in 1815.", ""),
    ("Ada Lovelace was born in Paris in 1820.", "Ada Lovelace was born in London in 1815.", ""),
    ("In 1820 Ada Lovelace was born.", "Ada Lovelace was born in 1815.", ""),
    ("She was born in 1820.", "Ada Lovelace was born in 1815.", "Ada Lovelace"),
    ("She was born in 1820.", "She was born in 1815.", ""),
    ("Sydney is the capital of Australia.", "Canberra is the capital of Australia.", "What is the capital?"),
    ("The Danube is 2000 km long.", "The Danube is 2850 km long.", ""),
    ("The Danube is 2000 km long.", "With 2850 km, the Danube is Europe's second longest river.", ""),
    ("Ada Lovelace was born in 1820.", "Augusta Ada King, Countess of Lovelace, was born in 1815.", ""),
    ("The capital of Australia is Sydney.", "Australia's capital is Canberra.", ""),
    ("阿达·洛夫莱斯1820年出生在巴黎。", "阿达·洛夫莱斯1815年出生在伦敦。", ""),
    ("Die Donau ist 2000 km lang.", "Die Donau ist 2850 km lang.", ""),
    ("`timeout` defaults to 30 seconds.", "The default of `timeout` is 60 seconds.", ""),
    ("| Ada | 1820 |", "| Ada | 1815 |", ""),
    ("Born: 1820", "Born: 1815", "Ada Lovelace"),
    ("The option --retries takes 5 tries.", "The option --retries takes 3 tries.", ""),
]
OTHER = [
    ("The Eiffel Tower is 500 m high.", "The Tower Bridge is 65 m high.", ""),
    ("Ada Lovelace won the Nobel Prize in Physics in 1903.", "Marie Curie won the Nobel Prize in Physics in 1903.", ""),
    ("The Danube is 2000 km long.", "The Rhine is 1230 km long.", "Rivers"),
    ("The Danube is 2000 km long.", "The Rhine is 1230 km long.", "Which is longer, the Danube or the Rhine?"),
    ("She shared a prize with Marie Curie.", "Ada Lovelace wrote notes on the Analytical Engine.", "Ada Lovelace"),
    ("She won the Nobel Prize in Physics.", "Marie Curie won the Nobel Prize in Physics.", "Ada Lovelace"),
    ("Die Donau ist 2000 km lang.", "Der Rhein ist 1230 km lang.", ""),
    ("多瑙河全长2000公里。", "莱茵河全长1230公里。", ""),
    ("The red panel weighs 12 kg.", "The blue panel weighs 15 kg.", ""),
    ("Sales rose by 12 % in 2020.", "Exports fell by 3 % in 2021.", ""),
]


@pytest.mark.parametrize(("before", "after", "topic"), SAME)
def test_a_right_revision_speaks_of_the_same_subject(before: str, after: str, topic: str) -> None:
    assert same_subject(before, after, topic)


@pytest.mark.parametrize(("before", "after", "topic"), OTHER)
def test_a_sentence_about_another_subject_is_no_revision(before: str, after: str, topic: str) -> None:
    assert not same_subject(before, after, topic)
