"""Which hosts are this machine, and which names a server may be asked by."""

from __future__ import annotations

import pytest

from reground.core.http import is_loopback, names_this


@pytest.mark.parametrize(
    ("named", "listening", "found"),
    [
        ("localhost:8766", "127.0.0.1", True),
        ("[::1]:8766", "::1", True),
        ("10.0.0.5:8766", "127.0.0.1", False),
        ("10.0.0.5:8766", "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("arena.lan:80", "arena.lan", True),
    ],
)
def test_a_host_is_an_address_or_this_machine(named: str, listening: str, found: bool) -> None:
    assert names_this(named, listening) is found


@pytest.mark.parametrize(
    ("host", "found"),
    [("127.0.0.9", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("0.0.0.0", False), ("a.b", False)],
)
def test_loopback_is_this_machine_alone(host: str, found: bool) -> None:
    assert is_loopback(host) is found
