from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.web.fetching import refusal


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.0.1", "169.254.169.254", "172.16.0.1", "192.168.1.1",
        "168.63.129.16", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "feff::1", "fc00::1", "fd00:ec2::254", "ff02::1",
        "2001:db8::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "2002:a9fe:a9fe::1",
        "192.0.0.9", "192.0.0.10", "192.88.99.1", "64:ff9b:1::808:808", "3fff::1", "5f00::1", "::ffff:192.0.0.9",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2001:0:0:0:0:0:f5ff:fffe", "nonsense", "",
    ],
)  # fmt: skip
def test_what_is_not_public_is_refused(address: str) -> None:
    assert refusal(address) is not None


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_what_is_public_is_not(address: str) -> None:
    assert refusal(address) is None


@given(st.ip_addresses(v=4))
def test_an_address_is_refused_in_every_guise(address: object) -> None:
    number = int(ip_address(str(address)))
    guises = [
        f"::ffff:{address}",
        str(ip_address((0x64FF9B << 96) | number)),
        str(ip_address((0x2002 << 112) | (number << 80))),
    ]
    assert {refusal(guise) for guise in guises} == {refusal(str(address))}
