import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.web.fetching import Blocked, Fetched, NotFetched, refusal
from tests.models.clocks import Clock
from tests.web.little_web import LittleWeb, Names, Site, bomb, drip, page, redirect

PAGE = page("Bridges", "The bridge was begun in 1357.")


async def fetch(web: LittleWeb, path: str, **how: Any) -> Fetched:
    return await web.fetcher(**how).fetch(web.url + path)


async def refused(web: LittleWeb, path: str, **how: Any) -> str:
    with pytest.raises(NotFetched) as caught:
        await fetch(web, path, **how)
    return str(caught.value)


async def test_a_page_comes_with_its_kind_its_charset_and_its_time() -> None:
    async with LittleWeb({"/a.html": PAGE}) as web:
        found = await fetch(web, "/a.html")
        assert (found.url, found.kind, found.charset) == (f"{web.url}/a.html", "text/html", "utf-8")
        assert found.content == PAGE.body
        assert found.when.endswith("+00:00")
        assert web.asked == ["/robots.txt", "/a.html"]
        assert web.agents == {"reground"}


async def test_redirects_are_followed_and_counted() -> None:
    async with LittleWeb({"/a": redirect("/b"), "/b": redirect("/c"), "/c": PAGE, "/loop": redirect("/loop")}) as web:
        assert (await fetch(web, "/a")).url == f"{web.url}/c"
        assert await refused(web, "/a", redirects=1) == "it redirects more than 1 times"
        assert await refused(web, "/loop") == "it redirects more than 5 times"


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data", "http://127.0.0.2/", "file:///etc/passwd", "http://[::1]/",
        "http://user:key@127.0.0.1/", "http://[::ffff:10.0.0.1]/", "http://[64:ff9b::a9fe:a9fe]/", "http://0/",
        "http://2130706434/", "http://10.0.0.1/",  # the first is 127.0.0.2 as one number
    ],
)  # fmt: skip
async def test_a_redirect_to_an_address_that_is_not_public_is_refused(target: str) -> None:
    async with LittleWeb({"/a": redirect(target)}) as web:
        assert "address" in await refused(web, "/a", robots=False)


async def test_a_name_that_changes_its_address_is_refused_where_it_connects() -> None:
    once = Site(PAGE.body, headers={**PAGE.headers, "Connection": "close"})
    async with LittleWeb({"/a": once, "/robots.txt": Site(b"", headers={"Connection": "close"})}) as web:
        resolver = Names("127.0.0.1", "127.0.0.1", "127.0.0.1", "10.0.0.1")
        fetcher = web.fetcher(resolver=resolver)
        place = f"http://rebinding.example:{web.port}/a"
        assert (await fetcher.fetch(place)).content == PAGE.body
        assert (await fetcher.fetch(place)).content == PAGE.body
        with pytest.raises(NotFetched, match="not public"):
            await fetcher.fetch(place)


async def test_robots_are_obeyed_and_asked_for_once() -> None:
    robots = "User-agent: *\nDisallow: /secret\n\nUser-agent: reground\nDisallow: /ours\n"
    async with LittleWeb({"/ours/a": PAGE, "/secret/a": PAGE}, robots=robots) as web:
        fetcher = web.fetcher()
        with pytest.raises(NotFetched, match=r"robots\.txt forbids"):
            await fetcher.fetch(f"{web.url}/ours/a")
        assert (await fetcher.fetch(f"{web.url}/secret/a")).content == PAGE.body  # the group for us alone holds
        assert web.asked == ["/robots.txt", "/secret/a"]
        assert (await fetch(web, "/ours/a", robots=False)).content == PAGE.body


@pytest.mark.parametrize(("status", "allowed"), [(404, True), (403, True), (429, False), (500, False), (503, False)])
async def test_robots_that_cannot_be_had(status: int, allowed: bool) -> None:
    async with LittleWeb({"/a": PAGE, "/robots.txt": Site(b"", status=status)}) as web:
        if allowed:
            assert await fetch(web, "/a")
        else:
            assert "robots.txt" in await refused(web, "/a")


CUT = Site(bomb(1).body[:50], headers=bomb(1).headers)  # type: ignore[index]
DATE = {"Retry-After": "Fri, 31 Dec 2099 23:59:59 GMT"}


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (Site(status=503), 60),
        (Site(status=429, headers={"Retry-After": "300"}), 300),
        (Site(status=429, headers={"Retry-After": "2"}), 2),
        (Site(status=503, headers=DATE), 86_400),
        (CUT, 60),
        (redirect("http://["), 60),
    ],
    ids=["503", "429", "429 soon", "503 until a far day", "cut short", "nonsense"],
)
async def test_robots_that_could_not_be_had_are_asked_for_again(fault: Site, seconds: float) -> None:
    clock = Clock()
    async with LittleWeb({"/a": PAGE, "/robots.txt": fault}) as web:
        fetcher = web.fetcher(clock=clock.now)
        for _ in range(2):
            with pytest.raises(NotFetched) as caught:
                await fetcher.fetch(f"{web.url}/a")
            assert str(caught.value) == "its robots.txt cannot be had"
        del web.pages["/robots.txt"]
        clock.time += seconds - 1
        with pytest.raises(NotFetched, match="cannot be had"):
            await fetcher.fetch(f"{web.url}/a")
        clock.time += 1
        assert (await fetcher.fetch(f"{web.url}/a")).content == PAGE.body
        web.pages["/robots.txt"] = Site(b"User-agent: *\nDisallow: /", headers={"Content-Type": "text/plain"})
        clock.time += 86_399  # what could be had holds for a day
        await fetcher.fetch(f"{web.url}/a")
        clock.time += 1
        with pytest.raises(NotFetched, match="forbids"):
            await fetcher.fetch(f"{web.url}/a")
        assert web.asked == ["/robots.txt", "/robots.txt", "/a", "/a", "/robots.txt"]


def late(to: str, seconds: float) -> Site:
    return Site(status=302, headers={"Location": to}, seconds=seconds)


@pytest.mark.parametrize(
    "sites",
    [
        {"/a": late("/b", 0.7), "/b": late("/c", 0.7), "/c": PAGE, "/robots.txt": Site(status=404)},
        {"/a": Site(PAGE.body, seconds=0.7), "/robots.txt": Site(status=404, seconds=0.7)},
        {"/a": PAGE, "/robots.txt": late("/r", 0.7), "/r": Site(status=404, seconds=0.7)},
    ],
    ids=["redirects", "robots", "redirects of robots"],
)
async def test_the_seconds_of_a_page_are_those_of_all_its_requests(sites: Mapping[str, Site]) -> None:
    async with LittleWeb(sites) as web:
        assert await refused(web, "/a", seconds=1.0) == "it did not come within 1 s"


async def test_the_wait_for_its_turn_takes_no_seconds_from_a_page() -> None:
    async with LittleWeb({"/a": Site(PAGE.body, seconds=0.4)}) as web:
        fetcher = web.fetcher(seconds=1.4)
        found = await asyncio.gather(*(fetcher.fetch(f"{web.url}/a") for _ in range(4)))
        assert [each.content for each in found] == [PAGE.body] * 4


async def test_no_address_is_asked_that_the_caller_does_not_want() -> None:
    async with LittleWeb({"/a": redirect("/b"), "/b": redirect("/secret"), "/secret": PAGE}) as web:
        fetcher = web.fetcher(robots=False)
        for path in ("/a", "/secret"):
            with pytest.raises(Blocked, match="told not to"):
                await fetcher.fetch(web.url + path, why_not=lambda url: "told not to" if "secret" in url else None)
        assert web.asked == ["/a", "/b"]


async def test_a_pause_that_a_host_asks_for_is_kept_and_a_long_one_leaves_it_alone() -> None:
    async with LittleWeb({"/a": PAGE}, robots="User-agent: *\nCrawl-delay: 0.3") as web:
        fetcher = web.fetcher()
        began = time.monotonic()
        await asyncio.gather(*(fetcher.fetch(f"{web.url}/a") for _ in range(3)))
        assert time.monotonic() - began >= 0.6
        assert "asks for 0.3 s" in await refused(web, "/a", longest_pause=0.1)


async def test_robots_with_a_byte_order_mark_are_obeyed() -> None:
    async with LittleWeb({"/a": PAGE}, robots="\ufeffUser-agent: *\nDisallow: /") as web:
        assert "forbids" in await refused(web, "/a")


async def test_a_host_gets_one_request_at_a_time_and_a_slow_one_holds_back_no_other() -> None:
    slow = Site(PAGE.body, seconds=0.5)
    async with LittleWeb({"/a": slow}) as one, LittleWeb({"/a": PAGE}) as other:
        fetcher = one.fetcher(robots=False, in_flight=2)
        waiting = [asyncio.create_task(fetcher.fetch(f"{one.url}/a")) for _ in range(8)]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await fetcher.fetch(f"{other.url}/a")
        assert time.monotonic() - began < 0.4
        assert one.most_at_once == 1
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 65536


@pytest.mark.parametrize(
    ("site", "why"),
    [
        (Site(b"x" * (3 << 20)), "larger than 1 MiB"),
        (Site(endless), "1 MiB"),
        (bomb(200), "1 MiB"),
        (drip(b"x", every=0.1, pieces=1000), "within 1 s"),
        (drip(b"x", every=5.0, pieces=2), "sent nothing for 0.5 s"),
        (Site(PAGE.body, seconds=5), "within 1 s"),
        (Site(b"", status=500), "answered 500"),
        (Site(b"\x89PNG", headers={"Content-Type": "image/png"}), "of the type image/png"),
        (Site(b"x", headers={"Content-Type": "text/html", "Content-Encoding": "br"}), "packed its reply as br"),
        (Site(b"plain", headers={"Content-Type": "text/x", "Content-Encoding": "gzip"}), "packed its reply wrongly"),
    ],
    ids=["huge", "endless", "bomb", "drip", "silence", "late", "error", "picture", "brotli", "no gzip"],
)  # fmt: skip
async def test_what_is_not_worth_fetching_is_left_in_time(site: Site, why: str) -> None:
    async with LittleWeb({"/a": site}) as web:
        assert why in await refused(web, "/a", robots=False, most_bytes=1 << 20, seconds=1.0, idle=0.5)


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


@given(st.ip_addresses(v=4))
def test_an_address_is_refused_in_every_guise(address: object) -> None:
    number = int(ip_address(str(address)))
    guises = [
        f"::ffff:{address}",
        str(ip_address((0x64FF9B << 96) | number)),
        str(ip_address((0x2002 << 112) | (number << 80))),
    ]
    assert {refusal(guise) for guise in guises} == {refusal(str(address))}
