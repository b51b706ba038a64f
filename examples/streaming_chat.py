"""A chat over HTTP that streams its answers: `uvicorn examples.streaming_chat:app`, with a key in OPENAI_API_KEY.

    curl -N "http://127.0.0.1:8000/chat/user-42" -d '{"turn": "t1", "text": "五月去北京三天。What should I see?"}'

Needs `pip install "turnfold[openai]" pydantic starlette uvicorn`. In FastAPI: `docs/en/recipes/streaming.md`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from turnfold import AsyncMemory, Budget
from turnfold.errors import ConversationDeleted, IdReused, ModelUnavailable
from turnfold.memory import AsyncSession
from turnfold.models import OpenAIChat

STORE = os.environ.get("TURNFOLD_STORE", "sqlite:///chat.db")
MODEL = os.environ.get("TURNFOLD_MODEL", "gpt-4o")


class Said(BaseModel):
    """The body of a request."""

    turn: str = Field(min_length=1)
    """Chosen by the browser, and the same when it sends the message again."""
    text: str = Field(min_length=1)


@asynccontextmanager
async def open_memory(app: Starlette) -> AsyncGenerator[None]:
    """Open one memory and one client for the whole process, and close them at its end."""
    budget = Budget(max_tokens=8_000)
    async with AsyncMemory(STORE, model=MODEL, budget=budget) as memory, OpenAIChat(MODEL) as model:
        app.state.memory, app.state.model = memory, model
        yield


async def answer(session: AsyncSession, model: OpenAIChat, said: Said) -> AsyncGenerator[str]:
    """Store what the user said, yield the answer as it comes, and store it when it is complete."""
    await session.system("You are a careful travel agent.")
    await session.user(said.text, client_id=said.turn)  # stored once; another text: IdReused
    answered = await session.by_client_id(f"{said.turn}/answer")
    if answered:  # sent again after the answer was stored
        yield answered[0].message.text
        return
    stream = model.stream(await session.context(to=model))
    async for text in stream:
        yield text
    await session.add(stream.answer, client_id=f"{said.turn}/answer")


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
        pieces = answer(state.memory.session(f"{user}/chat"), state.model, said)
        first = await anext(pieces, "")
    except ValidationError as error:
        return PlainTextResponse(str(error), 422)
    except ModelUnavailable:
        return PlainTextResponse("The model does not answer; send the same turn again.", 503)
    except ConversationDeleted:
        return PlainTextResponse("This conversation was deleted.", 410)
    except IdReused:
        return PlainTextResponse("This turn was sent before with another text.", 409)
    return StreamingResponse(after(first, pieces), media_type="text/plain; charset=utf-8")


app = Starlette(routes=[Route("/chat/{user}", chat, methods=["POST"])], lifespan=open_memory)
