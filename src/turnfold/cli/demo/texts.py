"""All texts of the demo, in English and in Chinese.

A field is a template; `charts` and `report` fill in the names in braces. Both languages have the same fields, so no
translation can be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ("TEXTS", "LabelCode", "Texts")


LabelCode = Literal["en", "zh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """All texts of the demo in one language."""

    language: LabelCode
    intro: str
    setting: str
    sections: tuple[str, str, str, str, str, str, str, str, str]
    """Names of the sections of a context in order (three parts for the tail), of the tools, and of the free tokens."""
    # one call
    title: str
    asked: str
    log: str
    log_figures: str
    call: str
    call_figures: str
    facts: str
    shortened: str
    fits: str
    since_fold: str
    columns: tuple[str, str, str, str, str, str, str]
    # events
    at_call: str
    folded: str
    folded_again: str
    why: str
    shrunk: str
    whole_message: str
    result_of: str
    # the end
    compared: tuple[str, str, str, str]
    rows: tuple[str, str, str, str, str, str, str, str]
    figures: str
    good: str
    bad: str
    cache_note: str
    fidelity_of_all: str
    kept: str
    onward: str


_ENGLISH = Texts(
    language="en",
    intro="An operations lead and her agent move a warehouse; they speak English and Chinese in turn, as people do.",
    setting="{messages} messages, {tokens:,} tokens, {calls} model calls of at most {budget:,} tokens "
    "({model}, counted offline), through a session on a SQLite file.",
    sections=("system", "summary", "window", "pins", "rules", "recalled", "turn", "tools", "free"),
    title="call {call} of {calls} · turn {turn} of {turns}",
    asked="user",
    log="log",
    log_figures="{folded} folded, {shown} of {logged} shown",
    call="call",
    call_figures="{tokens:,} of {budget:,} tokens",
    facts="prefix kept from the last call: {prefix:.0%} · violations: {violations}",
    shortened="shortened: {count}",
    fits="Everything still fits: nothing is left out.",
    since_fold="A checkpoint landed at call {call} (grown to {needed:,} tokens), far enough to leave the prefix "
    "alone for a while.",
    columns=("call", "turn", "prompt", "tokens", "prefix", "shown", "folded"),
    at_call="call {call}",
    folded="FOLD  {messages} messages, {tokens:,} tokens → checkpoint {checkpoint}, a summary of {summary:,}, "
    "fidelity {fidelity:.0%} of what this fold read",
    folded_again="FOLD  {messages} messages, {tokens:,} tokens + the summary so far → checkpoint {checkpoint}, "
    "a summary of {summary:,}, fidelity {fidelity:.0%} of what this fold read",
    why="without it {needed:,} of {budget:,} tokens, {share:.0%} of the budget",
    shrunk="SHRINK  {what}: {tokens:,} tokens → {sent:,}, head and tail",
    whole_message="message {position}",
    result_of="result of {tool}",
    compared=("the same conversation", "turnfold", "last {last}\nmessages", "everything"),
    rows=(
        "tokens sent",
        "largest call (budget {budget:,})",
        "calls over budget",
        "calls with a broken tool pair",
        "prefix kept, on average",
        "estimated cached share",
        "cost of the prompts, {currency}",
        "pinned rules in the last call",
    ),
    figures="{logged:,} tokens logged · {calls} calls · {folds} folds · {violations} violations",
    good="Never over budget, no tool pair broken, {kept} of {rules} rules word for word; "
    "what is folded stays in the log.",
    bad="Something is wrong: {violations} violations, {over} calls over budget, {broken} broken tool pairs.",
    cache_note="Cached share is an estimate: the repeated prefix from 1,024 tokens up, in steps of 128 ({model}); "
    "the cost follows from it, at the list prices of {date}.",
    fidelity_of_all="The last summary: fidelity {fidelity:.0%} of all entries it covers.",
    kept="{path} holds the log, its checkpoints and the manifest of every call (conversation {conversation}).",
    onward="Try  turnfold demo --budget 4000   --language zh   --keep demo.db   --json",
)

_CHINESE = Texts(
    language="zh",
    intro="运营负责人和她的智能体一起搬仓库；他们时而说中文、时而说英文，就像平时说话一样。",
    setting="{messages} 条消息，{tokens:,} token，{calls} 次模型调用；"
    "每次调用预算 {budget:,} token（{model}，离线计数），经由 SQLite 文件上的会话句柄。",
    sections=("系统", "摘要", "窗口", "固定项", "规则", "召回", "本轮", "工具", "空闲"),
    title="第 {call} / {calls} 次调用 · 第 {turn} / {turns} 轮",
    asked="用户",
    log="记录",
    log_figures="已折叠 {folded}，{logged} 条中发送 {shown}",
    call="调用",
    call_figures="{tokens:,} / {budget:,} token",
    facts="与上次相同的前缀：{prefix:.0%} · 违规：{violations}",
    shortened="缩短：{count}",
    fits="目前都放得下，没有省略任何内容。",
    since_fold="第 {call} 次调用（长到 {needed:,} token）写下检查点，一次折够，让前缀在一段时间里不变。",
    columns=("调用", "轮次", "提示词", "token", "前缀", "发送", "折叠"),
    at_call="调用 {call}",
    folded="折叠  {messages} 条消息、{tokens:,} token → 检查点 {checkpoint}，{summary:,} token 的摘要，"
    "对本次折叠所读内容的保真度 {fidelity:.0%}",
    folded_again="折叠  {messages} 条消息、{tokens:,} token + 已有摘要 → 检查点 {checkpoint}，"
    "{summary:,} token 的摘要，对本次折叠所读内容的保真度 {fidelity:.0%}",
    why="否则这次调用要 {needed:,} / {budget:,} token，占预算 {share:.0%}",
    shrunk="缩短  {what}：{tokens:,} token → {sent:,}，保留头尾",
    whole_message="第 {position} 条消息",
    result_of="{tool} 的结果",
    compared=("同一段对话", "turnfold", "最近\n{last} 条", "全部发送"),
    rows=(
        "发送的 token",
        "最大调用/预算 {budget:,}",
        "超出预算的调用",
        "拆散工具对的调用",
        "前缀平均保持",
        "估计可命中缓存",
        "提示词的费用，{currency}",
        "最后仍在的固定规则",
    ),
    figures="记录 {logged:,} token · {calls} 次调用 · {folds} 次折叠 · 违规 {violations} 处",
    good="从不超出预算，工具调用与结果从不拆散，规则原文在场 {kept} / {rules}；折叠的内容仍在记录里。",
    bad="有问题：违规 {violations} 处，{over} 次超出预算，{broken} 对工具调用被拆散。",
    cache_note="可命中缓存是估计值：重复的前缀，1,024 token 起，以 128 为一档（{model}）；"
    "费用由它算出，按 {date} 的标价。",
    fidelity_of_all="最后一份摘要：对其覆盖的全部记录，保真度 {fidelity:.0%}。",
    kept="{path} 里有这段记录、它的检查点和每次调用的清单（会话 {conversation}）。",
    onward="试试  turnfold demo --budget 4000   --language en   --keep demo.db   --json",
)

TEXTS: Mapping[LabelCode, Texts] = {"en": _ENGLISH, "zh": _CHINESE}
