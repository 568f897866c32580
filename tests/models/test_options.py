import pytest
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError
from reground.models.options import ModelOptions, Price

prices = st.floats(min_value=0, max_value=1000, allow_nan=False)


def test_a_price_of_two_numbers_charges_cached_tokens_in_full():
    assert Price.parse("0.15,0.60") == Price(0.15, 0.15, 0.60)


@pytest.mark.parametrize("text", ["", "1", "1,2,3,4", "a,b", "-1,2", "nan,1", "1,inf"])
def test_a_price_that_is_none(text):
    with pytest.raises(ConfigurationError, match="price"):
        Price.parse(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "localhost:8000"},
        {"api_key_env": ""},
        {"connections": 0},
        {"attempts": 0},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"requests_per_minute": 0},
        {"requests_per_minute": 5e-324},
        {"tokens_per_minute": -5},
        {"context": 0},
        {"slots": 0},
        {"threads": -1},
        {"dtype": "int4"},
    ],
)
def test_a_setting_that_is_wrong_is_named(wrong):
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=name.replace("base_url", "base URL")):
        ModelOptions(**wrong)
