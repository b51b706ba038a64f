"""What an operator of a PostgreSQL store should know: who it runs as, what that takes away, what the server risks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

from turnfold.stores.postgres_engine import Link, Statement
from turnfold.stores.postgres_schema import TABLES, migrate

__all__ = ("Opening", "inspect")

_log = logging.getLogger(__name__)
_RISKS = ("fsync", "full_page_writes")
"""Settings of the whole server, which no transaction can change for itself."""
_FACTS = """
SELECT current_setting('server_version'), current_user::text, current_database()::text,
       (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user),
       current_setting('fsync'), current_setting('full_page_writes'),
       (SELECT count(*) FROM unnest($1::text[]) AS wanted
        JOIN pg_class ON pg_class.oid = to_regclass(wanted)
        WHERE relrowsecurity AND relforcerowsecurity),
       coalesce((SELECT relkind = 'v' FROM pg_class WHERE oid = to_regclass('ai_message')), false)
"""


class Opening:
    """What is done before a store's first transaction, by whoever come first."""

    def __init__(self) -> None:
        self._spoken = False

    async def make_ready(self, link: Link) -> None:
        """Bring the schema up to date, and say so if the server itself may lose what it has acknowledged."""
        await migrate(link)
        [[found]] = await link.ask(
            Statement("SELECT current_setting('fsync'), current_setting('full_page_writes')")
        )
        risks = [] if self._spoken else _risks(dict(zip(_RISKS, found, strict=True)))
        self._spoken = True
        for risk in risks:
            _log.warning(risk, extra={"event": "unsafe_setting"})


async def inspect(link: Link) -> tuple[dict[str, str], tuple[str, ...]]:
    """Details and warnings for `Health`."""
    [[facts]] = await link.finish(Statement(_FACTS, (list(TABLES),)))
    names = (
        "server",
        "user",
        "database",
        "bypasses",
        "fsync",
        "full_page_writes",
        "walled",
        "view",
    )
    known: dict[str, object] = dict(zip(names, facts, strict=True))
    details = {name: str(known[name]) for name in ("server", "user", "database")}
    return details, tuple(_warnings(known))


def _warnings(known: Mapping[str, object]) -> list[str]:
    warnings: list[str] = []
    if known["bypasses"]:
        warnings.append(
            f"connected as {known['user']!r}, whom row-level security does not stop: the second wall between "
            "tenants is absent; connect as a role that is neither superuser nor BYPASSRLS"
        )
    walled = cast("int", known["walled"])
    if walled < len(TABLES):
        warnings.append(f"row-level security is forced on {walled} of {len(TABLES)} tables")
    warnings += _risks(known)
    if not known["view"]:
        warnings.append(
            "ai_message is not the documented view: a relation of that name was there before"
        )
    return warnings


def _risks(known: Mapping[str, object]) -> list[str]:
    return [
        f"the server runs with {name}=off: unless its storage vouches for it otherwise, a crash of the machine "
        "can lose acknowledged entries"
        for name in _RISKS
        if known[name] == "off"
    ]
