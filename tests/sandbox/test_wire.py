"""Plain data cross whole and genuine; anything else is refused."""

import collections
import datetime
import decimal
import fractions
import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.sandbox.harness.wire import (
    WireError,
    base_value,
    decode,
    describe,
    encode,
    overwrite,
    parse,
    read_frame,
    write_frame,
)


def refuse(value: Any) -> Any:
    raise AssertionError(f"not plain: {value!r}")


def crossed(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value, refuse))), refuse)


KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.binary(), st.fractions(), st.dates())
SCALARS = st.one_of(
    KEYS,
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.decimals(allow_nan=False),
    st.datetimes(timezones=st.sampled_from([None, datetime.UTC])),
    st.timedeltas(),
    st.times(),
    st.integers(min_value=1 << 80, max_value=1 << 20000),
    st.sampled_from([..., range(3), range(10**30, 10**30 - 70, -7)]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(KEYS, inner),
        st.sets(KEYS),
        st.frozensets(KEYS),
        st.lists(inner).map(collections.deque),
        st.binary().map(bytearray),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_plain_data_cross_whole(value: Any) -> None:
    found = crossed(value)
    assert found == value
    assert type(found) is type(value)


@given(st.lists(st.one_of(st.integers(), st.booleans(), st.floats(allow_nan=False)), max_size=30))
def test_numbers_keep_their_kinds(values: list[Any]) -> None:
    assert list(map(type, crossed(values))) == list(map(type, values))


def test_nan_crosses() -> None:
    assert crossed([float("nan"), 10**400])[0] != 0


@pytest.mark.parametrize(
    "value", [collections.OrderedDict(a=1), collections.Counter("aab"), collections.defaultdict(list, a=[1])]
)
def test_kinds_of_dict_cross_as_dicts(value: Any) -> None:
    assert type(crossed(value)) is dict
    assert crossed(value) == dict(value)


def test_arrays_cross_as_arrays() -> None:
    numpy = pytest.importorskip("numpy")
    assert (crossed(numpy.arange(6).reshape(2, 3)) == numpy.arange(6).reshape(2, 3)).all()
    assert crossed(numpy.float64(0.5)) == 0.5
    assert crossed(numpy.array(["a", "b"])) == (["a", "b"],)


NO_VALUES: list[Any] = [
    {"t": "int", "v": "zz"}, {"t": "int", "v": "f" * (1 << 23)}, {"t": "decimal", "v": "1e999999999"},
    {"t": "tuple", "v": 5}, {"t": "set", "v": [[1]]}, {"t": "deque", "v": []}, {"t": "datetime", "v": 7},
    {"t": "fraction", "v": [1, 0]}, {"t": "range", "v": [0, 0xFFFFFFFFFF, 1]}, {"t": "dict", "v": ["no value"]},
    {"t": "dict", "v": {"t": "frozenset", "v": []}}, {"t": "array", "v": ["|O", "00" * 8, 1]},
    {"t": "array", "v": ["f8,(9999999,)f8", "", 0]}, {"t": "array", "v": ["<f8", "00" * 8, 2]},
    {"t": "array", "v": ["<f8", "", 0, 1 << 62, 1 << 62]}, {"t": "array", "v": ["<f8", "00" * 8, [1]]},
    {"t": "type", "v": "type"}, {"t": "builtin", "v": "len"}, {"t": "nothing known"}, {"v": 5},
]  # fmt: skip


@pytest.mark.parametrize("data", NO_VALUES)
def test_what_is_no_value_is_refused(data: Any) -> None:
    def unknown(reference: dict[str, Any]) -> Any:
        raise LookupError(reference)

    with pytest.raises(WireError):
        decode(data, unknown)


@pytest.mark.parametrize("data", [b"", b"passed", b"5", b"[]", b"[5]", b'{"ok": 5}', b"\xff", b"[" * 200_000])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="not a message"):
        parse(data)


def test_depth_that_json_allows_is_refused_too() -> None:
    data: list[Any] = []
    for _ in range(300):
        data = [data]
    with pytest.raises(WireError):
        decode(data, refuse)


@pytest.mark.parametrize("part", [b"[]", b"{}", b"0"])
def test_a_frame_of_too_many_values_is_refused_before_it_is_parsed(part: bytes) -> None:
    with pytest.raises(WireError, match="too many parts"):
        parse(b'["ok",[' + part + (b"," + part) * 2_000_000 + b"]]")


def test_a_text_may_hold_any_number_of_commas() -> None:
    message = ["ok", '",[' * 1_500_000]
    assert parse(json.dumps(message).encode()) == message


def test_a_truth_value_in_an_array_is_one_of_two() -> None:
    pytest.importorskip("numpy")
    assert decode({"t": "array", "v": ["|b1", "0500", 2]}, refuse).view("u1").tolist() == [1, 0]


def test_a_frame_crosses_a_pipe_and_the_end_is_noticed() -> None:
    read, write = os.pipe()
    write_frame(write, ["ok", [1, "é"]])
    assert read_frame(read) == ["ok", [1, "é"]]
    os.close(write)
    with pytest.raises(WireError, match="gone"):
        read_frame(read)
    os.close(read)


def test_an_oversized_frame_is_refused_before_it_is_read() -> None:
    read, write = os.pipe()
    os.write(write, b"\xff\xff\xff\xff")
    with pytest.raises(WireError, match="too large"):
        read_frame(read)
    os.close(read)
    os.close(write)


class Whole(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def subclassed(value: Any) -> Any:
    """A value of a subclass that holds this one."""
    return type("Sub", (type(value),), {})(value)


PLAIN = ("a", [1], {1}, frozenset([1]), b"x", bytearray(b"x"), 0.5, 1j)
SUBCLASSES = [
    *((subclassed(value), value) for value in PLAIN), (Whole(3), 3), (True, True),
    (collections.namedtuple("Pair", "a b")(1, 2), (1, 2)), (collections.Counter("a"), {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "plain"), SUBCLASSES)
def test_a_subclass_holds_its_builtin(value: Any, plain: Any) -> None:
    found = base_value(value)
    assert type(found) is type(plain)
    assert found == plain


def test_overwriting_keeps_the_objects() -> None:
    inner = [1]
    old: list[Any] = [inner, {"a": {1}}, 5]
    overwrite(old, [[1, 2], {"a": {2}, "b": 3}])
    assert old == [[1, 2], {"a": {2}, "b": 3}]
    assert old[0] is inner
    for before, after in ((bytearray(b"a"), bytearray(b"bc")), (collections.deque([1]), collections.deque([2, 3]))):
        overwrite(before, after)
        assert before == after


def test_an_exception_is_described_even_if_it_resists() -> None:
    class Awkward(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    name, _, ancestors, text, args, _ = describe(Awkward(1, decimal.Decimal(2), fractions.Fraction(1, 2)))
    assert (name, ancestors[0], text, args) == ("Awkward", "ValueError", "", [])
