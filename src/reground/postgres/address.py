"""The address of a database, and what may be said of it: never its password."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from reground.core.errors import ConfigurationError, MissingExtra
from reground.core.secrets import redacted

SCHEMES = ("postgresql://", "postgres://")
_SECRET = ("password", "sslpassword", "oauth_client_secret")
_DEFAULTS = {
    "application_name": "reground",
    "connect_timeout": "10",
    # a machine that is gone is noticed within half a minute
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


@dataclass(frozen=True)
class Address:
    """Where a database is.

    place: its address as it may be shown, without user, password and options. parameters: libpq's, by name. secrets:
    what no message may contain.
    """

    place: str
    parameters: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    def harmless(self, error: Exception) -> str:
        """The message of an error of the driver, on one line and without a password."""
        text = " ".join(str(error).split())
        for secret in self.secrets:
            text = redacted(text, secret)
        return redacted(text, None) or type(error).__name__


def address_of(url: str) -> Address:
    """Read postgresql://USER@HOST:PORT/DATABASE. Raises ConfigurationError, which never quotes it; MissingExtra."""
    if not url.startswith(SCHEMES):
        raise ConfigurationError("a journal is sqlite, or postgresql://USER@HOST:PORT/DATABASE")
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise MissingExtra("a journal in PostgreSQL", "postgres") from None
    before, _, rest = url.partition("://")[2].partition("/")
    # What stands behind a raw @ or / of a password would be taken for the host, and hosts are shown.
    if before.count("@") > 1 or "@" in rest:
        raise _unreadable()
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except ProgrammingError:  # its message quotes the address
        raise _unreadable() from None
    host, port = given.get("host", ""), given.get("port", "")
    if port.strip("0123456789,"):  # USER:PASSWORD without a host looks like HOST:PORT
        raise _unreadable()
    place = f"postgresql://{host}{f':{port}' if port else ''}/{given.get('dbname', '')}"
    quoted = before.rpartition("@")[0].partition(":")[2]
    secrets = (url, quoted, os.environ.get("PGPASSWORD", ""), *(given.get(name, "") for name in _SECRET))
    return Address(place, {**_DEFAULTS, **given}, tuple(sorted(filter(None, set(secrets)), key=len, reverse=True)))


def _unreadable() -> ConfigurationError:
    return ConfigurationError(
        "the journal's address cannot be read: it is postgresql://USER@HOST:PORT/DATABASE?OPTION=VALUE; write @ : / ?"
        " and % in a password as %40 %3A %2F %3F %25"
    )
