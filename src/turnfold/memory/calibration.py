"""Corrects estimated token counts of a conversation by a factor that is learned from the provider's reported usage."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from turnfold.errors import Conflict
from turnfold.memory.cached_conversation import ConversationCache
from turnfold.memory.call_log import Manifest
from turnfold.memory.config import MemoryConfig
from turnfold.records import CALIBRATION, SESSION, CalibrationNote, read_note, write_note
from turnfold.tokens import can_correct, correction_of

__all__ = ("SessionCalibration",)


@dataclass(slots=True)
class SessionCalibration:
    """Learns the correction factor of one conversation from reported usage, and stores it with the conversation."""

    config: MemoryConfig
    cache: ConversationCache
    used: float = 1.0
    """Factor by which this session multiplies estimated token counts; 1.0 corrects nothing."""

    @property
    def stored(self) -> float:
        """Stored correction factor of token counts for this conversation, model and counter; 1.0 if none is stored."""
        return self.cache.calibration.factors.get(self._key, 1.0)

    async def observe(self, manifest: Manifest, reported: int) -> None:
        """Compare turnfold's token count of a call with the provider's; store the correction factor if it changes."""
        counter, log = self.config.counter, self.config.calibrating
        same = manifest.counter == self.cache.counter.name
        factor = self.used if same else correction_of(counter, manifest.counter)
        if factor is None:
            return  # the call was counted by a counter that this memory does not have
        log.observe(counted=round(manifest.tokens / factor), reported=reported)
        if not can_correct(counter) or log.next_factor(self.stored) == self.stored:
            return
        cache = self.cache
        document = await cache.document(SESSION, CALIBRATION)
        note = read_note(document, CalibrationNote)
        current = note.factors.get(self._key, 1.0)
        factor = log.next_factor(current)
        if factor == current:
            return
        note = CalibrationNote(factors={**note.factors, self._key: factor})
        version = document.version if document else 0
        with suppress(Conflict):  # another process was faster: the next report tries again
            written = await cache.store.put_document(
                cache.scope,
                cache.conversation,
                write_note(SESSION, CALIBRATION, note),
                expect=version,
            )
            cache.calibration = note
            cache.queue_write(written)

    @property
    def _key(self) -> str:
        return f"{self.config.model} {self.config.counter.name}".strip()
