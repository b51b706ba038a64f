"""An invented conversation in Anthropic's format, with every kind of block that one can meet there."""

from __future__ import annotations

from typing import Any

from tests.wire.sample_pixel import PIXEL

__all__ = ("ANTHROPIC",)

ANTHROPIC: dict[str, Any] = {
    "system": [
        {"type": "text", "text": "You help in a small library."},
        {
            "type": "text",
            "text": "请用读者的语言回答。",
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        },
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Which shelf holds 《红楼梦》?"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                },
                {
                    "type": "image",
                    "source": {"type": "url", "url": "https://example.org/shelf.jpg"},
                },
                {"type": "image", "source": {"type": "file", "file_id": "file_011"}},
                {
                    "type": "document",
                    "source": {
                        "type": "base64",
                        "media_type": "application/pdf",
                        "data": "JVBERi0=",
                    },
                    "title": "Catalogue",
                    "citations": {"enabled": True},
                },
                {
                    "type": "document",
                    "source": {
                        "type": "text",
                        "media_type": "text/plain",
                        "data": "Shelf 9: classics",
                    },
                    "title": "Plan",
                },
                {
                    "type": "search_result",
                    "source": "https://example.org/hours",
                    "title": "Hours",
                    "content": [{"type": "text", "text": "Open until nine."}],
                },
                {"type": "container_upload", "file_id": "file_012"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look it up first.", "signature": "c2lnbmVk"},
                {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"},
                {"type": "text", "text": "Let me look.", "citations": None},
                {
                    "type": "server_tool_use",
                    "id": "srvtoolu_01",
                    "name": "web_search",
                    "input": {"query": "红楼梦"},
                },
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_01",
                    "content": [
                        {
                            "type": "web_search_result",
                            "url": "https://example.org/hlm",
                            "title": "红楼梦",
                            "encrypted_content": "RW5j",
                            "page_age": None,
                        }
                    ],
                },
                {
                    "type": "tool_use",
                    "id": "toolu_01",
                    "name": "find_book",
                    "input": {"title": "红楼梦", "exact": True, "n": 1.0},
                    "caller": {"type": "direct"},
                },
                {"type": "tool_use", "id": "toolu_02", "name": "opening_hours", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01",
                    "content": [
                        {"type": "text", "text": "shelf 9"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                        },
                    ],
                    "is_error": False,
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_02",
                    "content": "timed out",
                    "is_error": True,
                },
                {"type": "text", "text": "Quick, please."},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "type": "compaction",
                    "content": "The reader asked for shelf 9.",
                    "encrypted_content": "Q29t",
                },
                {
                    "type": "text",
                    "text": "九号书架。",
                    "citations": [
                        {
                            "type": "char_location",
                            "cited_text": "Shelf 9",
                            "document_index": 1,
                            "document_title": "Plan",
                            "start_char_index": 0,
                            "end_char_index": 7,
                        }
                    ],
                },
            ],
        },
        {"role": "user", "content": "谢谢! And a new kind of block:"},
        {"role": "system", "content": "From now on be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Ready?"}]},
        {
            "role": "user",
            "content": [{"type": "invented_block", "payload": {"deep": [1, None, {"a": "b"}]}}],
        },
    ],
}
