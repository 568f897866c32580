import ast
import sys
from pathlib import Path

import pytest

import reground.treesearch

FILES = sorted(Path(reground.treesearch.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_tree_search_imports_the_standard_library_only(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            names = [node.module]
        else:
            continue
        for name in names:
            assert name.startswith("reground.treesearch") or name.split(".")[0] in sys.stdlib_module_names, name
