"""Names as they stand in the keys of the PostgreSQL store.

An index row holds only so many bytes. A name that is too long for four of them to fit stands in keys as its beginning
and a digest; the name itself stands beside it.
"""

from __future__ import annotations

from hashlib import blake2b

from turnfold.stores.log_mark import log_mark

__all__ = ("LONGEST_KEY", "Place", "key_of", "long_form")

LONGEST_KEY = 600
"""Bytes of a name in a key: four of them fit an index row."""


def key_of(name: str) -> str:
    """A name as it stands in keys: itself, or its beginning and a digest when an index could not hold it."""
    data = name.encode()
    if len(data) <= LONGEST_KEY:
        return name
    digest = blake2b(data, digest_size=32).hexdigest()
    return f"{data[:500].decode(errors='ignore')}\U0010ffff{digest}"


def long_form(name: str) -> str | None:
    """The name, if its key is not the name itself."""
    return None if key_of(name) == name else name


class Place:
    """A conversation of a tenant, as its keys."""

    __slots__ = ("conversation", "keys", "name", "tenant")

    def __init__(self, tenant: str, name: str) -> None:
        self.name = name
        self.tenant = key_of(tenant)
        self.conversation = key_of(name)
        self.keys = (self.tenant, self.conversation)

    def mark(self) -> str:
        """What stands for it in log records and errors."""
        return log_mark(self.tenant, self.name)

    @classmethod
    def of_keys(cls, tenant_key: str, name: str) -> Place:
        """A conversation of a tenant of whom only the key is known."""
        place = cls("", name)
        place.tenant = tenant_key
        place.keys = (tenant_key, place.conversation)
        return place
