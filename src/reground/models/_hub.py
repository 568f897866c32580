"""Downloads one file from a model hub (HF_ENDPOINT, HF_TOKEN) and resumes an interrupted download."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from reground.core.errors import ConfigurationError
from reground.models.pull import PullError

_BLOCK = 1 << 20
_TIMEOUT = 30.0  # seconds without a byte
_SHA256 = re.compile(r"[0-9a-f]{64}")


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, keeps the token on its own host, and notes the checksum that the hub states on the way."""

    def __init__(self) -> None:
        self.sha256 = ""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        self.note(headers)
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and _origin(newurl) != _origin(req.full_url):
            following.remove_header("Authorization")
        return following

    def note(self, headers: Any) -> None:
        """A large file's ETag on a hub is its SHA-256."""
        stated = (headers.get("X-Linked-Etag") or "").strip('"')
        if _SHA256.fullmatch(stated):
            self.sha256 = stated


def download(repository: str, file: str, path: Path, progress: Callable[[str, int, int | None], None]) -> None:
    """Download `file` of `repository` to `path`. Raises PullError; the downloaded part stays for the next attempt."""
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if urlsplit(endpoint).scheme not in {"http", "https"}:
        raise ConfigurationError(f"HF_ENDPOINT must be an http or https address, not {endpoint!r}")
    url = f"{endpoint}/{quote(repository)}/resolve/main/{quote(file)}"
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stated = _transfer(url, part, progress, f"downloading {path.name}")
    except HTTPError as error:
        raise PullError(_refusal(error.code, f"{repository}:{file}", endpoint)) from error
    except (URLError, HTTPException, OSError) as error:
        why = getattr(error, "reason", None) or error
        raise PullError(f"could not download {file} from {endpoint}: {why}; run it again to go on") from error
    _check(part, stated, file)
    part.replace(path)


def _transfer(url: str, part: Path, progress: Callable[[str, int, int | None], None], what: str) -> str:
    """Append what is missing to `part`; returns the SHA-256 that the hub states, if it does."""
    done = part.stat().st_size if part.exists() else 0
    redirects = _Redirects()
    opener = build_opener(redirects)
    request = Request(url, headers={"User-Agent": "reground"})  # noqa: S310  (the scheme was checked)
    if token := os.environ.get("HF_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    if done:
        request.add_header("Range", f"bytes={done}-")
    with _open(opener, request) as response:
        redirects.note(response.headers)
        if response.status != 206:
            done = 0  # the server starts from the beginning, or all of it is here already
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with part.open("ab" if done else "wb") as out:
            while block := response.read(_BLOCK):
                out.write(block)
                done += len(block)
                progress(what, done, total)
    if total is not None and done < total:
        raise HTTPException(f"the connection ended after {done} of {total} bytes")
    return redirects.sha256


def _open(opener: OpenerDirector, request: Request) -> Any:
    try:
        return opener.open(request, timeout=_TIMEOUT)
    except HTTPError as error:
        if error.code != 416:
            raise
        # Nothing is missing, or the part is of another version of the file: fetch the whole of it.
        error.close()
        request.remove_header("Range")
        return opener.open(request, timeout=_TIMEOUT)


def _check(part: Path, sha256: str, file: str) -> None:
    with part.open("rb") as source:
        magic = source.read(4)
        source.seek(0)
        wrong = magic != b"GGUF" or (sha256 and hashlib.file_digest(source, "sha256").hexdigest() != sha256)
    if wrong:
        part.unlink()
        why = "is no GGUF file" if magic != b"GGUF" else "has the wrong checksum"
        raise PullError(f"{file} {why} and was removed")


def _refusal(code: int, reference: str, endpoint: str) -> str:
    if code in (401, 403):
        return f"{endpoint} refuses {reference}: it may be private or need its licence accepted; set HF_TOKEN"
    if code == 404:
        return f"{endpoint} has no {reference}"
    return f"{endpoint} answered {code} for {reference}"


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
