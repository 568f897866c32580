"""What `import reground` brings along: next to nothing, so that it is quick."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "aiohttp", "tantivy", "transformers", "xllamacpp", "lancedb", "trafilatura", "pypdf", "rich",
         "matplotlib", "sqlite3.dbapi3", "typer")  # fmt: skip


def modules_after(statement):
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import reground", "import reground; reground.__version__"])
def test_importing_reground_brings_nothing_heavy(statement):
    loaded = modules_after(statement)
    assert "reground" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_public_names_are_there():
    done = subprocess.run(
        [sys.executable, "-c", "import reground; print(callable(reground.ask))"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "True"
