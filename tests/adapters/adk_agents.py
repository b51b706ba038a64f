"""An ADK model that answers by script and keeps what it was sent, and a runner for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

from tests.adapters.tool_loops import PAGE
from turnfold import Message
from turnfold.adapters.google_adk import record_of

types: Any = import_module("google.genai.types")
models: Any = import_module("google.adk.models")
agents: Any = import_module("google.adk.agents")
runners: Any = import_module("google.adk.runners")
apps: Any = import_module("google.adk.apps")

Step = str | list[tuple[str, dict[str, Any]]]
"""What a model says, or the calls that it makes: name and arguments of each."""


class ScriptedLlm(models.BaseLlm):
    """Answers with the steps of a script, one after the other."""

    script: list[Any]
    usage: bool
    sent: list[Any]
    configs: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: Any) -> AsyncIterator[Any]:
        self.sent.append(list(llm_request.contents))
        self.configs.append(llm_request.config)
        step = self.script[len(self.sent) - 1]
        if isinstance(step, str):
            parts = [types.Part(text=step)]
        else:
            parts = [types.Part.from_function_call(name=name, args=args) for name, args in step]
        content = types.Content(role="model", parts=parts)
        if stream and isinstance(step, str):
            yield models.LlmResponse(content=content, partial=True)
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=100, candidates_token_count=5, cached_content_token_count=10
        )
        yield models.LlmResponse(content=content, usage_metadata=used if self.usage else None)


def scripted(script: Sequence[Step], *, usage: bool = False) -> Any:
    return ScriptedLlm(model="scripted", script=list(script), usage=usage, sent=[], configs=[])


def requests(model: Any) -> list[list[Message]]:
    """The contents of every request, as records."""
    return [[record_of(content) for content in sent] for sent in model.sent]


def look(at: int) -> str:
    """Look at a place."""
    return f"place {at}: {PAGE}"


def looping(steps: int) -> list[Step]:
    """Steps that look at two places each, and an answer."""
    calls: list[Step] = [
        [("look", {"at": number}), ("look", {"at": -number})] for number in range(1, steps + 1)
    ]
    return [*calls, "done"]


def agent_of(model: Any, **more: Any) -> Any:
    options: dict[str, Any] = {"tools": [look], "instruction": "Be brief.", **more}
    return agents.LlmAgent(name="scout", model=model, **options)


class Chat:
    """A session of one user with the agents of an app."""

    def __init__(self, agent: Any, *plugins: Any, session: str = "s", **services: Any) -> None:
        app = apps.App(name="app", root_agent=agent, plugins=list(plugins))
        self.runner = runners.InMemoryRunner(app=app)
        for name, service in services.items():
            setattr(self.runner, name, service)
        self._session = session
        self._made = False

    async def say(self, text: str, **more: Any) -> str:
        if not self._made:
            await self.runner.session_service.create_session(
                app_name="app", user_id="ann", session_id=self._session
            )
            self._made = True
        message = types.Content(role="user", parts=[types.Part(text=text)])
        answer = ""
        async for event in self.runner.run_async(
            user_id="ann", session_id=self._session, new_message=message, **more
        ):
            if event.is_final_response() and event.content and event.content.parts[0].text:
                answer = event.content.parts[0].text
        return answer

    async def events(self) -> list[Any]:
        found = await self.runner.session_service.get_session(
            app_name="app", user_id="ann", session_id=self._session
        )
        return found.events

    def ask(self, *texts: str) -> list[str]:
        async def main() -> list[str]:
            return [await self.say(text) for text in texts]

        return asyncio.run(main())
