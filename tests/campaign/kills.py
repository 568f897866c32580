"""kill -9, SIGTERM and Ctrl-C at random moments of real commands: what was recorded stays, and is not paid for again."""

from __future__ import annotations

import asyncio
import hashlib
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from reground.core.errors import EXIT_UNGROUNDED
from reground.testing.openai_server import MockOpenAI
from tests.campaign.commands import Done, environment, run
from tests.campaign.jobs import BLOB, JOBS, Job, said
from tests.campaign.runner import Part, Trial
from tests.killing import Bell, recorded, rung_or_ended
from tests.signals import heed_ctrl_c

KILLS = 10
"""Of one attempt, if the command lasts as long."""
LATENCY = 0.015
"""Seconds before a reply."""
PIECE = 1 << 18
"""Bytes that the hub sends at once."""
_EARLY = 2.5
"""Kills by the clock come early more often than late: a command that has come to its end cannot be killed again."""
_SIGNALS = (signal.SIGKILL,) * 8 + (signal.SIGTERM, signal.SIGINT)
_CODES = {signal.SIGKILL: {-9}, signal.SIGTERM: {-15}, signal.SIGINT: {130}}


@dataclass
class World:
    """The servers of an attempt. sent: bytes of the model that the hub has sent."""

    bell: Bell = field(default_factory=lambda: Bell(said))
    url: str = ""
    hub: str = ""
    sent: int = 0

    async def blob(self, request: web.Request) -> web.StreamResponse:
        """A model's file from where the client wants it, slowly."""
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        if start >= len(BLOB):
            return web.Response(status=416)
        # A part is only continued where the hub states the whole file's checksum.
        stated = {"X-Linked-Etag": f'"{hashlib.sha256(BLOB).hexdigest()}"', "Content-Length": str(len(BLOB) - start)}
        response = web.StreamResponse(status=206 if start else 200, headers=stated)
        await response.prepare(request)
        with suppress(ConnectionResetError):
            while start < len(BLOB):
                await asyncio.sleep(LATENCY)
                await response.write(BLOB[start : start + PIECE])
                start += PIECE
                self.sent += PIECE
                self.bell.strike()
        return response

    @property
    def replies(self) -> int:
        """What has been paid for: calls of the model, or pieces of its file."""
        return self.bell.counts.total() or self.sent // PIECE


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A model server and a hub of models on loopback."""
    here = World()
    app = web.Application()
    app.router.add_get("/{path:.*}", here.blob)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    here.hub = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with MockOpenAI(here.bell, latency=LATENCY) as server:
            here.url = server.url
            yield here
    finally:
        await runner.cleanup()


@dataclass(frozen=True)
class Undisturbed:
    """What the command does when nobody kills it."""

    code: int
    outcome: object
    counts: Counter[str]
    replies: int
    seconds: float


def _words(job: Job, here: World) -> list[str]:
    return [word.replace("{url}", here.url) for word in job.command]


async def finish(job: Job, folder: Path, here: World) -> Done:
    """The command, left alone, with folders of its own."""
    return await asyncio.to_thread(run, _words(job, here), folder, environment(folder, HF_ENDPOINT=here.hub))


async def killed(
    job: Job, folder: Path, here: World, before: Undisturbed, how: signal.Signals, chance: random.Random
) -> tuple[Done, bool]:
    """The command, signalled after some replies, or at any moment of the time that it takes.

    The second is whether it was alive when the signal was sent.
    """
    by_bell = before.replies > 0 and chance.random() < 0.75
    here.bell.ring_after(chance.randint(1, max(1, before.replies * 3 // (2 * KILLS))))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reground", *_words(job, here)),
        cwd=folder,
        env=environment(folder, HF_ENDPOINT=here.hub),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    )
    reading = asyncio.create_task(process.communicate())
    if by_bell:
        await rung_or_ended(here.bell, process)
        await asyncio.sleep(chance.uniform(0, 2 * LATENCY))
    else:
        await asyncio.wait([reading], timeout=before.seconds * chance.random() ** _EARLY)
    alive = process.returncode is None
    if alive:
        process.send_signal(how)
    try:
        _, errors = await asyncio.wait_for(asyncio.shield(reading), 30)
    except TimeoutError:
        process.kill()
        await reading
        return Done(-1, f"not ended 30 s after {how.name}"), alive
    return Done(process.returncode or 0, errors.decode("utf-8", "replace")), alive


async def attempt(number: int) -> Sequence[Trial]:
    """One command, killed again and again, then left alone, and then once more. One trial a kill."""
    job, chance = JOBS[number % len(JOBS)], random.Random(number)
    before = await undisturbed(job)
    trials: list[Trial] = []
    paid: dict[str, int] = {}
    async with world() as here:
        with tempfile.TemporaryDirectory(prefix="campaign-") as name:
            folder = Path(name)
            await asyncio.to_thread(job.prepare, folder)
            for _ in range(KILLS):
                how = chance.choice(_SIGNALS)
                ended, alive = await killed(job, folder, here, before, how, chance)
                flaws = _flaws_of_the_end(ended, how if alive else None, before)
                if not alive and not flaws:
                    break
                flaws += await asyncio.to_thread(_flaws_meanwhile, job, folder, here, before, paid)
                trials.append(Trial(f"{job.kind}: {_NAMES[how]}", not flaws, _what(number, job, how, flaws)))
            flaws = await _flaws_of_the_rest(job, folder, here, before, paid, len(trials))
    if flaws and trials:
        trials[-1] = Trial(trials[-1].kind, False, _what(number, job, None, flaws))
    return trials


_NAMES = {signal.SIGKILL: "kill -9", signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}
_before: dict[str, Undisturbed] = {}


async def undisturbed(job: Job) -> Undisturbed:
    """The command, run once in a folder of its own; the same for every attempt of this process."""
    if job.name not in _before:
        async with world() as here:
            with tempfile.TemporaryDirectory(prefix="campaign-") as name:
                folder = Path(name)
                await asyncio.to_thread(job.prepare, folder)
                ended = await finish(job, folder, here)
                assert ended.code in (0, EXIT_UNGROUNDED), f"{job.name}: {ended.errors}"
                outcome = await asyncio.to_thread(job.outcome, folder)
        _before[job.name] = Undisturbed(ended.code, outcome, here.bell.counts, here.replies, ended.seconds)
    return _before[job.name]


def _what(number: int, job: Job, how: signal.Signals | None, flaws: Sequence[str]) -> str:
    when = "" if how is None else f" ({how.name})"
    return f"kills {number}{when}: {job.name}" + "".join(f"; {flaw}" for flaw in flaws)


def _flaws_of_the_end(ended: Done, how: signal.Signals | None, before: Undisturbed) -> list[str]:
    """how: the signal that reached the command; None if it had ended before."""
    is_starting = "KeyboardInterrupt" in ended.errors and "/reground/app/cli/" not in ended.errors
    if how == signal.SIGINT and is_starting:
        return []  # Python itself was still starting
    if how is not None and ended.code == -how and "Traceback" not in ended.errors:
        return []  # Python had not yet taken the signal over, or had let go of it at its end
    codes = {before.code, *(_CODES[how] if how is not None else ())}
    flaws = [] if ended.code in codes else [f"exit code {ended.code}: {ended.errors[-400:]}"]
    if "Traceback" in ended.errors or "internal error" in ended.errors:
        flaws.append(ended.errors[-2000:])
    return flaws


def _flaws_meanwhile(job: Job, folder: Path, here: World, before: Undisturbed, paid: dict[str, int]) -> list[str]:
    """What is wrong after a kill; notes in `paid` how often each recorded call was made until now."""
    try:
        for key in recorded(folder):
            if before.counts[key] == 1:
                paid.setdefault(key, here.bell.counts[key])
        return [] if job.meanwhile(folder) else ["what the kill left is not whole"]
    except Exception as error:
        return [f"what the kill left cannot be read: {type(error).__name__}: {error}"]


async def _flaws_of_the_rest(
    job: Job, folder: Path, here: World, before: Undisturbed, paid: dict[str, int], kills: int
) -> list[str]:
    """What is wrong with the end of the command, and with the same command once more."""
    ended = await finish(job, folder, here)
    flaws = [f"it did not go on: exit code {ended.code}: {ended.errors[-400:]}"] if ended.code != before.code else []
    counts, replies = here.bell.counts.copy(), here.replies
    flaws += [f"{key} was recorded and asked again" for key, count in paid.items() if counts[key] != count]
    flaws += [f"{key} was never asked before" for key in counts.keys() - before.counts.keys() if before.counts]
    most = kills * job.in_flight
    if replies - before.replies > most:
        flaws.append(f"{replies - before.replies} calls were paid twice in {kills} kills of at most {job.in_flight}")
    flaws += await asyncio.to_thread(flaws_of_the_outcome, job, folder, before)
    again = await finish(job, folder, here)
    flaws += [f"once more: exit code {again.code}: {again.errors[-400:]}"] if again.code != before.code else []
    if here.replies != replies:
        flaws.append(f"the finished command asked for {here.replies - replies} more")
    flaws += await asyncio.to_thread(flaws_of_the_outcome, job, folder, before)
    return flaws + [f"{path} was left behind" for path in _left_behind(folder)]


def flaws_of_the_outcome(job: Job, folder: Path, before: Undisturbed) -> list[str]:
    """Whether the command's outcome is as if nothing had happened."""
    try:
        found = job.outcome(folder)
    except Exception as error:
        return [f"the outcome cannot be read: {type(error).__name__}: {error}"]
    return [] if found == before.outcome else [f"the outcome differs: {_difference(before.outcome, found)}"]


def _difference(wanted: object, found: object) -> str:
    """Where two outcomes part."""
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        pairs = [(str(key), wanted[key], found[key]) for key in wanted]
    elif isinstance(wanted, (list, tuple)) and isinstance(found, (list, tuple)) and len(wanted) == len(found):
        pairs = [(str(index), *pair) for index, pair in enumerate(zip(wanted, found, strict=True))]
    else:
        return f"{wanted!r:.200} was, {found!r:.200} is"
    return next((f"{name}/{_difference(old, new)}" for name, old, new in pairs if old != new), "nowhere")


def _left_behind(folder: Path) -> list[str]:
    left = [path for path in folder.rglob("*") if path.suffix == ".part"]
    # A sandbox's folder that was not locked yet may be another process's that is about to; it goes after an hour.
    left += [
        path
        for path in (folder / "tmp").iterdir()
        if path.is_file() or {each.name for each in path.iterdir()} - {"unlocked"}
    ]
    return [str(path.relative_to(folder)) for path in left]


PART = Part(
    name="kills",
    promise="A killed command continues where it was, pays for no recorded call twice, and ends as if it had not been killed",
    short=6,
    long=1000,
    attempt=attempt,
    at_once=2,
)
