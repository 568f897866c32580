"""The benchmark of the default order: its questions have known places, and both searches are asked them."""

from pathlib import Path

from benchmarks import order

PAGE = """Pumps
=====

The bilge pump of the lugger is driven by a belt from the main shaft, which turns only while the engine runs.

.. data:: PUMP_LIMIT

   How much it lifts.
"""
CODE = '''class Lugger:
    def empty_bilge_water(self):
        """Empty what has come into the boat over night."""
'''


def test_questions_about_a_folder_have_known_places(tmp_path: Path, capsys) -> None:
    (tmp_path / "pumps.rst").write_text(PAGE)
    (tmp_path / "bilge.py").write_text(CODE)
    (tmp_path / "boats.csv").write_text("boat,length\nHeron of Ostby,11.2\nTern of Ostby,9.7\n")
    asked = order.asked(tmp_path, 9)
    assert {each.kind for each in asked} == {"prose", "names", "words", "cells"}
    assert ("What is the length of Tern of Ostby?", "boats.csv") in {(each.text, each.document) for each in asked}
    assert not any(each.text == each.place for each in asked)
    order.main(["--sets", "", "--folders", f"boats={tmp_path}", "--questions", "9"])
    told = {line.split("|")[1].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert "1.000 +0.000" in told["boats"] and "1.000 +0.000" in told["boats: cells"]
