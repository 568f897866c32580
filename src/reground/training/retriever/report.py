"""What the fits of a folder came to, as text."""

from __future__ import annotations

from collections.abc import Sequence

from reground.training.retriever.folder import Try
from reground.training.retriever.validate import Validation


def validation_line(before: Validation, after: Validation) -> str:
    """One fit in a line."""
    return (
        f"{after.questions} held-out questions among {after.passages} passages: recall@3 {before.recall_at_3:.3f} -> "
        f"{after.recall_at_3:.3f}, MRR {before.mrr:.3f} -> {after.mrr:.3f}"
    )


def tries_table(tries: Sequence[Try]) -> str:
    """All fits as a Markdown table: the settings that differ between them, and the measures before and after."""
    names = sorted({name for each in tries for name in each.settings})
    differing = [name for name in names if len({str(each.settings.get(name)) for each in tries}) > 1]
    headers = ["fit", *differing, "questions", "recall@3 before", "after", "MRR before", "after"]
    rows = []
    for number, each in enumerate(tries, start=1):
        before, after = each.before, each.after
        values = (before.recall_at_3, after.recall_at_3, before.mrr, after.mrr)
        said = [str(each.settings.get(name)) for name in differing]
        rows.append([str(number), *said, str(after.questions), *(f"{value:.3f}" for value in values)])
    lines = [headers, ["---"] * len(headers), *rows]
    return "Held-out questions among each other's passages:\n\n" + "\n".join(
        f"| {' | '.join(line)} |" for line in lines
    )
