"""The model server of `turnfold.testing` without patience: it checks requests as strictly as providers do."""

from __future__ import annotations

import json

from tests.models.strict_messages import check_messages
from tests.models.strict_rules import Refused, check_chat, check_responses
from turnfold.testing.model_replies import Body
from turnfold.testing.model_replies import ModelReply as Say
from turnfold.testing.model_replies import ReplyCall as Call
from turnfold.testing.model_replies import ReplyCost as Cost
from turnfold.testing.model_server import ANTHROPIC, RESPONSES, ModelServer
from turnfold.testing.model_server import ReplyBytes as Raw
from turnfold.testing.model_server import ReplyCut as Cut
from turnfold.testing.model_server import ReplyError as Refuse
from turnfold.testing.model_server import ReplyItem as Line
from turnfold.testing.model_server import ReplyStall as Stall
from turnfold.testing.model_server import ReplyTrouble as Trouble
from turnfold.testing.model_server import ServedRequest as Seen
from turnfold.testing.model_server import rough_tokens as roughly

__all__ = (
    "RESPONSES", "Body", "Call", "Cost", "Cut", "Line", "Raw", "Refuse", "Say", "Seen", "Stall", "StrictServer",
    "Trouble", "roughly",
)  # fmt: skip


class StrictServer(ModelServer):
    """Runs while it is entered; `url` is where."""

    def problem(self, provider: str, request: Seen, *, counting: bool) -> str:
        try:
            match provider:
                case "openai_chat":
                    check_chat(request.body)
                case "openai_responses":
                    check_responses(request.body)
                case _:
                    check_messages(request.body, counting=counting)
        except Refused as refused:
            return str(refused)
        return super().problem(provider, request, counting=counting)

    def refusal(self, provider: str, request: Seen, *, counting: bool) -> Refuse | None:
        if provider == ANTHROPIC and (refused := _missing_header(request)):
            return refused
        return super().refusal(provider, request, counting=counting)


_BETA_OF_EDIT = {
    "clear_thinking_20251015": "context-management-2025-06-27",
    "clear_tool_uses_20250919": "context-management-2025-06-27",
    "compact_20260112": "compact-2026-01-12",
}
"""Context edit -> the header it needs, in the order in which edits must be."""


def _missing_header(request: Seen) -> Refuse | None:
    body, headers = request.body, request.headers
    if "anthropic-version" not in headers:
        return Refuse(400, "anthropic-version: header is required")
    betas = headers.get("anthropic-beta", "").split(",")
    edits = [edit["type"] for edit in body.get("context_management", {}).get("edits", [])]
    if any(_BETA_OF_EDIT[each] not in betas for each in edits):
        return Refuse(400, "context_management: Extra inputs are not permitted")
    if edits != [each for each in _BETA_OF_EDIT if each in edits]:
        return Refuse(400, "context_management.edits: clear_thinking_20251015 must be first")
    if "compact-2026-01-12" not in betas and '"compaction"' in json.dumps(body.get("messages")):
        text = "messages: Input tag 'compaction' found using 'type' does not match any of the expected tags"
        return Refuse(400, text)
    return None
