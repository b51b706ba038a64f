"""No answer of the service is larger than a limit, whatever a tenant has stored and asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.operation_requests import asked, fill
from tests.service.running import running
from turnfold.api import OPERATIONS, Events, PlainText
from turnfold.memory import recall as recall_module
from turnfold.service import ServiceOptions
from turnfold.service import limits as limits_module

SMALL = 30


def test_every_answer_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operation is asked, so that no new one can have answers of any size."""
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    fill(store)
    refused: set[str] = set()
    with running(ServiceOptions(store=store, tenant="acme")) as service, service.client() as client:
        monkeypatch.setattr(limits_module, "_LARGEST_ANSWER", SMALL)
        for operation in sorted(OPERATIONS, key=lambda one: one.writes):  # reads before deletions
            if operation.answer in (Events, PlainText):
                continue
            status, text = asked(client, operation)
            told = text.partition("Headers(")[0]
            if status < 300:
                assert len(told.encode()) <= SMALL, operation.name
            elif status == 413:
                assert json.loads(told)["fields"]["allowed"] == SMALL
                assert "ask for less" in json.loads(told)["detail"]
                refused.add(operation.name)
    assert {"history", "turn", "context", "recall", "checkpoints", "snapshot", "calls"} <= refused
    assert {"state", "pins", "rules", "findings", "checkpoint_history", "explain"} <= refused


@pytest.mark.parametrize("name", ["context", "preview"])
@pytest.mark.parametrize("budget", [{"max_tokens": 10**7 + 1}, {"context_window": 10**9}])
def test_a_budget_that_takes_a_whole_log_is_refused(
    tmp_path: Path, name: str, budget: dict[str, Any]
) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as client:
        client.post("/v1/sessions/s/user", json={"content": "hi 你好"})
        told = client.post(f"/v1/sessions/s/{name}", json={"budget": budget})
        assert (told.status_code, told.json()["type"]) == (
            422,
            "urn:turnfold:problem:invalid-budget",
        )
        assert "10,000,000" in told.json()["detail"]
        fits = client.post(f"/v1/sessions/s/{name}", json={"budget": {"max_tokens": 10**7}})
        assert fits.status_code == 200


def test_a_recall_of_large_entries_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 entries of a megabyte each were read before one of them was sent."""
    monkeypatch.setattr(recall_module, "_MOST_READ", 10_000)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as client:
        for number in range(8):
            text = f"parcel {number} {'word ' * 600}"
            client.post("/v1/sessions/s/user", json={"content": text}).raise_for_status()
        few = client.post("/v1/sessions/s/recall", json={"query": "parcel", "tokens": 500})
        assert few.status_code == 200
        told = client.post("/v1/sessions/s/recall", json={"query": "parcel", "limit": 100})
        assert told.status_code == 413
        assert "limit=100" in told.json()["detail"]
