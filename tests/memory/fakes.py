"""Models and drivers that answer as a test wants, and remember what they were asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

__all__ = ("CountingDriver", "ScriptedModel", "told")


class CountingDriver:
    """A driver whose `count_tokens` is unlike any tokenizer's, so that its counts can be told apart."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.asked: list[Sequence[dict[str, object]]] = []
        self.threads: set[int] = set()

    def count_tokens(self, messages: Sequence[dict[str, object]]) -> object:
        self.asked.append(messages)
        self.threads.add(threading.get_ident())
        if isinstance(self.answer, Exception):
            raise self.answer
        return 1000 + len(self.asked) if self.answer is None else self.answer


class ScriptedModel:
    """A model that summarises by `answer`: a text, an exception, any response, or a function of the prompt."""

    def __init__(self, answer: object = "SUMMARY", *, pause: float | None = None) -> None:
        self.answer = answer
        self.pause = pause
        self.prompts: list[str] = []
        self.running = self.most_running = 0

    async def acompletion(self, messages: list[dict[str, str]]) -> object:
        [message] = messages
        assert message["role"] == "user"
        self.prompts.append(message["content"])
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.pause is not None:
                await asyncio.sleep(self.pause)
            return self._answered(message["content"])
        finally:
            self.running -= 1

    def _answered(self, prompt: str) -> object:
        answer = self.answer
        if isinstance(answer, Exception):
            raise answer
        if callable(answer) and not isinstance(answer, type):
            chosen: Callable[[str], object] = answer
            return chosen(prompt)
        return answer


def told(model: ScriptedModel) -> list[int]:
    """The numbers of the messages the model was given to summarise, in order, repeats included."""
    numbers: list[int] = []
    for prompt in model.prompts:
        conversation = prompt.rpartition("<conversation ")[2].partition("</conversation ")[0]
        numbers += [
            int(line.split("<", 1)[1].split(">", 1)[0])
            for line in conversation.splitlines()
            if ": <" in line and line.split(": <", 1)[1].split(">", 1)[0].isdigit()
        ]
    return numbers
