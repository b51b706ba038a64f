"""What models answer in the tests of the memory module, and what they were asked."""

from __future__ import annotations

import json

from turnfold import assistant
from turnfold.records import Message
from turnfold.testing import ScriptedModel

__all__ = ("CONTEXTS", "SUMMARIES", "prompt", "recalling", "summarised", "three_turns")

CONTEXTS = (
    """
      Files: [main.ts, utils.ts, config.ts]
      Content of main.ts: ...
      Content of utils.ts: ...
      State: { initialized: true }
    """,
    """
      Files: [main.ts, utils.ts, config.ts, benchmark.ts]
      Content of benchmark.ts: ...
      State: { initialized: true, benchmarked: true }
    """,
    """
      Files: [main.ts, utils.ts, config.ts, benchmark.ts]
      Content of utils.ts: ... (已优化)
      State: { initialized: true, benchmarked: true, optimized: true }
    """,
)
"""The document's three turns, word for word."""
SUMMARIES = ("分析了代码库结构", "发现性能瓶颈", "实施了优化")


def summarised(summary: str, *insights: str) -> str:
    """The object a model answers with when it is asked for a summary."""
    return json.dumps({"summary": summary, "insights": list(insights)}, ensure_ascii=False)


def recalling(call: str, **arguments: object) -> Message:
    """An answer that asks for earlier contexts."""
    function = {"name": "recall_context", "arguments": json.dumps(arguments, ensure_ascii=False)}
    return assistant(tool_calls=[{"id": call, "type": "function", "function": function}])


def three_turns() -> ScriptedModel:
    """A model that summarises the document's three turns, without rounds."""
    first = summarised("分析了代码库结构", "3个模块", "main.ts是入口")
    return ScriptedModel([first, *map(summarised, SUMMARIES[1:])])


def prompt(model: ScriptedModel, number: int) -> str:
    """All that the model was sent the n-th time, from 0."""
    return "\n".join(message.text for message in model.asked[number].messages)
