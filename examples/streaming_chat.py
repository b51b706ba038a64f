"""A chat over HTTP that streams its answers: `uvicorn examples.streaming_chat:app`, with a key in OPENAI_API_KEY.

    curl -N "http://127.0.0.1:8000/chat/user-42" -d '{"turn": "t1", "text": "订单 A-1007 到哪里了？"}'

Needs `pip install ".[openai]" pydantic starlette uvicorn`. In FastAPI: `docs/en/recipes/streaming.md`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from turnfold import AsyncMemory, Budget
from turnfold.agent import AgentReply, AsyncAgent, Event, TextCame, ToolStarted
from turnfold.errors import (
    Conflict,
    ConversationDeleted,
    IdReused,
    ModelFailed,
    ModelUnavailable,
    SessionBusy,
)
from turnfold.models import ChatModel, OpenAIChat

STORE = os.environ.get("TURNFOLD_STORE", "sqlite:///chat.db")
MODEL = os.environ.get("TURNFOLD_MODEL", "gpt-4o")
REFUSALS = (
    (ModelUnavailable, 503, "The model does not answer; send the same turn again."),
    (ModelFailed, 502, "The model refused the request."),
    (SessionBusy, 503, "Another turn is not answered yet; send this again."),
    (ConversationDeleted, 410, "This conversation was deleted."),
    (IdReused, 409, "This turn was sent before with another text."),
    (Conflict, 409, "This turn was passed over; send it as a new one."),
)

runs: set[asyncio.Task[AgentReply]] = set()
"""The runs that are at work; one goes on if its reader leaves."""


class Said(BaseModel):
    """The body of a request."""

    turn: str = Field(min_length=1)
    """Chosen by the browser, and the same when it sends the message again."""
    text: str = Field(min_length=1)


def order_status(order: str) -> str:
    """The status of an order."""
    return f"{order}: shipped, arrives tomorrow"


@asynccontextmanager
async def open_memory(app: Starlette) -> AsyncGenerator[None]:
    """Open one memory and one client for the whole process, and close them at its end."""
    budget = Budget(max_tokens=8_000)
    async with AsyncMemory(STORE, model=MODEL, budget=budget) as memory, OpenAIChat(MODEL) as model:
        app.state.memory, app.state.model = memory, model
        yield
        await asyncio.gather(*runs, return_exceptions=True)


async def answer(
    memory: AsyncMemory, model: ChatModel, conversation: str, said: Said
) -> AsyncGenerator[str]:
    """Answer what the user said, once for each turn, and yield the pieces of the answer as they come."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    agent = AsyncAgent(
        memory,
        model,
        tools=[order_status],
        system="You are a careful support agent.",
        on_event=events.put_nowait,
    )
    run = asyncio.create_task(agent.run(conversation, said.text, client_id=said.turn))
    runs.add(run)
    run.add_done_callback(runs.discard)
    run.add_done_callback(lambda _: events.put_nowait(None))
    while (event := await events.get()) is not None:
        if isinstance(event, TextCame):
            yield event.text
        elif isinstance(event, ToolStarted):
            yield f"[{event.call.name}] "
    await run


async def after(first: str, pieces: AsyncGenerator[str]) -> AsyncGenerator[str]:
    """Yield the first piece and the others."""
    yield first
    async for text in pieces:
        yield text


async def chat(request: Request) -> Response:
    """Answer one message of a user. The first piece is fetched here, while the status can still be an error's."""
    state, user = request.app.state, request.path_params["user"]
    try:
        said = Said.model_validate_json(await request.body())
        pieces = answer(state.memory, state.model, f"{user}/chat", said)
        first = await anext(pieces, "")
    except ValidationError as error:
        return PlainTextResponse(str(error), 422)
    except tuple(kind for kind, _, _ in REFUSALS) as error:
        return next(
            PlainTextResponse(text, status)
            for kind, status, text in REFUSALS
            if isinstance(error, kind)
        )
    return StreamingResponse(after(first, pieces), media_type="text/plain; charset=utf-8")


app = Starlette(routes=[Route("/chat/{user}", chat, methods=["POST"])], lifespan=open_memory)
