"""The benchmark runs; what it measures is for people to read."""

from pathlib import Path

import pytest

from benchmarks import chunking


def test_the_row_says_what_was_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# One\n\nSome words here.\n\n```\na b c\n\nd e f\n```\n\n## Two\n\n| a | b |\n| - | - |\n"
    (tmp_path / "a.md").write_text(text)
    chunking.main([str(tmp_path), "--tokens", "20"])
    assert "| reground | 2 | 0 of 1 | 0 of 1 | 0 | 2 |" in capsys.readouterr().out
    cut = text.index("d e f")
    assert chunking.row([text], lambda _: [(0, cut), (cut, len(text))], 20)[:3] == ["2", "1 of 1", "0 of 1"]
