"""Object storage (S3, Google Cloud, Azure): addresses, and what is read, written and listed under one.

Keys come from the environment (AWS_ACCESS_KEY_ID, ...), never from an address. What a store says of an error may name a
key, so its words are not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from reground.core.errors import ConfigurationError, MissingExtra, RegroundError

_ADDRESS = re.compile(r"(s3|gs|az):/{1,2}(?!/)(.*)")
_RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
_PART = 5 << 20
"""Bytes of a part that is sent at once; S3 takes no smaller ones."""
_AT_ONCE = 3
"""Parts on their way at once; each has to arrive within the client's 30 seconds, on a slow line too."""
_NO_KEYS = ("/latest/api/token", "/latest/meta-data", "computeMetadata", "/metadata/identity")
"""Where a cloud's own machines get their keys; asked only where the environment has none."""
_WRONG_KEYS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired")
_WRONG_REGION = ("incorrectly configured region", "PermanentRedirect", "AuthorizationHeaderMalformed")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


class StoreError(RegroundError):
    """A store refuses, or what lies there cannot be used."""

    exit_code = 2


class StoreAway(StoreError):
    """A store does not answer."""


class Absent(StoreError):
    """A store has no such object."""


def address_of(place: str | Path) -> str | None:
    """The address in an object store that a corpus names, as s3://bucket/prefix; None for a path on this machine.

    A Path has lost the second slash of an address, which is put back. Raises ConfigurationError for an address without
    a bucket, or with a key in it.
    """
    found = _ADDRESS.fullmatch(str(place))
    if found is None:
        return None
    scheme, rest = found.groups()
    if any(sign in rest for sign in "@?#"):
        raise ConfigurationError(
            f"an address is {scheme}://BUCKET/PREFIX, without @, ? and #: keys belong into the environment"
        )
    parts = [part for part in rest.split("/") if part]
    if not parts or {".", ".."} & {*parts}:
        raise ConfigurationError(f"an address is {scheme}://BUCKET/PREFIX")
    return f"{scheme}://{'/'.join(parts)}"


class Store:
    """The objects under an address. Raises StoreError with what to do, and MissingExtra."""

    def __init__(self, address: str) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise MissingExtra(address, "s3") from None
        self.address = address
        self._obstore: Any = obstore
        try:
            self._objects = from_url(address, retry_config=_RETRIES)  # type: ignore[arg-type, unused-ignore]
        except (obstore.exceptions.BaseError, ValueError):
            raise ConfigurationError(
                f"{address} cannot be opened: its account or region is missing from the environment, or wrong there"
            ) from None

    def read(self, key: str, *, most: int) -> bytes:
        """A small object, with one request. most: the most bytes that it may have."""
        with self._plainly(key):
            found = self._obstore.get(self._objects, key)
            if found.meta["size"] > most:
                raise StoreError(f"{self.address}/{key} is too large to be what it should be")
            return bytes(found.bytes())

    def blocks(self, key: str, size: int, block: int = 8 << 20) -> Iterator[bytes]:
        """The first `size` bytes of an object in blocks, each a request that is repeated where it fails."""
        for start in range(0, size, block):
            with self._plainly(key):
                part = bytes(self._obstore.get_range(self._objects, key, start=start, end=min(start + block, size)))
            yield part

    def write(self, key: str, content: bytes | Iterator[bytes]) -> None:
        """Write an object, which nobody sees before it is whole."""
        with self._plainly(key):
            self._obstore.put(self._objects, key, content, chunk_size=_PART, max_concurrency=_AT_ONCE)

    def sizes(self, folder: str) -> dict[str, int]:
        """The names of the objects in a folder, and their bytes."""
        with self._plainly(folder):
            listed = [meta for chunk in self._obstore.list(self._objects, folder) for meta in chunk]
        return {meta["path"].rpartition("/")[2]: meta["size"] for meta in listed}

    @contextmanager
    def _plainly(self, key: str) -> Iterator[None]:
        """Say in one line what failed. The cause is dropped, because a traceback would show the store's words."""
        try:
            yield
        except (self._obstore.exceptions.BaseError, FileNotFoundError) as error:
            raise self._refusal(error, key) from None

    def _refusal(self, error: Exception, key: str) -> StoreError:
        said, address = str(error), self.address
        if any(place in said for place in _NO_KEYS):
            return StoreError(
                f"there are no keys for {address}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the variables "
                "of the provider), or AWS_SKIP_SIGNATURE=true for a public bucket"
            )
        if any(code in said for code in _NO_BUCKET):
            return StoreError(f"there is no bucket for {address}: make it, or correct the address or the endpoint")
        if isinstance(error, FileNotFoundError):
            return Absent(f"there is no {address}/{key}")
        if any(code in said for code in _WRONG_KEYS):
            return StoreError(f"the keys for {address} are wrong or too old: renew those in the environment")
        status = re.search(r"status code: (\d{3})", said)
        if status is not None and status[1] in ("401", "403"):
            return StoreError(f"access to {address} is denied: the keys need the right to get, put and list objects")
        if "BadScheme" in said:
            return StoreError(f"the endpoint for {address} is http, which AWS_ALLOW_HTTP=true allows")
        if any(code in said for code in _WRONG_REGION):
            return StoreError(f"{address} lies in another region: set AWS_REGION")
        if status is not None and status[1] < "500":
            return StoreError(f"the store of {address} refuses (status {status[1]}): check the endpoint and the keys")
        return StoreAway(f"the store of {address} does not answer: check AWS_ENDPOINT_URL and the network")
