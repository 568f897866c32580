"""A PostgreSQL server of the tests' own, from the binaries of the system; tests that need one skip without them."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "hush-hush%word"
QUOTED = "hush-hush%25word"
_SETTINGS = """
fsync = off
synchronous_commit = off
wal_writer_delay = 10s
"""
"""What is not asked for by each commit is written late, so a test can tell. The disk itself loses nothing here."""


def binaries() -> Path:
    """The folder of initdb and postgres; skips the test where there is none."""
    found = shutil.which("initdb")
    folders = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "postgres", "pg_ctl")):
            return folder
    pytest.skip("needs the binaries of PostgreSQL (on Debian, the package postgresql)")


class Postgres:
    """A server on a loopback port, with its data in a temporary folder. It refuses to run as root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bin = binaries()
        self._as: tuple[str, ...] = ()
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                pytest.skip("needs setpriv to run PostgreSQL, which refuses to run as root")
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self._as = ("setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "--pgdata", str(folder / "data"), "--username=reground", f"--pwfile={secret}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS)
        self.start()

    @property
    def url(self) -> str:
        """The address, with the password."""
        return self.address("postgres")

    def address(self, database: str, password: str = QUOTED) -> str:
        """The address of a database."""
        return f"postgresql://reground:{password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        log = str(self.folder / "log")
        self._run("pg_ctl", "start", "-w", "-D", str(self.folder / "data"), "-l", log, "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: fast ends the connections, immediate is a crash."""
        self._run("pg_ctl", "stop", "-w", "-D", str(self.folder / "data"), "-m", mode)

    def connect(self) -> Any:
        """A connection of the test's own, which commits each statement."""
        import psycopg

        return psycopg.connect(self.url, autocommit=True)

    def fresh(self) -> str:
        """The address of a place without any table."""
        name = f"s{secrets.token_hex(8)}"
        with self.connect() as db:
            db.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}?options=-csearch_path%3D{name}"

    def rows(self, url: str, query: str) -> list[tuple[Any, ...]]:
        """What a statement gives in the place of this address."""
        import psycopg

        with psycopg.connect(url, autocommit=True) as db:
            found = db.execute(query)
            return found.fetchall() if found.description else []

    def end(self) -> None:
        """Stop the server if it runs."""
        pid = self.folder / "data" / "postmaster.pid"
        if pid.exists():
            os.kill(int(pid.read_text().split()[0]), signal.SIGQUIT)
            until = time.monotonic() + 30
            while pid.exists() and time.monotonic() < until:
                time.sleep(0.05)

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._as, str(self._bin / name), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if name == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT, cwd=self.folder, timeout=120, check=False, text=True,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )  # fmt: skip
        assert done.returncode == 0, f"{name}: {done.stdout}"


@contextmanager
def running() -> Iterator[Postgres]:
    """A server until the block ends; skips the test without the driver or the binaries."""
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'reground[postgres]'")
    binaries()
    # not below pytest's own folders, which only their owner may enter
    with tempfile.TemporaryDirectory(prefix="reground-postgres-") as folder:
        server = Postgres(Path(folder))
        try:
            yield server
        finally:
            server.end()
