"""Chinese labels of the terminal output, by English label, and the functions that translate labels and sentences.

A test fails if a label has no translation. JSON is always English, because programs read it. The sentences of errors
and messages are in `cli/chinese_messages.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from turnfold.cli.chinese_messages import FAULTS, MESSAGES, PROBLEMS
from turnfold.inspect import shown_text, translate_reason
from turnfold.records import Message
from turnfold.text import language_of

__all__ = (
    "CHINESE",
    "colon",
    "counted",
    "entries_and_turns",
    "in_brackets",
    "is_chinese",
    "known_label",
    "label",
    "message_text",
    "problem_label",
    "reason_label",
    "semicolon",
    "translated",
    "with_singulars",
)


_WORDS: Final[Mapping[str, str]] = {
    "this list": "本列表",
    "the last N messages, 10 by default": "最近 N 条消息，默认 10 条",
    "what the next call would send, in tokens": "下一次调用会发送多少 token",
    "earlier messages that match": "匹配的旧消息",
    "show a text in every call": "每次调用都显示这段文字",
    "your rules that still apply": "你定下而仍然有效的规则",
    "fold older turns now": "现在折叠较早的轮次",
    "go on in another session; @last is the one changed last": "转到另一个会话；@last 是最近改动的",
    "begin a new session": "开始新会话",
    "end the chat, as Ctrl-D does": "结束聊天，与 Ctrl-D 相同",
    "#": "#",
    "bound": "上界",
    "estimate": "估计",
    "exact": "精确",
    "injected": "插入",
    "moved": "移动",
    "ok": "正常",
    "note": "提示",
    "BAD": "问题",
    "not installed": "未安装",
    "NO_COLOR set": "已设置 NO_COLOR",
    "unknown encoding": "编码不详",
    "store": "存储",
    "backend": "后端",
    "size": "大小",
    "settings": "设置",
    "schema": "结构版本",
    "tenant": "租户",
    "reading": "正在读取",
    "replaying": "正在重放",
    "evaluating": "正在评测",
    "exporting": "正在导出",
    "importing": "正在导入",
    "auditing": "正在核对",
    "answer": "回答",
    "archive": "存档",
    "assistant": "助手",
    "atoms": "要素",
    "bad": "问题",
    "budget": "预算",
    "by hand": "手工添加",
    "cache": "缓存",
    "cached": "缓存命中",
    "call": "调用",
    "calls": "调用",
    "changed": "更新",
    "created": "时间",
    "checkpoint": "检查点",
    "first message": "第一条消息",
    "was already erased: nothing of it was left": "之前已经删除：没有剩下任何内容",
    "commits": "提交",
    "conversation": "会话",
    "cost": "费用",
    "decision": "决定",
    "dropped": "丢弃",
    "done": "完成",
    "ended": "结束于",
    "ended by": "结束它的记录",
    "may replace": "可能取代",
    "rule added": "已添加",
    "rule dropped": "已弃用",
    "ended rules": "已结束的规则",
    "entries": "记录",
    "entry": "记录",
    "evidence": "依据",
    "fact": "事实",
    "fate": "去向",
    "first difference": "首处不同",
    "folded": "折叠",
    "folds": "折叠次数",
    "free": "空闲",
    "full history": "完整历史",
    "gone": "不再发送",
    "id": "id",
    "jobs": "后台任务",
    "kept": "原样",
    "kind": "种类",
    "largest": "最大一次",
    "left out": "未发送",
    "left out of the import": "未导入",
    "method": "方法",
    "new": "新增",
    "no cache": "无缓存",
    "model folds": "模型折叠",
    "folds cached": "折叠缓存率",
    "no room in their share of the budget, or not clear alone": "规则的份额已满，或单独看不明白",
    "no sessions": "没有会话",
    "nothing found": "没有找到",
    "over budget": "超预算",
    "P@5": "P@5",
    "path": "路径",
    "per call": "每次费用",
    "pinned": "固定项",
    "drop a rule, by the number that /rules shows": "弃用一条规则（用 /rules 显示的编号）",
    "pins": "固定项等",
    "preference": "偏好",
    "prefix": "前缀",
    "price": "价格",
    "prohibition": "禁止",
    "R@5": "R@5",
    "reason": "原因",
    "recalled": "召回",
    "replaced by": "取代它的规则",
    "reply opening": "回答开头",
    "role": "角色",
    "rule": "规则",
    "rules": "规则",
    "stale": "过时",
    "section": "区段",
    "sections": "各部分",
    "sent": "已发送",
    "seq": "序号",
    "session": "会话",
    "sessions": "会话",
    "share": "占比",
    "shortened": "缩短",
    "shrunk": "缩短",
    "shortened to fit: entries {entries}; each keeps its beginning and its end": (
        "为放进预算而缩短：第 {entries} 条记录，各保留开头和结尾"
    ),
    "state": "状态",
    "strategy": "策略",
    "superseded": "已被取代",
    "summary": "摘要",
    "system": "系统",
    "tail": "尾部",
    "task": "任务",
    "text": "内容",
    "tokens": "token 数",
    "tool": "工具",
    "tools": "工具",
    "turn": "轮次",
    "turns": "轮次",
    "usable": "可用",
    "used": "已用",
    "user": "用户",
    "window": "窗口",
    "with a summary": "带摘要",
}
_SENTENCES: Final = (
    ("call {number:,} of {calls:,}", "第 {number:,} 次调用，共 {calls:,} 次"),
    (
        "the newest {shown:,} of {total:,} calls; -n shows more",
        "共 {total:,} 次调用，这里是最新的 {shown:,} 次；用 -n 可看更多",
    ),
    (
        "The first {messages:,} messages ({tokens:,} tokens) are identical; not cached: {rest:,} tokens after them.",
        "前 {messages:,} 条消息（{tokens:,} token）相同；其后的 {rest:,} token 没有缓存可用。",
    ),
    (
        "The first message ({tokens:,} tokens) is identical; not cached: {rest:,} tokens after it.",
        "第一条消息（{tokens:,} token）相同；其后的 {rest:,} token 没有缓存可用。",
    ),
    (
        "The tool schemas changed. They stand before the messages, so none of the {rest:,} tokens is cached.",
        "工具定义变了。它们在消息之前，所以 {rest:,} token 都没有缓存可用。",
    ),
    (
        "No message at the beginning is identical: none of the {rest:,} tokens is cached.",
        "开头没有相同的消息：{rest:,} token 都没有缓存可用。",
    ),
    (
        "message {index}, character {character}",
        "第 {index} 条消息，第 {character} 个字符",
    ),
    (
        "not verified to be the messages sent",
        "未能验证是当时发送的消息",
    ),
    (
        "the provider counted {counted:,} ({cached:,} cached); turnfold's count differs by {off:+.1%}",
        "服务商计为 {counted:,}（缓存 {cached:,}）；turnfold 的计数相差 {off:+.1%}",
    ),
    (
        "{cost} {currency} for {model}, list prices of {date}",
        "{cost} {currency}，按 {model} 在 {date} 的标价",
    ),
    (
        "no price for {model} in the list prices of {date}",
        "{date} 的标价中没有 {model} 的价格",
    ),
    (
        "estimated, without the output: no usage was recorded",
        "估计值，不含输出：没有记录服务商的用量",
    ),
    (
        "nothing was cached, although the first {shared:,} tokens are the same as in the previous call",
        "没有用上缓存，尽管开头的 {shared:,} token 与上一次调用相同",
    ),
    (
        "the last call repeats {share:.0%} of the one before ({tokens:,} tokens); window unmoved for {calls} calls",
        "最近一次调用重复了上一次的 {share:.0%}（{tokens:,} token）；窗口已有 {calls} 次调用没有移动",
    ),
    (
        "last moved: call {number:,} ({reason})",
        "上次移动：第 {number:,} 次调用（{reason}）",
    ),
    ("no model: name one with --model for costs", "没有模型：要看费用请用 --model 指明"),
    (
        "{folded:,} folded, {dropped:,} dropped, {shrunk:,} shortened",
        "折叠 {folded:,}，丢弃 {dropped:,}，缩短 {shrunk:,}",
    ),
    (
        "reserve",
        "预留",
    ),
    (
        "{strategy} at {budget:,} ended early: {reason}",
        "{strategy}（预算 {budget:,}）提前结束：{reason}",
    ),
    (
        "{sessions:,} sessions, {entries:,} entries, {faults:,} faults",
        "{sessions:,} 个会话，{entries:,} 条记录，{faults:,} 处问题",
    ),
    (
        "no problems found",
        "没有发现问题",
    ),
    (
        "something needs fixing",
        "有问题需要修复",
    ),
    (
        "{shown} of {total:,}; more with -n",
        "{total:,} 个中的 {shown} 个；用 -n 显示更多",
    ),
    (
        "sessions erased: {sessions:,} (entries: {entries:,}, documents: {documents:,})",
        "已彻底删除 {sessions:,} 个会话：{entries:,} 条记录，{documents:,} 个文档",
    ),
    ("not erased, may contain the same text: {name}", "未删除，可能含有相同内容：{name}"),
    (
        "checked {named:,} sessions of the receipt: none of them is among the {searched:,} sessions of the store",
        "已核对回执中的 {named:,} 个会话：都不在存储现有的 {searched:,} 个会话之中",
    ),
    (
        "the receipt names no session, so it proves nothing",
        "回执没有列出任何会话：它什么也不能证明",
    ),
    ("the receipt was altered", "回执被改动过"),
    ("still in the store: {name}", "仍在存储中：{name}"),
    (
        "nothing to fold: there are only the turns to keep (see --keep-turns)",
        "没有可折叠的内容：只有需要保留的轮次（见 --keep-turns）",
    ),
    (
        "checkpoint {id}: up to entry {upto:,}, fidelity {fidelity:.0%} of what this fold read, trust {trust}",
        "检查点 {id}：到第 {upto:,} 条记录，对本次折叠所读内容的保真度 {fidelity:.0%}，来源：{trust}",
    ),
    (
        "fidelity {fidelity:.0%} of all entries it covers; recall finds the rest",
        "对其覆盖的全部记录，保真度 {fidelity:.0%}；其余的可以召回",
    ),
    (
        "{shown:,} of {total:,} entries; -n and --after show others, --full whole messages",
        "共 {total:,} 条记录，这里是 {shown:,} 条；-n 和 --after 显示其他记录，--full 显示全文",
    ),
    (
        "curve: how full the budget was, call by call; {fold} a fold",
        "曲线：每次调用用掉预算的多少；{fold} 表示折叠",
    ),
    (
        "counted by {counter}: encoding of text + framing of messages + images",
        "计数方式 {counter}：文本编码 + 消息外框 + 图像",
    ),
    (
        "trust: a summary counts as said by the least trusted role in it (system, assistant, user, tool)",
        "来源：摘要按其中最不可信的作者算；从可信到不可信是系统、助手、用户、工具",
    ),
    (
        (
            "stale: replaced rules that calls still send without what replaced them, lower is better; "
            "atoms: names, numbers and dates of folded entries that calls still send; evidence: of the messages that a "
            "question needs, the share that is whole in its context; R@5, P@5: share of the evidence "
            "among the first five recalled entries, and of them that are evidence; prefix: share of the last request "
            "that the next one begins with; used: tokens sent as a share of the budget"
        ),
        (
            "过时：已被取代、调用却仍在发送而不带新说法的规则，越低越好；要素：调用仍会发送的、被折叠记录里的名称、数字和日期；"
            "依据：回答问题所需的消息在其上下文里完整的占多少；R@5：前五条召回记录包含了多少依据；P@5：其中多少是依据；"
            "前缀：上次请求有多少是下次的开头；已用：发送的 token 占预算多少"
        ),
    ),
    (
        (
            "folding failed {failures} times since the last checkpoint, last with {error}: until it succeeds, older "
            "turns are shown as an extract"
        ),
        "自上个检查点以来折叠失败 {failures} 次，最近一次是 {error}：在成功之前，较早的轮次以摘录代替",
    ),
    ("upper bound", "上界"),
    (
        "nothing found for {query} (store {store}, tenant {tenant})",
        "没有找到“{query}”（存储 {store}，租户 {tenant}）",
    ),
    ("the largest messages", "最大的消息"),
    ("{change} since the last call", "比上次调用 {change}"),
    ("no checkpoints", "没有检查点"),
    ("dropped; later contexts leave it out:", "已弃用，之后的上下文不再展示："),
    (
        "{session}: {entries:,} entries of {source}",
        "{session}：来自 {source} 的 {entries:,} 条记录",
    ),
    ("{session}: {pins:,} pins", "{session}：{pins:,} 个固定项"),
    ("erase {what} for good? [y/N] ", "永久删除{what}？[y/N] "),
    ("session {name}", "会话 {name}"),
    ("an entry of session {name}", "会话 {name} 中的一条记录"),
    ("all sessions of user {name}", "用户 {name} 的所有会话"),
    ("all sessions of tenant {name}", "租户 {name} 的所有会话"),
    (
        "deleted: {entries:,} entries, {checkpoints:,} checkpoints, {documents:,} documents",
        "已删除：{entries:,} 条记录，{checkpoints:,} 个检查点，{documents:,} 份文档",
    ),
    ("it was deleted before", "此前已删除"),
    ("kept, and may contain the text: {name}", "保留，可能含有原文：{name}"),
    (
        "existing backups, exports and forks are not changed",
        "此前的备份、导出和分支不受影响",
    ),
    (
        "{sessions:,} sessions, {entries:,} entries as {format} to {output}",
        "{sessions:,} 个会话，{entries:,} 条记录，格式 {format}，写入 {output}",
    ),
    (
        "imported",
        "已导入",
    ),
    (
        "would import",
        "将会导入",
    ),
    (
        "tokens are counted with {counter}; --model NAME counts as your model does",
        "token 按 {counter} 计数；--model NAME 按你的模型计数",
    ),
    (
        "{faults:,} faults by the rules of its provider; `turnfold lint {file}` lists them",
        "按其服务商的规则有 {faults:,} 处问题；`turnfold lint {file}` 会列出",
    ),
    (
        "{entries:,} entries from {format}: {new:,} new sessions, {continued:,} continued, {already:,} already there",
        "来自 {format} 的 {entries:,} 条记录：新会话 {new:,} 个，续写 {continued:,} 个，已有 {already:,} 个",
    ),
    (
        "{name}, entry {seq:,}: {parts:,} more parts of the answer, stored as a new entry",
        "{name} 第 {seq:,} 条：回答又多出 {parts:,} 部分，另存为一条记录",
    ),
    (
        "not imported: {times:,} x {what}",
        "未导入：{times:,} × {what}",
    ),
    (
        "left out, because it was deleted from this store: {name}",
        "未导入，因为已从此存储中删除：{name}",
    ),
    (
        "and {more:,} more left out",
        "另有 {more:,} 处未导入",
    ),
    (
        "Estimates for {model}: list prices of {date}, every call within the life of the provider's cache.",
        "费用为 {model} 的估计值：{date} 的标价，假定每次调用都在服务商提示缓存的有效期内。",
    ),
    (
        "Model folds: in addition, if {model} writes the summaries.",
        "模型折叠：由 {model} 写摘要时另加的费用。",
    ),
    (
        "All {whole:,} tokens fit into {budgets}, but a fold begins at 75 %, to have room for what follows.",
        "全部 {whole:,} token 都放得进 {budgets}，但折叠在用到预算的 75% 时就开始，为后面的内容留出余地。",
    ),
    (
        "The session's own {calls:,} calls sent {tokens:,} tokens, the largest {largest:,} of {allowed:,} allowed.",
        "会话自己的 {calls:,} 次调用共发送 {tokens:,} token，最大的一次 {largest:,}，允许 {allowed:,}。",
    ),
    (
        "Each had {tools:,} tokens of tool schemas, which a replay sends only with --tools FILE.",
        "每次含 {tools:,} token 的工具定义；重放只在给出 --tools FILE 时发送它们。",
    ),
    (
        "A replay has no pins, notes, state or findings, and the defaults of a memory (recall, threshold, summarizer).",
        "重放没有固定项、备注、状态和工具所得，并采用记忆的默认值（召回、折叠阈值、摘要器）。",
    ),
    (
        "{conversations:,} conversations, {entries:,} entries, {questions:,} questions",
        "{conversations:,} 个会话，{entries:,} 条记录，{questions:,} 个问题",
    ),
    ("rules from fold to fold", "规则（逐次折叠）"),
    ("stale from fold to fold", "过时规则（逐次折叠）"),
    ("atoms from fold to fold", "要素（逐次折叠）"),
    ("{method} at {budget:,} refused: {reason}", "{method}（预算 {budget:,}）拒绝：{reason}"),
    ("rules: given in the data set", "规则：数据集给出的"),
    (
        (
            "rules: found by turnfold's own session.rules(), so compare them only with your own runs; stale is not "
            "measured, because no rules are given"
        ),
        "规则：turnfold 自己的 session.rules() 找到的，只供与自己的其他结果比较；没有给出标准规则，所以不评测“过时”",
    ),
    (
        "rules: given in the data set, else found by turnfold's own session.rules(); stale: only of given rules",
        "规则：数据集给出的，否则是 turnfold 自己的 session.rules() 找到的；“过时”只评测给出的规则",
    ),
    ("no questions, so evidence is not measured", "没有问题，因此未评测依据"),
    (
        "per call: {currency}, list prices of {date} for {model}, prompt cache included",
        "每次费用：{currency}，{model} 在 {date} 的标价，含提示缓存",
    ),
)
CHINESE: Final[Mapping[str, str]] = {**_WORDS, **dict(_SENTENCES)}


_MEASURED: Final[Mapping[str, str]] = {
    "calls": "次调用",
    "ended rules": "条已结束的规则",
    "entries": "条记录",
    "rules": "条规则",
    "tokens": "token",
    "turns": "轮",
}
"""English noun after a number -> the Chinese noun with its measure word."""
_SINGULARS: Final[Mapping[str, str]] = {
    "calls": "call",
    "conversations": "conversation",
    "entries": "entry",
    "faults": "fault",
    "checkpoints": "checkpoint",
    "documents": "document",
    "messages": "message",
    "more parts": "more part",
    "new sessions": "new session",
    "pins": "pin",
    "questions": "question",
    "ended rules": "ended rule",
    "rules": "rule",
    "sessions": "session",
    "times": "time",
    "tokens": "token",
    "turns": "turn",
}


def with_singulars(text: str) -> str:
    """Return an English text with "1 entries" written as "1 entry"."""
    plurals = "|".join(_SINGULARS)
    return re.sub(rf"(?<![\d,.])1 ({plurals})\b", lambda found: f"1 {_SINGULARS[found[1]]}", text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 rule" or "28 条规则"; the noun is passed in the plural."""
    if is_chinese():
        return f"{number:,} {_MEASURED[noun]}"
    return with_singulars(f"{number:,} {noun}")


def entries_and_turns(entries: int, turns: int) -> str:
    """Return the size of a conversation, such as "97 entries, 20 turns"."""
    return ("，" if is_chinese() else ", ").join(
        (counted(entries, "entries"), counted(turns, "turns"))
    )


def colon() -> str:
    """Return the colon before a value: of full width in Chinese."""
    return "：" if is_chinese() else ": "


def semicolon() -> str:
    """Return the semicolon between two remarks: of full width in Chinese."""
    return "；" if is_chinese() else "; "


def in_brackets(*words: str) -> str:
    """Return words in brackets behind another word: of full width in Chinese."""
    return f"（{'，'.join(words)}）" if is_chinese() else f" ({', '.join(words)})"


def message_text(message: Message) -> str:
    """Return the text of a message as a command shows it: that of an erased one says so in the reader's language."""
    return shown_text(message, language=language_of(os.environ))


def is_chinese() -> bool:
    """Return True if TURNFOLD_LANG, or else the locale, is Chinese."""
    return language_of(os.environ) == "zh"


def translated(text: str) -> str:
    """Return a sentence translated for the locale; unchanged if `chinese_messages` has no translation."""
    return _chinese(text, MESSAGES) if is_chinese() else text


def problem_label(text: str) -> str:
    """Translate a problem that `turnfold lint` or `turnfold import` found in a file to the language of the locale."""
    return _chinese(text, _FILE_REPORTS) if is_chinese() else text


def _chinese(text: str, table: Mapping[str, str]) -> str:
    for pattern, chinese in _patterns(table is _FILE_REPORTS):
        if found := pattern.fullmatch(text):
            values = found.groupdict()
            return chinese.format(
                **{name: _nested(name, each, table) for name, each in values.items()}
            )
    return text


def _nested(name: str, value: str, table: Mapping[str, str]) -> str:
    """Return the value for a placeholder; a value that is itself a known sentence is translated too."""
    if name in ("reason", "remedy"):
        return _chinese(value, table)
    if name == "details":  # what the provider said stays as it came
        label_of_failure, colon, told = value.rpartition(": ")
        return f"{label_of_failure}{colon}{_chinese(told, table)}"
    if name == "problem":
        return "；".join(_chinese(each, _FILE_REPORTS) for each in value.split("; "))
    if name == "unit":
        return {"tokens": "token", "messages": "条消息", "bytes": "字节"}.get(value, value)
    if name == "facts":
        facts = (fact.partition(" ") for fact in value.split(", "))
        return "，".join(f"{known_label(what)}{blank}{rest}" for what, blank, rest in facts)
    if name == "parts":
        parts = (part.rpartition(": ") for part in value.split(" + "))
        return " + ".join(f"{_chinese(what, table)}{colon}{size}" for what, colon, size in parts)
    return value


_FILE_REPORTS: Final[Mapping[str, str]] = {**FAULTS, **PROBLEMS}


@cache
def _patterns(reports: bool) -> tuple[tuple[re.Pattern[str], str], ...]:  # noqa: FBT001 (private)
    """Return patterns that match the known sentences with their values, and their translations.

    Sentences with the longest fixed text come first.
    """
    table = _FILE_REPORTS if reports else MESSAGES
    fixed = {english: len(re.sub(r"{\w+}", "", english)) for english in table}
    return tuple(
        (
            re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(english)), re.DOTALL),
            table[english],
        )
        for english in sorted(table, key=lambda each: -fixed[each])
    )


def known_label(word: str) -> str:
    """Return the label of a word from stored data, such as a section name; the word itself if it has no label."""
    return CHINESE.get(word, word) if is_chinese() else word


def reason_label(reason: str) -> str:
    """Return the reason of a receipt (context report) or a comparison in the language of the locale."""
    return translate_reason(reason, language_of(os.environ))


def label(english: str, environment: Mapping[str, str] | None = None) -> str:
    """Return a label in the language of the locale; raises `KeyError` if its translation is missing."""
    if language_of(os.environ if environment is None else environment) == "zh":
        return CHINESE[english]
    return english
