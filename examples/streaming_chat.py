"""A chat over HTTP that streams its answers: `uvicorn examples.streaming_chat:app`, with a key in OPENAI_API_KEY.

    curl -N -X POST "http://127.0.0.1:8000/chat/user-42" -d "五月去北京三天。What should I see?"

Needs `pip install "turnfold[openai]" starlette uvicorn`. In FastAPI the body of the response is the same generator.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from turnfold import AsyncMemory, Budget
from turnfold.models import OpenAIChat

STORE = os.environ.get("TURNFOLD_STORE", "sqlite:///chat.db")
MODEL = os.environ.get("TURNFOLD_MODEL", "gpt-4o")


@asynccontextmanager
async def open_memory(app: Starlette) -> AsyncGenerator[None]:
    """Open one memory and one client for the whole process, and close them at its end."""
    budget = Budget(max_tokens=8_000)
    async with AsyncMemory(STORE, budget=budget) as memory, OpenAIChat(MODEL) as model:
        app.state.memory, app.state.model = memory, model
        yield


async def answer(
    memory: AsyncMemory, model: OpenAIChat, user: str, said: str
) -> AsyncGenerator[str]:
    """Store what the user said, yield the answer as it comes, and store it when it is complete."""
    session = memory.session(user)
    await session.system("You are a careful travel agent.")
    await session.user(said)
    stream = model.stream(await session.context())
    async for text in stream:
        yield text
    await session.add(stream.answer)


async def chat(request: Request) -> StreamingResponse:
    """Answer one message of a user."""
    state = request.app.state
    said = (await request.body()).decode("utf-8")
    pieces = answer(state.memory, state.model, request.path_params["user"], said)
    return StreamingResponse(pieces, media_type="text/plain; charset=utf-8")


app = Starlette(routes=[Route("/chat/{user}", chat, methods=["POST"])], lifespan=open_memory)
