"""An index on object storage, which many machines read.

    PREFIX/files/<sha256>   the files of the index's versions, each once
    PREFIX/latest.json      what the newest version consists of; written last

A push that is killed has not touched latest.json, so the former version stays. A pull brings a version into a folder
of the cache, whole or not at all; there it is an index like any other.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from reground.core.errors import IndexRefused, StorageError
from reground.core.journal import fingerprint
from reground.core.language import Value
from reground.core.places import indexes_dir
from reground.hub import only_one
from reground.retrieval.folder import LOCK, MANIFEST, Hold, Manifest, check_files, is_held, read_manifest
from reground.retrieval.settings import Progress
from reground.retrieval.stores import Absent, Store, StoreAway, StoreError

if TYPE_CHECKING:
    from reground.retrieval.build import Watcher

LATEST = "latest.json"
_FILES = "files"
_PART = ".part"
_KEPT = 2  # versions in the cache
_LARGEST = 64 << 20  # bytes of latest.json
_BLOCK = 5 << 20
_SHA256, _VERSION = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{16,64}")


class StoredFile(Value):
    """A file of an index: its bytes and their checksum, which is also its name in the store."""

    size: int
    sha256: str


class Latest(Value):
    """What latest.json says. version: a fingerprint of the names and contents of the files. files: listed by name."""

    format: str = "reground-remote-index"
    format_version: int = 1
    version: str
    files: dict[str, StoredFile]


@dataclass(frozen=True)
class Pushed:
    """What a push did. sent, sent_bytes: the files that were not there yet. files: all files of the version."""

    address: str
    version: str
    files: int
    sent: int
    sent_bytes: int


@dataclass(frozen=True)
class Pulled:
    """Where the index lies on this machine. note: a warning, where it may not be the newest."""

    path: Path
    note: str = ""


def check_address(address: str) -> None:
    """Raise StoreError or ConfigurationError where an index could not be pushed to, before it is built."""
    Store(address).sizes(_FILES)


def push(index: Path, address: str, *, progress: Watcher | None = None) -> Pushed:
    """Upload the index in the folder `index`; files that the store has are not sent again. Blocks.

    Raises IndexRefused for a damaged index, StoreError, ConfigurationError and MissingExtra.
    """
    store, manifest = Store(address), read_manifest(index)
    hold = Hold(index / manifest.generation)
    try:
        check_files(index, manifest, whole=True)
        return _push(index, manifest, store, progress or _silent)
    finally:
        hold.release()


def pull(address: str, *, progress: Watcher | None = None) -> Pulled:
    """Bring the newest version at the address into the cache, if it is not there, and say where it is. Blocks.

    Where the store does not answer, the newest version in the cache is taken. Of several processes one downloads and
    the others wait. Raises StoreError, StorageError, ConfigurationError and MissingExtra.
    """
    folder = cached_at(address)
    try:
        return Pulled(_newest(Store(address), folder, progress or _silent))
    except StoreAway as away:
        versions = _versions(folder)
        if not versions:
            raise
        when = datetime.fromtimestamp((versions[0] / LATEST).stat().st_mtime, tz=UTC)
        return Pulled(versions[0], f"{away}; what was newest on {when:%Y-%m-%d at %H:%M} UTC is used, from the cache")


def cached_at(address: str) -> Path:
    """The folder of an address's versions in the cache. The same address at another endpoint is another place."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
    key = hashlib.sha256(f"{address}\n{endpoint}".encode()).hexdigest()[:12]
    return indexes_dir() / f"{address.rpartition('/')[2]}-{key}"


def _newest(store: Store, folder: Path, told: Watcher) -> Path:
    """The folder of the newest version, downloaded if it is not there."""
    content = _read_latest(store)
    latest = _parse(content, store.address)
    place = folder / latest.version
    if not _is_whole(place):
        with only_one(folder, lambda what, done, total: told(Progress(transfer=what))), _writing(folder):
            if not _is_whole(place):
                _bring(store, latest, content, place, told)
            _prune(folder)  # by the one who has the lock, because others are not to lose what they download
    with suppress(OSError):
        os.utime(place / LATEST)
    return place


def _read_latest(store: Store) -> bytes:
    try:
        return store.read(LATEST, most=_LARGEST)
    except Absent:
        raise StoreError(
            f"there is no index at {store.address}: reground index DOCUMENTS --push {store.address}"
        ) from None


def _push(index: Path, manifest: Manifest, store: Store, told: Watcher) -> Pushed:
    sources: dict[str, Path | bytes] = {MANIFEST: manifest.model_dump_json(indent=1).encode()}
    sources |= {f"{manifest.generation}/{name}": index / manifest.generation / name for name in manifest.files}
    files = {name: _stored(source) for name, source in sources.items()}
    there = store.sizes(_FILES)
    missing = {file.sha256: name for name, file in files.items() if there.get(file.sha256) != file.size}
    total, done = sum(files[name].size for name in missing.values()), 0

    def counted(blocks: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal done
        for block in blocks:
            yield block
            done += len(block)
            told(Progress(transfer=f"uploading to {store.address}", done=done, size=total))

    for sha256, name in missing.items():
        blocks = counted(_blocks(sources[name]))
        store.write(f"{_FILES}/{sha256}", b"".join(blocks) if files[name].size <= _BLOCK else blocks)
    latest = Latest(version=_version(files), files=files)
    store.write(LATEST, latest.model_dump_json(indent=1).encode())
    return Pushed(store.address, latest.version, len(files), len(missing), total)


def _stored(source: Path | bytes) -> StoredFile:
    if isinstance(source, bytes):
        return StoredFile(size=len(source), sha256=hashlib.sha256(source).hexdigest())
    return StoredFile(size=source.stat().st_size, sha256=_sha256(source))


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _blocks(source: Path | bytes) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as content:
        while block := content.read(_BLOCK):
            yield block


def _version(files: Mapping[str, StoredFile]) -> str:
    return fingerprint("index", *(f"{name} {file.sha256}" for name, file in sorted(files.items())))


def _parse(content: bytes, address: str) -> Latest:
    """What latest.json says. It is data from outside: no name may lead out of the folder."""
    again = f"push the index again: reground index DOCUMENTS --push {address}"
    try:
        latest = Latest.model_validate_json(content)
    except ValidationError:
        raise StoreError(f"{address}/{LATEST} is damaged; {again}") from None
    if (latest.format, latest.format_version) != (Latest.model_fields["format"].default, 1):
        raise StoreError(f"{address}/{LATEST} is of another format than this reground reads; {again}")
    named = [_VERSION.fullmatch(latest.version), MANIFEST in latest.files]
    named += [_SHA256.fullmatch(file.sha256) and file.size >= 0 for file in latest.files.values()]
    if not all(named) or not all(map(_is_inside, latest.files)):
        raise StoreError(f"{address}/{LATEST} is damaged; {again}")
    return latest


def _is_inside(name: str) -> bool:
    return "\0" not in name and all(part not in ("", ".", "..") for part in name.split("/"))


def _bring(store: Store, latest: Latest, content: bytes, place: Path, told: Watcher) -> None:
    """Download a version beside its place and put it there. What other versions have is linked, not downloaded."""
    part = place.with_name(place.name + _PART)
    try:
        total, done = sum(file.size for file in latest.files.values()), 0
        known = _known(place.parent)
        for name in sorted(latest.files, key=lambda name: name != MANIFEST):  # first what says if it can be read
            for size in _bring_file(store, part / name, latest.files[name], known):
                done += size
                told(Progress(transfer=f"downloading {store.address}", done=done, size=total))
            if name == MANIFEST:
                manifest = read_manifest(part)
        check_files(part, manifest, whole=False)
        (part / manifest.generation / LOCK).touch()
        (part / LATEST).write_bytes(content)
    except IndexRefused:
        shutil.rmtree(part, ignore_errors=True)
        raise StoreError(
            f"the index at {store.address} is not one that this version of reground reads: "
            f"reground index DOCUMENTS --push {store.address}"
        ) from None
    except StoreError as error:
        if not isinstance(error, StoreAway):  # after a lost connection the next pull goes on from here
            shutil.rmtree(part, ignore_errors=True)
        raise
    shutil.rmtree(place, ignore_errors=True)
    part.replace(place)


def _bring_file(store: Store, file: Path, stored: StoredFile, known: Mapping[str, Path]) -> Iterator[int]:
    """Put a file into its place and yield the bytes as they come."""
    file.parent.mkdir(parents=True, exist_ok=True)
    for source in (file, known.get(stored.sha256, file)):
        if _is(source, stored):
            if source != file:
                file.unlink(missing_ok=True)
                _link(source, file)
            yield stored.size
            return
    key, digest, half = f"{_FILES}/{stored.sha256}", hashlib.sha256(), file.with_name(file.name + _PART)
    try:
        with half.open("wb") as out:
            for block in store.blocks(key, stored.size):
                out.write(block)
                digest.update(block)
                yield len(block)
    except Absent:
        raise StoreError(f"{store.address} is damaged: it has no {key}; push the index again") from None
    if digest.hexdigest() != stored.sha256:
        raise StoreError(
            f"{store.address} is damaged: {key} has other content than was pushed; remove it there and push again"
        )
    half.replace(file)


def _is(file: Path, stored: StoredFile) -> bool:
    return file.is_file() and file.stat().st_size == stored.size and _sha256(file) == stored.sha256


def _link(old: Path, new: Path) -> None:
    try:
        os.link(old, new)
    except OSError:  # a file system without hard links
        shutil.copyfile(old, new)


def _known(folder: Path) -> dict[str, Path]:
    """The files of the versions in the cache, by their checksums."""
    found: dict[str, Path] = {}
    for version in _versions(folder):
        try:
            files = Latest.model_validate_json((version / LATEST).read_bytes()).files
        except (OSError, ValidationError):
            continue
        found |= {stored.sha256: version / name for name, stored in files.items()}
    return found


def _versions(folder: Path) -> list[Path]:
    """The versions in the cache, of which the first was last said to be the newest."""
    found = [file for file in folder.glob(f"*/{LATEST}") if not file.parent.name.endswith(_PART)]
    return [file.parent for file in sorted(found, key=lambda file: file.stat().st_mtime, reverse=True)]


def _is_whole(version: Path) -> bool:
    try:
        check_files(version, read_manifest(version))
    except IndexRefused:
        return False
    return (version / LATEST).is_file()


def _prune(folder: Path) -> None:
    """Remove old versions that nobody reads, and what was begun of others."""
    for version in [*_versions(folder)[_KEPT:], *folder.glob(f"*{_PART}")]:
        if not any(map(is_held, version.glob("data-*"))):
            shutil.rmtree(version, ignore_errors=True)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror or error}") from error


def _silent(progress: Progress) -> None:
    """Ignore progress."""
