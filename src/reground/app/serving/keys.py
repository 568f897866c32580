"""API keys: a file with a line for each, which holds a name and a hash. The key itself is shown once."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from reground.core.errors import ConfigurationError, DataError
from reground.core.files import append_line, expanded, keys_file, read_lines, without_sum
from reground.core.http import is_loopback

if TYPE_CHECKING:
    from reground.app.options import Serve


@dataclass(frozen=True)
class Holder:
    """A client, by the name of its key; empty where no key is needed. corpora: documents that the key is for; None
    for all."""

    name: str = ""
    corpora: frozenset[str] | None = None

    def may_ask(self, corpus: str | None) -> bool:
        """Whether the key is for these documents, by their name; None for a method that searches nothing."""
        return self.corpora is None or corpus is None or corpus in self.corpora


ANYONE = Holder()
"""The client of a server that needs no key."""


def new_key(path: Path, name: str) -> str:
    """Make a key, keep its hash in the file, and return it. Raises ConfigurationError where the name is taken.

    name: of the key, and behind = the names of the documents that it is for, with commas between them. A key is 256
    random bits, so that a fast hash protects it. Its beginning is one that `redacted` knows.
    """
    name, limited, listed = name.partition("=")
    corpora = [corpus for corpus in listed.split(",") if corpus]
    if not name.strip() or not name.isprintable():
        raise ConfigurationError("a key needs a name that can be printed")
    if path.exists() and name in {holder.name for holder in holders(path).values()}:
        raise ConfigurationError(f"a key is called {name} already; take its line out of {path} first")
    key = f"sk-rg-{secrets.token_urlsafe(32)}"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = {"name": name, "sha256": _hash(key), "made": now} | ({"corpora": corpora} if limited else {})
    append_line(path, json.dumps(line, ensure_ascii=False))
    with suppress(OSError):
        path.chmod(0o600)
    return key


def holders(path: Path) -> dict[str, Holder]:
    """The holder of each key, by its hash. Raises DataError naming the line."""
    by_hash = {}
    for number, line in read_lines(path, "keys"):
        try:
            data = json.loads(without_sum(line))
            corpora = data.get("corpora")
            if corpora is not None and not isinstance(corpora, list):
                raise TypeError
            holder = Holder(str(data["name"]), None if corpora is None else frozenset(map(str, corpora)))
            by_hash[bytes.fromhex(data["sha256"]).hex()] = holder
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError("not a key as reground serve --new-key writes it", path=path, line=number) from None
    return by_hash


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


class Keys:
    """The keys of a file, read again when it changes: a line that is taken out ends its key at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp, self._holders = self._version(), holders(path)

    def __len__(self) -> int:
        return len(self._holders)

    def holder(self, key: str) -> Holder | None:
        """A key's holder; None where it is none. Every key is compared, and each comparison takes the same time."""
        if (stamp := self._version()) != self._stamp:
            try:
                self._stamp, self._holders = stamp, holders(self._path)
            except DataError:  # a file that is gone or damaged lets nobody in
                self._stamp, self._holders = stamp, {}
        digest = _hash(key)
        matches = [holder for stored, holder in self._holders.items() if hmac.compare_digest(stored, digest)]
        return matches[0] if matches else None

    def _version(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError:
            return 0, 0
        return status.st_mtime_ns, status.st_size


def place_of_keys(order: Serve) -> Path:
    """The file of keys."""
    return keys_file() if order.keys is None else expanded(order.keys)


def checked_keys(order: Serve) -> Keys | None:
    """The keys of those who may ask; None lets everyone.

    Raises ConfigurationError where others could reach a server without keys, and for a file whose keys were all taken
    out: such a file lets nobody in while a server runs, and must not let everyone in after a restart.
    """
    path = place_of_keys(order)
    if order.no_keys:
        if order.keys is not None:
            raise ConfigurationError("--keys and --no-keys: give one of them")
        return None
    if order.keys is not None or path.exists():
        keys = Keys(path)
        if not keys:
            raise ConfigurationError(
                f"{path} has no key, so nobody could ask: make one with reground serve --new-key NAME, or say --no-keys"
            )
        return keys
    if not is_loopback(order.host):
        raise ConfigurationError(
            f"others may reach {order.host}: make a key with reground serve --new-key NAME, or say --no-keys"
        )
    return None
