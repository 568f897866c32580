"""What `import reground` brings along: next to nothing, so that it is quick."""

import subprocess
import sys

HEAVY = ("torch", "numpy", "aiohttp", "tantivy", "transformers", "xllamacpp", "lancedb", "trafilatura", "pypdf", "rich",
         "matplotlib", "sqlite3.dbapi3", "typer")  # fmt: skip


def modules_after(statement):
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_importing_reground_brings_nothing_heavy():
    loaded = modules_after("import reground; reground.__version__")
    assert "reground" in loaded
    assert loaded.isdisjoint(HEAVY)
