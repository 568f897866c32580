"""Standard streams that nobody reads, or that are not there: the command does its work and its exit code is its own."""

import os
import subprocess
import sys

import pytest

from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

COMMANDS = {
    "help": (["--help"], 0),
    "ask for JSON": (["ask", "Why?", "-m", "cot", "--model", "openai/mock", "--json"], 0),
    "error": (["ask", "Why?", "-m", "no_such_method"], 2),
}


def reground(words, folder, url, before=None, **streams):
    """Exit code and errors of a command; a stream that is given is closed by then."""
    done = subprocess.run(
        [sys.executable, "-m", "reground", *words],
        cwd=folder,
        env={**os.environ, "REGROUND_HOME": str(folder / "home"), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": ""},
        preexec_fn=before,
        timeout=60,
        check=False,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **streams},
    )
    return done.returncode, (done.stderr or b"").decode()


@pytest.fixture(scope="module")
def url():
    with serving(MockOpenAI(lambda body: "Answer: 42")) as server:
        yield server.url


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("closed", [("stdout",), ("stdout", "stderr"), (1,), (0, 1, 2)])
def test_a_stream_that_is_closed_or_whose_reader_has_left_changes_no_exit_code(name, closed, tmp_path, url):
    """closed: streams that nobody reads, by name; or descriptors that are not there, by number."""
    words, code = COMMANDS[name]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        if closed[0] == "stdout":
            ended, errors = reground(words, tmp_path, url, **dict.fromkeys(closed, writing))
        else:
            ended, errors = reground(words, tmp_path, url, before=lambda: [os.close(number) for number in closed])
    finally:
        os.close(writing)
    assert (ended, "Traceback" in errors, "Exception ignored" in errors) == (code, False, False), errors
