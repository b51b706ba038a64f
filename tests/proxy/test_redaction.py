"""With `redact`, no secret of a client's history is stored, and histories are recognised as without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.proxy.running import Arrived, Told, log_of, served, texts_of
from tests.proxy.test_histories import answered, ask, parrot, user
from tests.proxy.test_transparency import completion
from turnfold.redaction import Redactor

KEY = "sk-proj-" + "Ab3dEf6hIj9kLm2n" * 3
MAIL = "dana.wu@example.com"
SYSTEM = {"role": "system", "content": f"Mail the report to {MAIL}."}
REDACTOR = Redactor(key=b"k" * 32)


def stored_bytes(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file())


def test_no_secret_is_stored_and_the_provider_gets_what_was_sent(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    history = [SYSTEM, user(f"My key is {KEY}, use it.")]
    with served(parrot, store=store, redact=REDACTOR) as (provider, http):
        for text in ("b", f"again {KEY}", "d"):
            ask(http, history)
            history += [answered(f"re: {history[-1]['content']}"), user(text)]
        ask(http, history)
    assert [each.body["messages"] for each in provider.seen][-1] == history
    for secret in (KEY, MAIL):
        assert secret.encode() not in stored_bytes(tmp_path)
    texts = texts_of(store, "one")
    assert len(texts) == 8
    assert texts[0] == "My key is [redacted: api key 1], use it."
    assert texts[4] == "again [redacted: api key 1]"
    assert log_of(store, "one")[0].message.text == "Mail the report to [redacted: email 1]."


def test_a_new_process_recognises_the_redacted_log(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    first = [SYSTEM, user(f"My key is {KEY}.")]
    with served(parrot, store=store, redact=REDACTOR) as (_, http):
        ask(http, first)
    with served(parrot, store=store, redact=REDACTOR) as (_, http):
        again = [*first, answered(f"re: My key is {KEY}."), user("next")]
        assert ask(http, again) == "one"
    assert len(texts_of(store, "one")) == 4


def test_a_shortened_request_has_the_clients_own_messages(tmp_path: Path) -> None:
    """The window is sent as the client wrote it; what was folded has labels."""
    store = f"sqlite:///{tmp_path}/a.db"
    filler = [
        each
        for n in range(30)
        for each in (user(f"step {n} " + "word " * 40), answered(f"done {n}"))
    ]
    history = [SYSTEM, user(f"old key {KEY}"), answered("ok"), *filler, user(f"new mail {MAIL}")]
    with served(parrot, store=store, redact=REDACTOR, budget=1_500) as (provider, http):
        for _ in range(2):
            ask(http, history)
    for arrived in provider.seen:
        sent = arrived.body["messages"]
        assert len(sent) < len(history)
        assert sent[0] == SYSTEM
        assert sent[-1] == history[-1]
        assert KEY not in json.dumps(sent[1:-1])
    assert KEY.encode() not in stored_bytes(tmp_path)


def test_an_answer_with_a_secret_is_stored_redacted(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"

    def tell(_: Arrived) -> Told:
        return Told(completion(f"the key is {KEY}"))

    with served(tell, store=store, redact=REDACTOR) as (provider, http):
        history: list[Any] = [user("what is it?")]
        ask(http, history)
        text = f"the key is {KEY}"
        assert ask(http, [*history, answered(text), user("thanks")]) == "one"
    assert texts_of(store, "one")[:3] == [
        "what is it?",
        "the key is [redacted: api key 1]",
        "thanks",
    ]
    assert KEY.encode() not in stored_bytes(tmp_path)
    assert provider.seen[-1].body["messages"][1]["content"] == text
