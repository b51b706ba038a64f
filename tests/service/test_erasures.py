"""Erasing over HTTP, with the client and by command: each tenant its own, with a receipt that the service checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.seeded import invoke, invoke_json
from tests.service.running import make_tokens, running
from turnfold.client import RemoteMemory
from turnfold.errors import AccessDenied, InvalidOption, NotFound
from turnfold.memory import Memory
from turnfold.records import Message
from turnfold.service import ServiceOptions

ALL = ["read", "write"]


def filled(store: str, tenant: str) -> None:
    with Memory(store, scope=tenant) as memory:
        for name, user in (("one", "ann"), ("two", "ann"), ("three", "博")):
            memory.session(name).add(Message("user", "hi 你好", metadata={"user_id": user}))


def test_a_service_erases_what_is_the_tenants_and_nothing_else(tmp_path: Path) -> None:
    store, file = f"sqlite:///{tmp_path / 'chat.db'}", tmp_path / "tokens.json"
    for tenant in ("acme", "other"):
        filled(store, tenant)
    tokens = make_tokens(
        file, ("acme", "acme", ALL), ("other", "other", ALL), ("writer", "acme", ["write"])
    )
    with (
        running(ServiceOptions(store=store, tokens_file=file)) as service,
        RemoteMemory(service.url, token=tokens["acme"]) as memory,
        RemoteMemory(service.url, token=tokens["other"]) as other,
        RemoteMemory(service.url, token=tokens["writer"]) as writer,
    ):
        for who in (memory, other):
            with pytest.raises(InvalidOption, match="this memory belongs to another tenant than"):
                who.erase_tenant("acme" if who is other else "other")
        with pytest.raises(AccessDenied):
            writer.erase_user("ann")
        receipt = memory.erase_session("one")
        assert [each.entries for each in receipt.conversations] == [1]
        for nobody in ("never used", "无人"):
            with pytest.raises(NotFound, match=f"no session '{nobody}'"):
                memory.erase_session(nobody)
            with pytest.raises(NotFound, match=f"no session of user '{nobody}'"):
                memory.erase_user(nobody)
        ann = memory.erase_user("ann")
        assert len(ann.conversations) == 1
        assert memory.verify_erasure(ann).ok
        whole = memory.erase_tenant("acme")
        assert (len(whole.conversations), memory.conversations()) == (1, [])
        check = memory.verify_erasure(whole)
        assert (check.ok, check.searched) == (True, 0)
        assert len(other.conversations()) == 3
        with service.client(tokens["acme"]) as client:
            answer = client.post("/v1/erasures", json={"kind": "everything", "id": "x"})
            assert answer.status_code == 422
            answer = client.post("/v1/erasures", json={"kind": "user", "id": "ann"})
            assert answer.status_code == 404


def test_a_command_erases_and_checks_its_receipt(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    filled(store, "default")
    refused = invoke(["delete", "one", "--store", store])
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    unknown = invoke(["delete", "on", "--yes", "--store", store])
    assert "whole id" in unknown.stderr
    assert "sessions erased: 1" in invoke(["delete", "one", "--yes", "--store", store]).stdout
    receipt = invoke_json(["delete", "--user", "ann", "--yes", "--store", store])
    assert (receipt["kind"], len(receipt["conversations"])) == ("user", 1)
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt), encoding="utf-8")
    checked = invoke(["delete", "--verify", str(file), "--store", store])
    assert checked.exit_code == 0
    told = "checked 1 session of the receipt: none of them is among the 1 session of the store"
    assert told in checked.stdout
    receipt["at"] += 1
    file.write_text(json.dumps(receipt), encoding="utf-8")
    altered = invoke(["delete", "--verify", str(file), "--store", store])
    assert (altered.exit_code, "altered" in altered.stdout) == (1, True)
    file.write_text("[]", encoding="utf-8")
    assert "not a receipt" in invoke(["delete", "--verify", str(file), "--store", store]).stderr
    both = invoke(["delete", "three", "--all", "--yes", "--store", store])
    assert "give exactly one of" in both.stderr
    assert "sessions erased: 1" in invoke(["delete", "--all", "--yes", "--store", store]).stdout
    with Memory(store) as memory:
        assert memory.conversations() == []


@pytest.mark.parametrize("user", ["user-42", "用户-42"])
def test_a_command_erases_what_has_the_id_of_the_user(tmp_path: Path, user: str) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(store) as memory:
        for name in (f"{user}/trip", f"{user}/签证", "user-7/trip"):
            memory.session(name).user("My number is 20931. 病历号")
    asked = invoke(["delete", "--user", user, "--store", store])
    assert f"erases all sessions of user '{user}'" in asked.stderr
    unknown = invoke(["delete", "--user", "user", "--yes", "--store", store])
    assert (unknown.exit_code, unknown.stdout) == (3, "")
    assert "no session of user 'user'" in unknown.stderr
    receipt = invoke_json(["delete", "--user", user, "--yes", "--store", store])
    assert len(receipt["conversations"]) == 2
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt), encoding="utf-8")
    verify = ["delete", "--verify", str(file), "--store", store]
    assert invoke(verify).exit_code == 0
    with Memory(store) as memory:
        assert [hit.conversation for hit in memory.search("20931 病历号")] == ["user-7/trip"]
    file.write_text(json.dumps({**receipt, "conversations": []}), encoding="utf-8")
    nothing = invoke(verify)
    assert (nothing.exit_code, "in the store" in nothing.stdout) == (1, False)
    assert "the receipt names no session" in nothing.stdout
