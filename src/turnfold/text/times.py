"""Times as a model is shown them: date, time of day and the offset of the zone, which a model cannot know otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

__all__ = ("local_time", "time_text")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTES = 60


def local_time(created: int, zone: tzinfo = UTC) -> datetime:
    """Return microseconds since 1970 as a time in this zone; a time that the zone cannot express stays in UTC."""
    time = _EPOCH + timedelta(microseconds=created)
    try:
        return time.astimezone(zone)
    except OverflowError:  # the first or last day of the calendar
        return time


def time_text(time: datetime) -> str:
    """Format a time with the offset of its zone, such as `2026-11-18 16:47 UTC+8`."""
    offset = time.utcoffset() or timedelta(0)
    hours, minutes = divmod(abs(offset) // timedelta(minutes=1), _MINUTES)
    sign = "-" if offset < timedelta(0) else "+"
    shown = f"{sign}{hours}{f':{minutes:02d}' if minutes else ''}" if hours or minutes else ""
    return f"{time:%Y-%m-%d %H:%M} UTC{shown}"
