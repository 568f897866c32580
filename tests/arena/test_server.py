"""The arena's server: what it keeps, what it does not tell, and whom it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from reground.evaluation.results import RunFolder
from tests.arena.runs import three_runs, write_run
from tests.arena.serving import Arena, Client, asked


async def played(client: Client, arena: Arena) -> None:
    """Use everything that the page uses, right and wrong."""
    for path in ("/", "/arena.css", "/arena.js", "/none"):
        await client.get(path)
    for judge in ("anna", "ben"):
        state = await client.state(judge)
        await client.post("/skip", {"judge": judge, "pair": state["pair"]["id"], "round": 1})
        verdicts = iter(["a", "b", "tie", "bad"] * 9)
        while (state := await client.state(judge))["pair"]:
            await client.vote(state, next(verdicts))
        await client.post("/round", {"judge": judge, "round": 1})
    await client.post("/vote", {"judge": "anna", "pair": "none", "round": 1, "verdict": "a"})
    await client.post("/vote", {"judge": "", "pair": 1})
    await client.post("/vote", b"{")


async def test_no_byte_names_a_method_or_a_run(tmp_path: Path) -> None:
    arena = Arena(three_runs(tmp_path), tmp_path / "votes.sqlite")
    async with asked(arena) as client:
        await played(client, arena)
        assert len(arena.votes.all()) == 18
    told = bytes(client.sent).lower()
    for secret in ("zebrafish", "quokka", "narwhal", "folder-", "@1k", "m/one", "essays", str(tmp_path)):
        assert secret.lower().encode() not in told


async def test_other_methods_behind_the_same_answers_give_the_same_bytes(tmp_path: Path) -> None:
    """So nothing, not even the order of pairs or the sides, depends on who wrote what."""

    async def bytes_of(runs: list[RunFolder], votes: Path) -> bytes:
        arena = Arena(runs, votes)
        arena.votes.secret = b"the same secret"
        async with asked(arena) as client:
            await played(client, arena)
        return re.sub(rb"'Date': '[^']*'", b"", bytes(client.sent))

    one = three_runs(tmp_path / "one")
    texts = [{f"q{n}": f"{word} answer {n}" for n in range(3)} for word in ("plain", "short", "long")]
    other = [write_run(tmp_path / f"z{n}", f"zz{n}", given) for n, given in enumerate(texts)]
    assert await bytes_of(one, tmp_path / "a.sqlite") == await bytes_of(other, tmp_path / "b.sqlite")


async def test_a_vote_counts_for_the_answer_that_was_seen(tmp_path: Path) -> None:
    arena = Arena(three_runs(tmp_path)[1:], tmp_path / "votes.sqlite")
    sides = set()
    async with asked(arena) as client:
        for number in range(30):
            state = await client.state(f"judge {number}")
            side = "a" if state["pair"]["a"].startswith("long") else "b"
            sides.add(side)
            await client.vote(state, side)
        assert sides == {"a", "b"}
        assert {vote.verdict for vote in arena.votes.all()} == {"first"}, "long comes before plain in every pair"


async def test_skips_come_back_rounds_begin_again_and_a_repeated_request_changes_nothing(tmp_path: Path) -> None:
    arena = Arena(three_runs(tmp_path), tmp_path / "votes.sqlite")
    async with asked(arena) as client:
        first = await client.state()
        assert (first["round"], first["done"], first["total"], first["again"]) == (1, 0, 9, False)
        _, state = await client.post("/skip", {"judge": "anna", "pair": first["pair"]["id"], "round": 1})
        assert state["pair"]["id"] != first["pair"]["id"]
        once = await client.vote(state, "tie")
        assert await client.vote(state, "a") == once, "the first one counts, and the repetition is acknowledged"
        for _ in range(7):
            state = once = await client.vote(once, "a")
        assert (state["pair"]["id"], state["again"], state["done"]) == (first["pair"]["id"], True, 8)
        state = await client.vote(state, "bad")
        assert (state["pair"], state["done"]) == (None, 9)
        _, state = await client.post("/round", {"judge": "anna", "round": 1})
        assert await client.post("/round", {"judge": "anna", "round": 1}) == (200, state)
        assert (state["round"], state["done"]) == (2, 0)
        assert (await client.state("ben"))["round"] == 1
        late = {"judge": "anna", "pair": first["pair"]["id"], "round": 1, "verdict": "a"}
        assert (await client.post("/vote", late))[0] == 409
        assert [vote.verdict for vote in arena.votes.all()][:1] == ["tie"]


async def test_judges_are_sent_to_the_pairs_with_the_fewest_votes(tmp_path: Path) -> None:
    arena = Arena(three_runs(tmp_path), tmp_path / "votes.sqlite")
    async with asked(arena) as client:
        for judge in range(9):
            await client.vote(await client.state(f"judge {judge}"), "tie")
        assert set(arena.votes.counts("person").values()) == {1}


JSON = {"judge": "anna"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "192.0.2.1"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_other_sites_are_refused(headers: dict[str, str], status: int, tmp_path: Path) -> None:
    async with asked(Arena(three_runs(tmp_path), tmp_path / "votes.sqlite")) as client:
        assert (await client.post("/next", JSON, **headers))[0] == status
        if "Host" in headers:
            assert (await client.get("/", **headers))[0] == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        ([], 400),
        ({"judge": "  \n"}, 400),
        ({"judge": "x" * 500}, 400),
        ({"judge": "anna", "pair": "x", "round": 1, "verdict": "both"}, 400),
        ({"judge": "anna", "pair": "x", "round": 0, "verdict": "a"}, 400),
        ({"judge": "anna", "pair": "x", "round": 10**30, "verdict": "a"}, 400),
        ({"judge": "anna", "pair": "x", "round": 1, "verdict": "a", "more": 1}, 400),
        ({"judge": "anna", "pair": "x" * 65, "round": 1, "verdict": "a"}, 400),
        ({"judge": "anna", "pair": "x", "round": 1, "verdict": "a"}, 409),
        (b" " * 20_000, 413),
    ],
)
async def test_what_is_wrong_is_refused_in_one_line(body: Any, status: int, tmp_path: Path) -> None:
    arena = Arena(three_runs(tmp_path), tmp_path / "votes.sqlite")
    async with asked(arena) as client:
        found, data = await client.post("/vote", body)
        assert (found, list(data)) == (status, ["error"])
        assert arena.votes.all() == []


async def test_every_reply_has_a_strict_policy(tmp_path: Path) -> None:
    async with asked(Arena(three_runs(tmp_path), tmp_path / "votes.sqlite")) as client:
        for path in ("/", "/none"):
            async with client.session.get(client.origin + path) as reply:
                policy = reply.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy and "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert reply.headers["X-Content-Type-Options"] == "nosniff"
