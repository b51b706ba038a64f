"""客服智能体：自己写的工具循环，官方 OpenAI SDK。A support agent in Chinese: a tool loop of its own over OpenAI's SDK.

    python -m examples.customer_service 客户-42 "我的订单 A-1007 到哪里了？"

需要 `pip install ".[openai]"` 和 OPENAI_API_KEY。默认存于 SQLite 文件；生产环境可用 PostgreSQL 与 Redis：

    TURNFOLD_STORE=postgresql://... TURNFOLD_CACHE=redis://... python -m examples.customer_service ...
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from openai import OpenAI

from turnfold import Budget, Memory, Session
from turnfold.records import ToolCall
from turnfold.wire import openai_chat

MODEL = os.environ.get("TURNFOLD_MODEL", "gpt-4o")
ORDERS = {"A-1007": "已发货，预计明天送达", "A-1008": "等待付款"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "order_status",
            "description": "查询订单状态",
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "string", "description": "订单号"}},
                "required": ["order"],
            },
        },
    }
]
MOST_STEPS = 8


def order_status(order: str) -> str:
    """Return the status of an order."""
    return ORDERS.get(order, f"没有订单 {order}")


def run_tool(call: ToolCall) -> str:
    """Run a tool call; a mistake of the model is an answer to it, not an error."""
    try:
        return order_status(**json.loads(call.arguments))
    except (TypeError, ValueError) as error:
        return f"参数有误：{error}"


def reply(session: Session, client: OpenAI, said: str) -> str:
    """Answer one message of a customer; every step is in the log before the next one begins."""
    session.system("你是耐心的客服。先查订单，再回答。")
    session.user(said)
    for _ in range(MOST_STEPS):
        request = openai_chat.request(session.context(tools=TOOLS), model=MODEL, tools=TOOLS)
        session.add(client.chat.completions.create(**request.kwargs, stream=False))
        message = session.history()[-1].message
        if not message.calls:
            return message.text
        for call in message.calls:
            session.tool(run_tool(call), tool_call_id=call.id)
    return "抱歉，这个问题我需要转给同事。"


def main(arguments: Sequence[str]) -> None:
    """Answer the message of the command line."""
    if len(arguments) != 2:
        sys.exit('用法：python -m examples.customer_service 客户-42 "我的订单 A-1007 到哪里了？"')
    customer, said = arguments
    store = os.environ.get("TURNFOLD_STORE", "sqlite:///service.db")
    budget = Budget(max_tokens=4_000)
    cache = os.environ.get("TURNFOLD_CACHE")
    with Memory(store, cache=cache, model=MODEL, budget=budget) as memory, OpenAI() as client:
        print(reply(memory.session(customer), client, said))


if __name__ == "__main__":
    main(sys.argv[1:])
