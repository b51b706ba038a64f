"""Chinese translations of the reasons in receipts (context reports) and comparisons, which are stored in English.

A reason that is not in the table is shown in English.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

__all__ = ("REASONS", "translate_reason")


_JOIN: Final = "; "
_WORDS: Final[Mapping[str, str]] = {
    "none": "（无）",
    "system": "系统",
    "rules": "规则",
    "pins": "固定项",
    "pinned": "固定项",
    "state": "状态",
    "recalled": "召回的段落",
    "findings": "工具所得",
    "workspace": "工作区",
}
"""Chinese for the words that stand in a reason as values: names of sections and blocks, and "none" for a missing
name."""
REASONS: Final[Mapping[str, str]] = {
    "before the anchor": "在锚点之前",
    "cleared by the caller": "已由调用方清除",
    "checkpoint {new} is shown instead of {old}": "检查点由 {old} 变为 {new}",
    "everything before it was folded or cleared": "此前的内容都已折叠或清除",
    "folded into checkpoint {id}": "已折叠进检查点 {id}",
    "it has no content: the provider would refuse it": "没有内容：服务商会拒绝",
    "its call comes earlier: sent right after it, as the provider requires": (
        "它的调用在前面：按服务商的要求紧跟其后发送"
    ),
    "its call is before the anchor": "它的调用在锚点之前",
    "no result for call {id} of {name} in the log": "日志中没有 {name} 的调用 {id} 的结果",
    "not folded yet: an extract stands in for it in the summary": "尚未折叠：摘要中由摘录代替",
    "older than a budget of {tokens} tokens holds": "早于 {tokens} token 的预算所能容纳",
    "outside the newest {kept} messages": "在最新的 {kept} 条消息之外",
    "outside the newest {kept} turns": "在最新的 {kept} 个轮次之外",
    "over budget": "超出预算",
    "over budget: cut to the low mark of {tokens} tokens": "超出预算：裁剪到低水位 {tokens} token",
    "over budget: folded into the summary": "超出预算：已折叠进摘要",
    "over budget: the summariser returned no summary": "超出预算：没有得到摘要",
    "pins, rules, state, notes and recalled entries": "固定项、规则、状态、备注和召回的记录",
    "placeholder for a missing tool result": "代替缺失的工具结果",
    "replaced by a newer system message": "已由较新的系统消息取代",
    "second result for a call already answered: the provider would refuse it": (
        "同一调用的第二个结果：服务商会拒绝"
    ),
    "summary of the folded entries": "已折叠记录的摘要",
    "summary of {tokens} tokens shortened to {now}": "摘要由 {tokens} token 缩短到 {now}",
    "{name} message of {tokens} tokens shortened to {now}": "{name}消息由 {tokens} token 缩短到 {now}",
    "system message: sent first": "系统消息：最先发送",
    "tail: 1 rule not shown, of entries {entries}: no room in their share of the budget, or not clear alone": (
        "尾部：有 1 条规则未列出（规则所占的预算份额已满，或单独看不明白），出自第 {entries} 条记录"
    ),
    "tail: {number} rules not shown, of entries {entries}: no room in their share of the budget, or not clear alone": (
        "尾部：有 {number} 条规则未列出（规则所占的预算份额已满，或单独看不明白），出自第 {entries} 条记录"
    ),
    "tail: {label} of {tokens} tokens left out": "尾部：省略了 {tokens} token 的{label}",
    "tail: {label} of {tokens} tokens shortened to {now}": (
        "尾部：{label}由 {tokens} token 缩短到 {now}"
    ),
    "rules() lists them, and recall finds them": "rules() 列出它们，召回可以找到",
    "the budget changed": "预算变了",
    "the set of shortened entries changed": "缩短显示的记录变了",
    "the system messages were replaced": "系统消息已替换",
    "the tail changed": "尾部变了",
    "the tool schemas changed": "工具定义变了",
    "the window begins at {new} instead of {old}": "窗口从 {new} 开始，原来从 {old} 开始",
    "the window was cut": "窗口被裁剪",
    "checkpoint {id}": "检查点 {id}",
    "tool result without a call: the provider would refuse it": "没有调用的工具结果：服务商会拒绝",
    "{tokens} tokens: no part above {cap} fits the budget": (
        "{tokens} token：预算容不下超过 {cap} 的部分"
    ),
    "left out: image": "省略了图片",
    "left out: {kinds}": "省略了：{kinds}",
}
"""English reason -> Chinese; names in braces are placeholders for values."""


def translate_reason(reason: str, language: str) -> str:
    """Return the reason in a receipt or comparison in a language, `en` or `zh`; in English if it is not translated."""
    if language != "zh":
        return reason
    return "；".join(map(_chinese, reason.split(_JOIN)))


def _chinese(reason: str) -> str:
    for pattern, chinese in _patterns():
        if found := pattern.fullmatch(reason):
            values = found.groupdict()
            return chinese.format(**{k: _WORDS.get(value, value) for k, value in values.items()})
    return reason


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(english)), re.DOTALL), chinese)
        for english, chinese in REASONS.items()
    )
