"""What a message costs beyond its text: the markers a provider puts around roles, names, calls and tools.

Each set of constants names where it comes from. Plain chat framing is published for OpenAI and readable in the chat
templates of the open families: where one constant holds for every role and release, plain messages count exactly.
Where roles or releases differ, the largest is taken, and how a closed model spells tool calls and schemas is not
published at all: such constants are priced from above and make the count a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from turnfold.tokens.counts import Certainty

__all__ = (
    "ANTHROPIC",
    "DEEPSEEK",
    "GEMMA",
    "GENERIC",
    "GLM",
    "KIMI",
    "LLAMA",
    "MISTRAL",
    "OPENAI",
    "QWEN",
    "Framing",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """Tokens around the text, for one provider or model family."""

    name: str
    origin: str
    """The document or template the numbers were read from."""
    message: int
    """Around every message, its role included."""
    reply: int
    """Once per call: what opens the model's answer, with any start-of-text mark."""
    author: int = 1
    """Beside an author's name."""
    call: int = 12
    """Around each tool call."""
    result: int = 10
    """Around each tool result."""
    schema: int = 16
    """Around each tool schema."""
    toolset: int = 16
    """Once, when there are tools at all."""
    certainty: Certainty = Certainty.EXACT
    """Of plain messages. With calls, results or schemas it is at best a bound."""

    def scaled(self, factor: float) -> Framing:
        """The same framing for a provider that reports so many times as much, rounded up."""
        prices = {
            price: math.ceil(getattr(self, price) * factor)
            for price in ("message", "reply", "author", "call", "result", "schema", "toolset")
        }
        return replace(self, name=f"{self.name}*{factor:g}", certainty=Certainty.ESTIMATE, **prices)


OPENAI = Framing(
    name="openai",
    origin="OpenAI Cookbook, 'How to count tokens with tiktoken': 3 per message + the role's one token, 1 per name, "
    "3 for the reply. Calls and results: the published harmony format (<|start|>assistant to=functions.NAME"
    "<|channel|>commentary json<|message|>...<|call|>), priced from above. Schemas: their JSON, which is longer than "
    "the TypeScript-like form the models are shown.",
    message=4,
    reply=3,
)
LLAMA = Framing(
    name="llama",
    origin="Llama 3 prompt format: <|start_header_id|>role<|end_header_id|>\\n\\n ... <|eot_id|>; <|begin_of_text|> "
    "once. A server that adds the date to the system message adds to this.",
    message=5,
    reply=5,
)
QWEN = Framing(
    name="qwen",
    origin="Qwen chat template (ChatML): <|im_start|>role\\n ... <|im_end|>\\n; calls inside <tool_call> tags",
    message=5,
    reply=3,
    call=16,
)
DEEPSEEK = Framing(
    name="deepseek",
    origin="DeepSeek chat templates: one role mark for the user, none for the system, a role mark and an end mark for "
    "the assistant and, from V3.1 on, </think> before it answers; a start mark once",
    message=3,
    reply=3,
    call=20,
    certainty=Certainty.BOUND,
)
GEMMA = Framing(
    name="gemma",
    origin="Gemma chat template: <start_of_turn>role\\n ... <end_of_turn>\\n; <bos> once. A system message goes into "
    "the first turn and costs less. Gemini's framing is not published; its own counter adds none.",
    message=5,
    reply=4,
    certainty=Certainty.BOUND,
)
MISTRAL = Framing(
    name="mistral",
    origin="Mistral Tekken instruct format: [INST] ... [/INST], [SYSTEM_PROMPT] ... [/SYSTEM_PROMPT], or only ... </s> "
    "for the assistant; <s> once",
    message=2,
    reply=1,
    certainty=Certainty.BOUND,
)
GLM = Framing(
    name="glm",
    origin="GLM-4 chat templates: <|role|>\\n per message and, from 4.5 on, <think></think>\\n before the assistant "
    "answers; [gMASK]<sop> once",
    message=5,
    reply=7,
    certainty=Certainty.BOUND,
)
KIMI = Framing(
    name="kimi",
    origin="Kimi K2 chat templates: <|im_role|>role<|im_middle|> ... <|im_end|>, with <think></think> before the "
    "assistant answers from K2.5 on",
    message=6,
    reply=5,
    call=16,
    certainty=Certainty.BOUND,
)
ANTHROPIC = Framing(
    name="anthropic",
    origin="Anthropic, 'Tool use with Claude': 346 tokens of tool-use system prompt when tools are present; the rest "
    "is not published and priced from above",
    message=6,
    reply=6,
    toolset=346,
    certainty=Certainty.ESTIMATE,
)
GENERIC = Framing(
    name="generic",
    origin="the largest framing of the known families",
    message=6,
    reply=7,
    call=20,
    toolset=346,
    certainty=Certainty.ESTIMATE,
)
