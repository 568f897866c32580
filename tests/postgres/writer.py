"""A process that writes one run beside others: python -m tests.postgres.writer URL NAME COUNT."""

from __future__ import annotations

import asyncio
import sys

from reground.core.journal import Effect
from reground.postgres.journal import PostgresJournal


async def main(url: str, name: str, count: int) -> None:
    journal = PostgresJournal(url)
    for begin in range(0, count, 20):
        effects = (Effect(f"/{name}.0", n, "f", f"{name} {n}", 1.0) for n in range(begin, begin + 20))
        await asyncio.gather(*(journal.append("run", "q", effect) for effect in effects))
    journal.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
