"""The benchmark runs; what it measures is for people to read."""

import asyncio
import json

import aiohttp
import pytest

from benchmarks import overhead
from benchmarks.fast_server import serve_fixed


@pytest.mark.parametrize("in_flight", [1, 3])
def test_every_client_makes_all_its_calls(in_flight, tmp_path, capsys):
    overhead.main(
        ["--quick", "--latency", "0.001", "--calls", "2", "--flights", str(in_flight), "--json", f"{tmp_path}/r"]
    )
    rows = json.loads((tmp_path / "r").read_text())
    assert [row["client"] for row in rows] == list(overhead.clients())
    assert all(row["calls"] == 2 * in_flight and row["cpu_ms"] > 0 and row["ratio"] >= 1 for row in rows)
    table = capsys.readouterr().out
    assert table.count("\n") == 2 + len(rows)
    assert "| bare aiohttp |" in table


async def test_the_fast_server_finds_requests_however_they_are_cut():
    url = await serve_fixed(0.0)
    port = int(url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody"
    stream = request * 3 + b"GET /v1/models HTTP/1.1\r\n\r\n"
    for at in range(0, len(stream), 7):
        writer.write(stream[at : at + 7])
        await writer.drain()
        await asyncio.sleep(0)
    for _ in range(4):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        assert len(await reader.readexactly(length)) == length
    writer.close()
    await writer.wait_closed()


async def test_the_fast_server_makes_only_a_models_answer_wait():
    url = await serve_fixed(30.0)
    async with aiohttp.ClientSession() as session, asyncio.timeout(10):
        async with session.get(f"{url}/models") as listed:
            assert listed.status == 200
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), session.post(f"{url}/chat/completions", json={}):
                pass
