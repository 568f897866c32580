from pathlib import Path

import pytest

from reground.core import files as paths
from reground.core.errors import ConfigurationError


@pytest.mark.parametrize("name", ["models", "indexes", "cache", "runs"])
def test_one_variable_moves_everything(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path))
    assert getattr(paths, f"{name}_dir")() == tmp_path / name
    monkeypatch.setenv("REGROUND_HOME", "~nobody-of-that-name/x")
    with pytest.raises(ConfigurationError, match="~nobody-of-that-name/x begins with the home"):
        paths.runs_dir()


@pytest.mark.parametrize("given", ["", "relative/path"])
def test_an_empty_or_relative_xdg_folder_is_ignored(given, monkeypatch):
    monkeypatch.delenv("REGROUND_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("XDG_STATE_HOME", given)
    assert paths.cache_dir() == Path.home() / ".cache" / "reground" / "cache"
    assert paths.runs_dir() == Path.home() / ".local" / "state" / "reground" / "runs"
