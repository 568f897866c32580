"""The benchmark of fetching, in small."""

from __future__ import annotations

from argparse import Namespace

from benchmarks.web import run


def test_both_clients_fetch_every_page_and_a_slow_host_holds_back_no_other() -> None:
    bare, ours = run(Namespace(hosts=4, latency=0.01, slow=1.0, pages=14, in_flight=4))
    assert (bare.pages, ours.pages) == (14, 14)
    assert max(bare.wall_s, ours.wall_s) >= 2.0  # two pages of the slow host, one after the other
    assert ours.others_s < 1.9
