"""Invented conversations in OpenAI's two formats, with every kind of block and item that one can meet there."""

from __future__ import annotations

from typing import Any

from tests.wire.sample_pixel import PIXEL

__all__ = ("CHAT", "RESPONSES")

CHAT: dict[str, Any] = {
    "messages": [
        {"role": "developer", "content": "You help in a small library."},
        {"role": "system", "content": [{"type": "text", "text": "请用读者的语言回答。"}]},
        {
            "role": "user",
            "name": "dana",
            "content": [
                {"type": "text", "text": "Which shelf holds 《红楼梦》?"},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
                },
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                {"type": "file", "file": {"file_id": "file-9"}},
                {
                    "type": "file",
                    "file": {
                        "filename": "plan.pdf",
                        "file_data": "data:application/pdf;base64,JVBERi0=",
                    },
                },
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "reasoning_content": "Look it up first.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "find_book", "arguments": '{"title": "红楼梦"}'},
                },
                {
                    "id": "call_2",
                    "type": "function",
                    "function": {"name": "opening_hours", "arguments": "{}"},
                },
                {"id": "call_3", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}},
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "call_2",
            "content": [{"type": "text", "text": "until nine"}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "shelf 9", "name": "find_book"},
        {"role": "tool", "tool_call_id": "call_3", "content": ""},
        {"role": "assistant", "content": "九号书架。", "audio": {"id": "audio_1"}},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot say more."}]},
        {"role": "user", "content": "谢谢!"},
        {
            "role": "assistant",
            "function_call": {"name": "close", "arguments": "{}"},
            "content": None,
        },
        {"role": "function", "name": "close", "content": "closed"},
    ],
}

RESPONSES: dict[str, Any] = {
    "instructions": "You help in a small library.",
    "input": [
        {"role": "developer", "content": "请用读者的语言回答。"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Which shelf holds 《红楼梦》?"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{PIXEL}",
                    "detail": "low",
                },
                {"type": "input_image", "file_id": "file-7", "detail": "auto"},
                {"type": "input_file", "file_id": "file-9"},
                {
                    "type": "input_file",
                    "filename": "plan.pdf",
                    "file_data": "data:application/pdf;base64,JVBERi0=",
                },
                {"type": "input_file", "file_url": "https://example.org/plan.pdf"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "Look."},
                {"type": "summary_text", "text": "Then answer."},
            ],
            "encrypted_content": "Z0FBQUFB",
            "status": None,
        },
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "红楼梦"},
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "find_book",
            "arguments": '{"title": "红楼梦"}',
            "status": "completed",
        },
        {
            "type": "function_call",
            "id": "fc_2",
            "call_id": "call_2",
            "name": "opening_hours",
            "arguments": "{}",
        },
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "call_3",
            "name": "shell",
            "input": "ls -l",
        },
        {
            "type": "computer_call",
            "id": "cu_1",
            "call_id": "call_4",
            "action": {"type": "screenshot"},
            "pending_safety_checks": [],
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "call_2", "output": "until nine"},
        {
            "type": "function_call_output",
            "id": "fco_1",
            "call_id": "call_1",
            "output": [
                {"type": "input_text", "text": "shelf 9"},
                {
                    "type": "input_image",
                    "image_url": "https://example.org/shelf.jpg",
                    "detail": "auto",
                },
            ],
        },
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "total 0"},
        {
            "type": "computer_call_output",
            "call_id": "call_4",
            "output": {
                "type": "computer_screenshot",
                "image_url": f"data:image/png;base64,{PIXEL}",
            },
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": "九号书架。",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://example.org",
                            "start_index": 0,
                            "end_index": 2,
                            "title": "红",
                        }
                    ],
                    "logprobs": [],
                },
                {"type": "refusal", "refusal": "I cannot say more."},
            ],
        },
        {"role": "user", "content": "谢谢!"},
        {"role": "assistant", "content": "不客气。"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "Q29tcA=="},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "shelf", "tools": []},
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "count",
            "server_label": "shelf",
            "arguments": "{}",
            "output": "9",
        },
        {"type": "shell_call", "id": "sh_1", "call_id": "call_5", "action": {"commands": ["ls"]}},
        {
            "type": "shell_call_output",
            "call_id": "call_5",
            "output": [
                {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
            ],
        },
        {"type": "item_reference", "id": "msg_0"},
        {
            "type": "program",
            "id": "pr_1",
            "call_id": "call_6",
            "code": "print(1)",
            "fingerprint": "f",
        },
        {
            "type": "program_output",
            "id": "po_1",
            "call_id": "call_6",
            "result": "1",
            "status": "completed",
        },
        {"role": "user", "content": [{"type": "input_text", "text": "再见"}]},
    ],
}
