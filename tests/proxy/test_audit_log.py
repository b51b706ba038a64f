"""`turnfold proxy --audit-log --redact`: who sent what to which conversation; no content in the log or the store."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from tests.proxy.running import PATIENCE, Recorder, client
from tests.proxy.test_histories import parrot, user
from tests.proxy.test_transparency import CHAT
from tests.service.running import make_tokens
from turnfold.stores import log_mark

KEY = "sk-proj-" + "Ab3dEf6hIj9kLm2n" * 3


def test_the_command_records_every_authorized_request(tmp_path: Path) -> None:
    log, tokens = tmp_path / "audit.jsonl", tmp_path / "tokens.json"
    made = make_tokens(tokens, ("app", "acme", ["read", "write"]), ("look", "acme", ["read"]))
    with Recorder(parrot) as provider:
        words = ["proxy", "--upstream", provider.url, "--store", f"{tmp_path}/a.db", "--port", "0"]
        words += ["--audit-log", str(log), "--redact", "--tokens-file", str(tokens)]
        process = subprocess.Popen(
            [sys.executable, "-m", "turnfold", *words, "--budget", "900"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TURNFOLD_REDACTION_KEY": "long enough for a key"},
        )
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split("listening on ")[1].strip()
            with client(url) as http:

                def post(token: str, text: str, path: str = f"/s/Dana{CHAT}", **more: str) -> int:
                    function = {"name": "search", "description": "word " * 2_000}
                    tools = [{"type": "function", "function": function}] if text == "large" else []
                    body = {"model": "gpt-4o", "messages": [user(text)], "tools": tools}
                    headers = {"x-turnfold-token": token, **more}
                    return http.post(path, json=body, headers=headers).status_code

                named = {"x-request-id": "r-1"}
                assert post(made["app"], f"my key is {KEY}", **named) == 200
                assert post(made["look"], "hi") == 403
                assert post("tf_app_wrong", "hi") == 401
                assert post(made["app"], "large") == 400  # stored, and too large to be sent
                assert post(made["app"], "hi", CHAT) == 200
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE)
        assert KEY in provider.seen[0].raw.decode()
    found = [json.loads(line) for line in log.read_text().splitlines()]
    dana = log_mark("acme", "Dana")
    fields = "token operation conversation status".split()
    assert [tuple(each[name] for name in fields) for each in found] == [
        ("app", "model_call openai_chat", dana, 200),
        ("look", "refused", "", 403),
        ("app", "model_call openai_chat", dana, 400),
        ("app", "pass_through", "", 200),
    ]
    assert found[0]["request_id"] == "r-1"
    assert len({each["request_id"] for each in found}) == 4
    assert {each["tenant"] for each in found} == {"acme"}
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    written = b"".join(each.read_bytes() for each in tmp_path.glob("a.db*"))
    assert b"[redacted: " in written
    assert KEY.encode() not in written
    assert not any(word in log.read_text() for word in ("Dana", KEY, made["app"]))
