"""Ctrl-C when the work is done and the process is about to end: a documented exit code, and no traceback."""

import subprocess
import sys

import pytest

# Rings like a user who presses Ctrl-C at a moment of the end.
PRESSED = """
import atexit, signal, sys
from reground.app import cli
signal.signal(signal.SIGINT, signal.default_int_handler)

def ring(*_):
    sys.setprofile(None)
    signal.raise_signal(signal.SIGINT)

def watch(frame, event, what):
    ends = event == "return" and frame.f_code is cli.run.__code__
    leaves = event == "c_call" and what is sys.exit
    if (moment == "done" and ends) or (moment == "leaving" and leaves):
        ring()

moment = sys.argv[1]
atexit.register(ring) if moment == "ending" else sys.setprofile(watch)
cli.main(["index", "docs", "--out", "idx"])
"""


@pytest.mark.parametrize(("moment", "code"), [("done", 130), ("leaving", 0), ("ending", 0)])
def test_ctrl_c_at_the_end(moment, code, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nText.\n")
    command = [sys.executable, "-c", PRESSED, moment]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    told = "interrupted; everything so far is kept: the same command continues from here\n"
    assert (done.returncode, done.stderr) == (code, told if code else "")
    assert "1 passages from 1 documents" in done.stdout
