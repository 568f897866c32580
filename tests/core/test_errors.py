import pytest

from reground.core.errors import DataError


@pytest.mark.parametrize(
    ("place", "text"),
    [({}, "bad"), ({"path": "f.jsonl"}, "f.jsonl: bad"), ({"path": "f.jsonl", "line": 3}, "f.jsonl:3: bad")],
)
def test_bad_data_is_placed(place, text):
    assert str(DataError("bad", **place)) == text
