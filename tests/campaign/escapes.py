"""Programs that each try one door out of the sandbox. A door is open if its code ends without an error.

The host is there to be reached: it listens, it has a file to read and a process to stop, and it looks afterwards
whether its file is still as it was.
"""

from __future__ import annotations

import asyncio
import functools
import os
import platform
import random
import socket
import tempfile
import textwrap
import tomllib
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from reground.core.programs import Limits, Program, Sandbox
from reground.sandbox import find_sandbox
from tests.campaign.runner import Part, Trial

_TABLE = tomllib.loads(Path(__file__).with_name("doors.toml").read_text(encoding="utf-8"))
DOORS = {f"{kind}: {name}": door for kind, doors in _TABLE["doors"].items() for name, door in doors.items()}
"""All doors by name; what stands before the colon is the kind that they are counted in."""
FIRST = (
    *("call: modify_ldt", "call: personality", "call: name_to_handle_at", "power: capability CapInh"),
    *("call: memfd_create", "call: shmget", "call: msgget", "call: POSIX messages"),
    *("network: a socket of vsock", "network: a socket of netlink", "network: a socket of packet"),
    "read: a word of the host in /proc/1",
)
"""Those that the short form always tries: they stood open once, or lead to memory that nothing counts, or to the host."""
NUMBERS = {
    machine: {name: numbers[place] for name, numbers in _TABLE["numbers"].items() if place < len(numbers)}
    for place, machine in enumerate(("x86_64", "aarch64"))
}

_START = _TABLE["start"]
WAYS = {
    "by itself": "attempt()",
    "in a thread": "thread = threading.Thread(target=attempt)\nthread.start()\nthread.join()",
    "in a child": "if os.fork() == 0:\n    attempt()\n    os._exit(0)\nended()",
    "in a new session": "if os.fork() == 0:\n    os.setsid()\n    attempt()\n    os._exit(0)\nended()",
}
LIMITS = Limits(seconds=20, memory_mib=256)
_SECRET = "the host's own words"


@functools.cache
def _sandbox() -> Sandbox:
    return find_sandbox(concurrency=2)


def program(body: str, way: str, host: dict[str, int | str]) -> Program:
    """A program that tries a door in one of the ways and prints what came of it."""
    numbers = NUMBERS.get(platform.machine(), {})
    start = _START.format(host=host, numbers=numbers, body=textwrap.indent(textwrap.dedent(body).strip(), "    "))
    return Program(source=start + WAYS[way], limits=LIMITS)


@asynccontextmanager
async def _host() -> AsyncIterator[dict[str, int | str]]:
    """What a program may look for: listeners of several kinds, a file, a process."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="campaign-host-")))
        folder.chmod(0o777)  # noqa: ASYNC240 - a few bytes
        (folder / "secret").write_text(_SECRET)
        (folder / "secret").chmod(0o666)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        tcp6 = stack.enter_context(_listening(socket.AF_INET6, ("::1", 0)))
        unix = stack.enter_context(_listening(socket.AF_UNIX, str(folder / "socket")))
        name = f"campaign-{os.getpid()}-{id(folder)}"
        abstract = stack.enter_context(_listening(socket.AF_UNIX, f"\0{name}"))
        assert unix and abstract
        yield {
            "folder": str(folder),
            "home": str(Path.home()),
            "port": tcp.getsockname()[1],
            "port6": tcp6.getsockname()[1],
            "abstract": name,
            "pid": os.getpid(),
        }


def _listening(family: int, address: object) -> socket.socket:
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.bind(address)  # type: ignore[arg-type]
    except OSError:  # a machine without IPv6 has nothing to be reached there
        return socket.create_server(("127.0.0.1", 0))
    listener.listen()
    return listener


@functools.cache
def _order() -> list[str]:
    others = sorted(set(DOORS) - set(FIRST))
    return [*FIRST, *random.Random(1).sample(others, len(others))]  # a short form meets every kind


async def attempt(number: int) -> list[Trial]:
    """One door, tried in one way; a door counts as shut only if the program says so."""
    doors = _order()
    name = doors[number % len(doors)]
    way = list(WAYS)[number // len(doors) % len(WAYS)]
    return [await tried(name, DOORS[name], way)]


async def tried(name: str, door: str, way: str) -> Trial:
    """What became of a door."""
    async with _host() as host:
        found = await _sandbox().execute(program(door, way, host))
        unharmed = await asyncio.to_thread(_is_unharmed, str(host["folder"]))
    held = unharmed and _SECRET not in found.stdout and not _is_open(found.stdout)
    # A killed program, by the filter say, says nothing more; every other one must have come to its end.
    held = held and ("shut:" in found.stdout or "signal" in found.detail)
    kind = name.partition(":")[0]
    said = f"{found.stdout.strip()} {found.detail} {found.stderr.strip()[-200:]}"
    return Trial(f"Door: {kind}", held, f"{name}, {way}: {said}"[:400])


def _is_open(said: str) -> bool:
    return any(line.startswith("open:") for line in said.splitlines())


def _is_unharmed(folder: str) -> bool:
    return sorted(os.listdir(folder)) == ["secret", "socket"] and (Path(folder) / "secret").read_text() == _SECRET  # noqa: PTH208


PART = Part(
    name="escapes",
    promise="No program leaves the sandbox",
    short=90,
    long=len(DOORS) * len(WAYS),
    attempt=attempt,
    at_once=2,
)
