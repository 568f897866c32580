"""Fetching pages: throughput beside bare aiohttp, and whether one slow host holds back the others.

A process of its own serves pages on several ports, each a host, after a fixed latency. Both clients send a host one
request at a time, and have at most --in-flight requests open. The hosts come in turn, so that all are busy. reground
also checks addresses, limits what it reads, and asks each host for its robots.txt once.

    python -m benchmarks.web [--pages 200] [--hosts 20] [--in-flight 16] [--latency 0.05] [--slow 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp

from reground.testing.little_web import LittleWeb, Site, page
from reground.web.fetching import Fetcher, Politeness

TEXT = page("Bridges", *["The bridge over the river was begun in the year that the chronicle names. " * 8] * 20)
Fetch = Callable[[str], Awaitable[object]]


@dataclass(frozen=True)
class Row:
    """One client. others_s: until the last page of the hosts that are not slow was there."""

    client: str
    pages: int
    wall_s: float
    others_s: float
    pages_per_s: float
    cpu_ms: float


async def serve(hosts: int, latency: float, slow: float) -> None:
    """Serve until standard input ends; print the addresses. The last host is the slow one."""
    async with AsyncExitStack() as stack:
        places = []
        for number in range(hosts):
            seconds = slow if number == hosts - 1 else latency
            site = Site(TEXT.body, headers=TEXT.headers, seconds=seconds)
            web = await stack.enter_async_context(LittleWeb({f"/{n}": site for n in range(1000)}))
            places.append(web.url)
        print(json.dumps(places), flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def measured(client: str, fetch: Fetch, urls: Sequence[str], slow: str) -> Row:
    """Fetch all pages at once, and measure."""
    others = 0.0
    began, cpu = time.perf_counter(), time.process_time()

    async def one(url: str) -> None:
        nonlocal others
        await fetch(url)
        if not url.startswith(slow):
            others = max(others, time.perf_counter() - began)

    await asyncio.gather(*map(one, urls))
    wall, used = time.perf_counter() - began, time.process_time() - cpu
    return Row(client, len(urls), wall, others, len(urls) / wall, 1000 * used / len(urls))


async def bare(urls: Sequence[str], slow: str, in_flight: int) -> Row:
    """aiohttp alone, with its own limit a host."""
    room = asyncio.Semaphore(in_flight)
    turns: dict[str, asyncio.Lock] = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def fetch(url: str) -> None:
            host = url.rpartition("/")[0]
            async with turns.setdefault(host, asyncio.Lock()), room, session.get(url) as response:
                assert len(await response.read()) == len(bytes(TEXT.body))  # type: ignore[arg-type]

        return await measured("bare aiohttp", fetch, urls, slow)


async def reground(urls: Sequence[str], slow: str, in_flight: int) -> Row:
    """The fetcher, as --web uses it."""
    fetcher = Fetcher(Politeness(in_flight=in_flight, networks=("127.0.0.1/32",)))
    try:
        return await measured("reground", fetcher.fetch, urls, slow)
    finally:
        await fetcher.aclose()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds before a page comes")
    parser.add_argument("--slow", type=float, default=2.0, help="seconds before a page of the last host comes")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve(chosen.hosts, chosen.latency, chosen.slow))
        return 0
    rows = run(chosen)
    print(f"{'client':<14}{'pages':>7}{'seconds':>9}{'others s':>10}{'pages/s':>9}{'CPU ms a page':>15}")
    for row in rows:
        print(
            f"{row.client:<14}{row.pages:>7}{row.wall_s:>9.2f}{row.others_s:>10.2f}{row.pages_per_s:>9.1f}"
            f"{row.cpu_ms:>15.2f}"
        )
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))
    return 0


def run(chosen: argparse.Namespace) -> list[Row]:
    """Both clients against one server, one after the other."""
    command = [sys.executable, "-m", "benchmarks.web", "--serve"]
    sizes = ["--hosts", str(chosen.hosts), "--latency", str(chosen.latency), "--slow", str(chosen.slow)]
    with subprocess.Popen([*command, *sizes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        places = json.loads(server.stdout.readline())
        # the slow host has one page in ten of an even share, so that it is slow but not what everything waits for
        fast, slow = places[:-1], places[-1]
        urls = [f"{fast[n % len(fast)]}/{n}" for n in range(chosen.pages - 2)] + [f"{slow}/0", f"{slow}/1"]
        rows = [asyncio.run(bare(urls, slow, chosen.in_flight)), asyncio.run(reground(urls, slow, chosen.in_flight))]
        server.terminate()
    return rows


if __name__ == "__main__":
    sys.exit(main())
