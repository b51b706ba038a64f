"""Invented conversations in Gemini's format, in both spellings of its keys, with every kind of part."""

from __future__ import annotations

from typing import Any

from tests.wire.sample_pixel import PIXEL

__all__ = ("GEMINI", "GEMINI_SNAKE")

GEMINI: dict[str, Any] = {
    "config": {
        "systemInstruction": {
            "parts": [{"text": "You help in a small library. 请用读者的语言回答。"}]
        }
    },
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "Which shelf holds 《红楼梦》?"},
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
                {
                    "inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="},
                    "videoMetadata": {"fps": 1},
                },
                {
                    "fileData": {
                        "mimeType": "image/jpeg",
                        "fileUri": "https://example.org/shelf.jpg",
                    }
                },
                {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/tour.mp4"}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Look it up first.", "thought": True},
                {"text": "Let me look.", "thoughtSignature": "dGV4dA=="},
                {
                    "functionCall": {"name": "find_book", "args": {"title": "红楼梦", "n": 1.0}},
                    "thoughtSignature": "Y2FsbA==",
                },
                {"functionCall": {"name": "find_book", "args": {}}},
                {"functionCall": {"name": "opening_hours", "id": "fc-1"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "find_book", "response": {"output": "shelf 9"}}},
                {"functionResponse": {"name": "find_book", "response": {"shelf": 8, "free": True}}},
                {
                    "functionResponse": {
                        "name": "opening_hours",
                        "id": "fc-1",
                        "response": {"error": "timed out"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
                    }
                },
            ],
        },
        {
            "role": "model",
            "parts": [
                {"executableCode": {"language": "PYTHON", "code": "print(9)"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "9"}},
                {"toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH", "args": {"q": "红"}}},
                {"toolResponse": {"id": "t1", "toolType": "GOOGLE_SEARCH", "response": {"r": []}}},
                {"text": "九号书架。"},
                {"text": "", "thoughtSignature": "bGFzdA=="},
            ],
        },
        {"parts": [{"text": "谢谢!"}]},
    ],
}

GEMINI_SNAKE: dict[str, Any] = {
    "config": {"system_instruction": "You help in a small library."},
    "contents": [
        {
            "role": "user",
            "parts": [{"text": "Look"}, {"inline_data": {"mime_type": "image/png", "data": PIXEL}}],
        },
        {
            "role": "model",
            "parts": [
                {
                    "function_call": {"name": "find_book", "args": {"mime_type": "kept"}},
                    "thought_signature": "Y2FsbA==",
                }
            ],
        },
        {
            "role": "user",
            "parts": [
                {"function_response": {"name": "find_book", "response": {"output": "shelf 9"}}}
            ],
        },
    ],
}
