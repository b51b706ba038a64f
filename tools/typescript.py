"""Writes what the TypeScript client is made from: the OpenAPI document, and a table of the operations.

`python -m tools.typescript` writes `clients/typescript/build/openapi.json` and `clients/typescript/src/operations.ts`.
"""

from __future__ import annotations

import json
from pathlib import Path

from turnfold.api import OPERATIONS
from turnfold.service.app import openapi

__all__ = ("main",)

CLIENT = Path(__file__).parents[1] / "clients" / "typescript"


def main() -> None:
    """Write both files."""
    document = CLIENT / "build" / "openapi.json"
    document.parent.mkdir(exist_ok=True)
    document.write_text(json.dumps(openapi(OPERATIONS), ensure_ascii=False), encoding="utf-8")
    lines = [
        f"  {each.name}: [{json.dumps(each.method)}, {json.dumps(each.path)}, {json.dumps(each.keyed or each.grows)}],"
        for each in OPERATIONS
    ]
    table = CLIENT / "src" / "operations.ts"
    table.write_text(
        "\n".join(
            [
                "/** Method, path and need of an idempotency key of each operation; made from the service. */",
                "export const OPERATIONS = {",
                *lines,
                "} as const;",
                "",
            ]
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
