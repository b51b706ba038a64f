"""Where a message was read from, for writing it back as it was.

Providers check what they once sent: a thought is signed, an item refers to another by id, a prompt cache compares
bytes. The parts say what a message means; its origin says who wrote it, with which model, and how it differed from
the way turnfold would have written the same parts. It is stored and never sent.
"""

from __future__ import annotations

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records.json_text import check_object, check_text

__all__ = ("Origin", "check_origin")


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """Who wrote a message, and how."""

    provider: str
    """The wire format it was read from."""
    model: str = ""
    """The model that wrote it; empty when nobody said, and for what no model wrote."""
    form: str = ""
    """JSON text: how it was written, where the parts alone do not tell. Only right for the parts it came with."""
    envelope: str = ""
    """JSON text: the fields of the response around it (its id, why it stopped, what it used)."""

    def without_form(self) -> Origin:
        """The origin of a message whose parts have been changed since."""
        return msgspec.structs.replace(self, form="") if self.form else self


def check_origin(origin: object) -> None:
    """Refuse an origin that could not be stored, or read back."""
    if origin is None:
        return
    if not isinstance(origin, Origin):
        raise InvalidRecord(f"{type(origin).__name__} is not an Origin", path="origin")
    for name in ("provider", "model"):
        check_text(getattr(origin, name), path=f"origin.{name}")
    for name in ("form", "envelope"):
        text = check_text(getattr(origin, name), path=f"origin.{name}")
        if text:
            check_object(text, path=f"origin.{name}")
