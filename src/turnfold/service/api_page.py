"""The documentation page `/docs`: each operation with its parameters, bodies and a curl line, made from OpenAPI.

It is one static page without scripts and loads nothing from elsewhere, so it works offline and under a strict content
security policy. Like the OpenAPI document, it contains no stored data and needs no token.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final, cast

__all__ = ("PAGE_HEADERS", "PAGE_STYLE", "api_page", "curl_line", "sample_value")


_Schema = Mapping[str, object]
_REF: Final = "#/components/schemas/"
_DEEPEST: Final = 6
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "body": "Body",
        "default": "default",
        "errors": "Errors",
        "field": "field",
        "in": "in",
        "intro": "Set the address and a token, then copy a line. The machine-readable form is {link}.",
        "no token": "needs no token",
        "parameters": "Parameters",
        "required": "required",
        "response": "Response",
        "rights": "needs {rights}",
        "schemas": "Schemas",
        "try": "Try it",
        "type": "type",
        "yes": "yes",
    },
    "zh": {
        "body": "请求体",
        "default": "默认值",
        "errors": "错误",
        "field": "字段",
        "in": "位置",
        "intro": "设置地址和访问令牌，然后复制一行命令。机器可读的形式是 {link}。",
        "no token": "不需要访问令牌",
        "parameters": "参数",
        "required": "必填",
        "response": "响应",
        "rights": "需要权限 {rights}",
        "schemas": "数据结构",
        "try": "试一试",
        "type": "类型",
        "yes": "是",
    },
}
PAGE_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; --get: #1d7f3f; --post: #2550b8; --other: #b3261e; }
body {
  margin: 0 auto; max-width: 64rem; padding: 1rem 1.25rem 4rem;
  font: 15px/1.5 system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif;
}
h2 { margin-top: 2rem; border-bottom: 1px solid var(--line); }
nav a { margin-right: 1rem; }
details { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .35rem 0; overflow-wrap: anywhere; }
details > div { padding: 0 0 1rem 1.25rem; }
pre, code { font: 13px/1.45 ui-monospace, "SFMono-Regular", Menlo, monospace; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid var(--line); border-radius: 5px; white-space: pre-wrap; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
th, .soft { color: var(--soft); font-weight: 400; }
.method { display: inline-block; min-width: 4.2rem; font-weight: 700; color: var(--other); }
.get { color: var(--get); }
.post { color: var(--post); }
"""


def api_page(document: Mapping[str, object], language: str) -> bytes:
    """Return the documentation page of an OpenAPI document, in the language `en` or `zh`."""
    words = _WORDS[language]
    info = _object(document["info"])
    components = _object(_object(document["components"])["schemas"])
    families: dict[str, list[str]] = {}
    for path, method, operation in _operations(document):
        [family] = cast("Sequence[str]", operation["tags"])
        written = "".join(_operation(path, method, operation, components, words))
        families.setdefault(family, []).append(written)
    links = "".join(f'<a href="#family-{escape(each)}">{escape(each)}</a>' for each in families)
    parts = "".join(
        f'<h2 id="family-{escape(each)}">{escape(each)}</h2>{"".join(written)}'
        for each, written in families.items()
    )
    schemas = "".join(
        f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code> '
        f'<span class="soft">{escape(str(_object(shape).get("description", "")))}</span></summary>'
        f"<div>{_fields(_object(shape), words)}</div></details>"
        for name, shape in components.items()
    )
    intro = escape(words["intro"]).format(
        link='<a href="/v1/openapi.json"><code>/v1/openapi.json</code></a>'
    )
    return (
        f'<!DOCTYPE html>\n<html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(str(info["title"]))} API</title><link rel="stylesheet" href="/docs/style.css"></head><body>'
        f"<h1>{escape(str(info['title']))} API {escape(str(info['version']))}</h1>"
        f"<p>{intro}</p><pre>export TURNFOLD_URL=http://127.0.0.1:8787 TURNFOLD_TOKEN=...</pre>"
        f'<nav>{links}<a href="#schemas">{words["schemas"]}</a></nav>{parts}'
        f'<h2 id="schemas">{words["schemas"]}</h2>{schemas}</body></html>\n'
    ).encode()


def _operations(document: Mapping[str, object]) -> Iterator[tuple[str, str, _Schema]]:
    for path, methods in _object(document["paths"]).items():
        for method, operation in _object(methods).items():
            yield path, method.upper(), _object(operation)


def _operation(
    path: str, method: str, operation: _Schema, components: _Schema, words: Mapping[str, str]
) -> Iterator[str]:
    name = escape(str(operation["operationId"]))
    rights = cast("Sequence[str]", operation.get("x-rights", ()))
    need = words["rights"].format(rights=", ".join(rights)) if rights else words["no token"]
    yield (
        f'<details id="operation-{name}"><summary><span class="method {method.lower()}">{method}</span>'
        f"<code>{escape(path)}</code> {escape(str(operation['summary']))}</summary><div>"
        f'<p class="soft"><code>{name}</code> · {escape(need)}</p>'
    )
    parameters = [_object(each) for each in cast("Sequence[object]", operation["parameters"])]
    if parameters:
        heads = [words["field"], words["in"], words["type"], words["required"]]
        rows = [
            [
                f"<code>{escape(str(each['name']))}</code>",
                escape(str(each["in"])),
                _type(_object(each["schema"])),
                words["yes"] if each.get("required") else "",
            ]
            for each in parameters
        ]
        yield f"<h3>{words['parameters']}</h3>{_table(heads, rows)}"
    if body := _body(operation):
        yield f"<h3>{words['body']}</h3>{_fields(_resolved(body, components), words)}"
    yield f"<h3>{words['try']}</h3><pre>{escape(curl_line(path, method, operation, components))}</pre>"
    responses = _object(operation["responses"])
    shown = ", ".join(
        _type(_object(_object(each)["schema"])) if "schema" in _object(each) else escape(media)
        for media, each in _object(_object(responses["200"])["content"]).items()
    )
    yield f"<h3>{words['response']}</h3><p>{shown}</p>"
    faults = "; ".join(
        f"{status} {_object(each)['description']}"
        for status, each in responses.items()
        if status != "200"
    )
    yield f'<p class="soft">{words["errors"]}: {escape(faults)}</p></div></details>'


def curl_line(path: str, method: str, operation: _Schema, components: _Schema) -> str:
    """Return a curl command that calls the operation, with sample values for its required parameters and fields."""
    parameters = [_object(each) for each in cast("Sequence[object]", operation["parameters"])]
    query = [
        f"{each['name']}={sample_value(_object(each['schema']), components)}"
        for each in parameters
        if each["in"] == "query" and each.get("required")
    ]
    place = re.sub(r"{(\w+)}", lambda found: found[1].upper(), path)
    target = f"{place}?{'&'.join(query)}" if query else place
    parts = [
        f'curl -X {method} "$TURNFOLD_URL{target}"'
        if method != "GET"
        else f'curl "$TURNFOLD_URL{target}"'
    ]
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $TURNFOLD_TOKEN"')
    if method not in ("GET", "DELETE"):
        body = _body(operation)
        content: object = sample_value(body, components) if body else dict[str, object]()
        parts += ['-H "Content-Type: application/json"', f"-d {shlex.quote(json.dumps(content))}"]
    return " \\\n  ".join(parts)


def sample_value(schema: _Schema, components: _Schema, *, depth: int = 0) -> object:
    """Return a sample value that a JSON schema allows, for the documentation; objects have required fields only."""
    schema = _resolved(schema, components)
    if depth and schema.get("default") is not None:
        return schema["default"]
    if choices := schema.get("enum"):
        return cast("Sequence[object]", choices)[0]
    for option in _options(schema):
        if option.get("type") != "null":
            return sample_value(option, components, depth=depth + 1)
    match schema.get("type"):
        case "object":
            properties = _object(schema.get("properties"))
            names = cast("Sequence[str]", schema.get("required", ())) if depth < _DEEPEST else ()
            return {
                name: sample_value(_object(properties[name]), components, depth=depth + 1)
                for name in names
            }
        case "array":
            item = sample_value(_object(schema.get("items")), components, depth=depth + 1)
            return [item] * cast("int", schema.get("minItems", 0))
        case kind:
            return _sample_atom(str(kind), schema)


def _sample_atom(kind: str, schema: _Schema) -> object:
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("exclusiveMinimum", 0))
    if kind == "boolean":
        return True
    return "text".ljust(cast("int", schema.get("minLength", 0)), ".")


def _options(schema: _Schema) -> list[dict[str, object]]:
    options = cast("Sequence[object]", schema.get("anyOf") or schema.get("oneOf") or ())
    return [_object(each) for each in options]


def _body(operation: _Schema) -> _Schema | None:
    found = operation.get("requestBody")
    if found is None:
        return None
    [content] = _object(_object(found)["content"]).values()
    return _object(_object(content)["schema"])


def _resolved(schema: _Schema, components: _Schema) -> _Schema:
    while "$ref" in schema:
        schema = _object(components[str(schema["$ref"]).removeprefix(_REF)])
    return schema


def _fields(schema: _Schema, words: Mapping[str, str]) -> str:
    """Return the fields of an object schema as an HTML table; for any other schema its type."""
    properties = _object(schema.get("properties", {}))
    if not properties:
        return f"<p>{_type(schema)}</p>"
    required = cast("Sequence[str]", schema.get("required", ()))
    rows = [
        [
            f"<code>{escape(name)}</code>",
            _type(_object(shape)),
            words["yes"] if name in required else "",
            f"<code>{escape(json.dumps(_object(shape)['default'], ensure_ascii=False))}</code>"
            if _object(shape).get("default") is not None
            else "",
        ]
        for name, shape in properties.items()
    ]
    return _table([words["field"], words["type"], words["required"], words["default"]], rows)


def _type(schema: _Schema) -> str:
    """Return the type that a JSON schema allows as HTML, with links to the schemas that it refers to."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).removeprefix(_REF))
        return f'<a href="#schema-{name}"><code>{name}</code></a>'
    if choices := cast("Sequence[object]", schema.get("enum", ())):
        return " | ".join(f"<code>{escape(json.dumps(each))}</code>" for each in choices)
    if options := _options(schema):
        return " | ".join(map(_type, options))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"array of {_type(_object(schema.get('items', {})))}"
    limits = [
        f"{label} {schema[key]}"
        for key, label in (
            ("minimum", "≥"),
            ("exclusiveMinimum", ">"),
            ("maximum", "≤"),
            ("maxLength", "up to"),
        )
        if key in schema
    ]
    return escape(" ".join([kind, *limits]))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _object(value: object) -> dict[str, object]:
    """Return a JSON schema as an object; an empty object for the schemas `true` and `false`, which name no type."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
