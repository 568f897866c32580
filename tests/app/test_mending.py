"""A text of somebody else's, revised: given to a method as its draft, and mended where the documents do not support it."""

from __future__ import annotations

from pathlib import Path

import pytest

import reground
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.evidence import Passage
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

RIVERS = ScriptedRetriever([Passage(id="danube", title="Danube", text="The Danube is 2850 km long.")])
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
