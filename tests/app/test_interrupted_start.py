"""Ctrl-C while the program is still being loaded: one line and the exit code of an interruption, as later on."""

import subprocess
import sys

import pytest

# Rings like a user who presses Ctrl-C at the moment when this module is looked for.
PRESSED = """
import signal, sys
class Ring:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Ring())
from reground.app.cli import main
main(["index", "docs", "--out", "idx"])
"""


@pytest.mark.parametrize(
    "module", ["typer", "pydantic", "pydantic_core", "rich", "rich.console", "reground.app.cli.index", "tantivy"]
)
def test_ctrl_c_while_a_module_is_loaded(module, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nText.\n")
    command = [sys.executable, "-c", PRESSED, module]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.stderr == "interrupted; everything so far is kept: the same command continues from here\n"
    assert done.returncode == 130
