from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError
from reground.methods.shared.prompts import Templates, render


@dataclass(frozen=True, kw_only=True)
class Example(Templates):
    ask: str = "{question} and {form}"


def test_a_replacement_keeps_the_places():
    assert Example(ask="{form}: {question} {{literally}}").ask == "{form}: {question} {{literally}}"


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{question} {form} {answer}", r"unknown \{answer\}"),
        ("{question}", r"missing \{form\}"),
        ("{question} {form} {", "literal brace twice"),
        ("{question} {form} {}", "no plain name"),
        ("{question} {form} {0}", "no plain name"),
        ("{question.__class__} {form}", "no plain name"),
        ("{question!r} {form}", "no plain name"),
        ("{question:>20} {form}", "no plain name"),
    ],
)
def test_a_wrong_template_is_refused_when_it_is_made(template, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        Example(ask=template)


@given(st.text(), st.text())
def test_values_are_taken_as_they_are(question, form):
    shown = render("Q: {question}\nF: {form}\nend", question=question, form=form)
    assert shown == f"Q: {question.strip() or '(none)'}\nF: {form.strip() or '(none)'}\nend"


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("One. {a} {b}", "One. b"),
        ("One. {b} {a}", "One. b"),
        ("{a} {b}", "b"),
        ("One. {a}\n\n{b}", "One.\n\nb"),
        ("One.\n\n{a}\n\n{b}", "One.\n\nb"),
        ("Label:\n{a}\n\n{b}", "Label:\n(none)\n\nb"),
        ("Label: {a} {b}", "Label: (none) b"),
        ("{a}{{x}} {b}", "{x} b"),
    ],
)
def test_an_empty_value_is_shown_behind_a_label_and_leaves_no_gap_elsewhere(template, shown):
    assert render(template, a=" ", b="b") == shown
