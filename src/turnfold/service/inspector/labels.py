"""Labels of the inspector in English and Chinese; the English label is the key.

A test fails if a label has no translation. Stored content and error messages are not translated; reasons are
translated by `turnfold.inspect.chinese_reasons`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from turnfold.inspect import translate_reason

__all__ = (
    "CHINESE",
    "LANGUAGES",
    "Language",
    "PageLabels",
    "language_of",
)


Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: Final[Mapping[Language, str]] = {"en": "English", "zh": "中文"}
CHINESE: Final[Mapping[str, str]] = {
    "Pages are read-only. Run this where the store is; name it with --store.": (
        "页面只读。请在存储所在处运行此命令；用 --store 指明存储。"
    ),
    "Replace MODEL with your model.": "请把 MODEL 换成所用的模型。",
    "Tool schemas are not stored, so they are missing.": "工具定义不随调用保存，因此不在其中。",
    "Run it where the store is; set TURNFOLD_STORE.": (
        "请在存储所在处运行；用 TURNFOLD_STORE 指明存储。"
    ),
    "meaning": "含义",
    "may replace": "可能取代",
    "drop this rule": "弃用这条规则",
    "a page of the inspector": "检查器的页面",
    "an operation of the HTTP interface": "HTTP 接口的操作",
    "no known operation": "没有这样的操作",
    "calls whose prompt was not read from the provider's cache although it could have been": (
        "本可命中而未命中服务商缓存的调用"
    ),
    "checkpoints (summaries) stored": "已保存的检查点（摘要）",
    "transactions committed": "已提交的事务",
    "contexts assembled for a model call": "为模型调用组装的上下文",
    "calls of the store that failed": "失败的存储调用",
    "encryption at rest": "静态加密",
    "entries appended to a log": "追加到日志的记录",
    "attempts to fold that failed": "失败的折叠",
    "requests to a model that writes summaries": "请模型写摘要的请求",
    "folds dropped because another fold was first": "因另一次折叠在先而放弃的折叠",
    "reads and writes done": "已完成的读写",
    "entries whose vectors were computed": "已计算向量的记录",
    "recalls by meaning that failed": "失败的语义召回",
    "file of the store": "存储的文件",
    "state of the cache": "缓存的状态",
    "requests to the cache": "发给缓存的请求",
    "requests not sent because too many were running": "因进行中的请求过多而没有发出的请求",
    "requests to the cache that failed": "失败的缓存请求",
    "outages of the cache": "缓存中断的次数",
    "erasures that the cache still owes": "缓存尚未完成的删除",
    "round trips to the server": "与服务器的往返次数",
    "version of SQLite": "SQLite 的版本",
    "{rules:,} rules": "{rules:,} 条规则",
    "by hand": "手工添加",
    "{tokens:,} tokens": "{tokens:,} 个 token",
    "up to entry {seq}": "到第 {seq} 条记录",
    "entry {seq:,}": "第 {seq:,} 条记录",
    "turn {turn}": "第 {turn} 轮",
    "previous": "前一页",
    "What one model call sent: click a line for the whole message.": "一次模型调用发送的内容：点击一行可看整条消息。",
    "One bar per model call, by section; click a bar or a number to see what the model saw.": (
        "每次模型调用一条彩条，按区段着色；点击彩条或序号可看模型看到的内容。"
    ),
    "Everything that was said, called and seen, in order; nothing is removed by a fold.": (
        "按顺序记下的一切：说过的、调用过的、看到的；折叠不会删除任何内容。"
    ),
    "Summaries that replace older entries in calls; each covers everything up to its last entry.": (
        "在调用中代替较早记录的摘要；每一份都覆盖到它的最后一条记录为止的全部内容。"
    ),
    "Instructions of the user, word for word; calls show active ones once their messages left the window.": (
        "用户定下的规则，保留原话：原消息不再展示时，调用会展示其中仍然有效的。"
    ),
    "Pins, state and findings, which calls show in their tail beside rules and recalled entries.": (
        "固定项、状态和工具所得：与规则和召回的内容一起，展示在调用的尾部。"
    ),
    "Try a recall in this session: the entries it finds, and the text that the model would get.": (
        "试一试在本会话中召回：找到的记录，以及模型会得到的文字。"
    ),
    "Workspaces as they were at a turn: files, state and context.": "某一轮时的工作区：文件、状态和上下文。",
    "Tokens and list prices of the calls of this session, by day and by call.": (
        "本会话各次调用的 token 数和标价费用，按日、按调用列出。"
    ),
    "call: its number in this session. used: share of the budget. prefix: share of the previous call that this "
    "one repeats at its beginning. folded, dropped, shortened: entries; a shortened one keeps its beginning "
    "and its end.": (
        "调用：它在会话中的编号。已用：占预算的比例。前缀：与前一次调用开头相同的比例。折叠、丢弃、缩短：记录数；缩短的记录保留开头和结尾。"
    ),
    "calls: share of the budget that the newest calls used; purple: after a fold": (
        "调用：最近几次各用了预算的多少；紫色：刚折叠之后"
    ),
    "not known": "不详",
    "repeated from the previous call": "与前一次调用相同",
    "{share:.0%} of that call, {tokens:,} tokens": "前一次的 {share:.0%}，{tokens:,} token",
    "above: the same as in the previous call, so the provider can read it from its cache; below: new": (
        "以上与前一次调用相同，服务商可从缓存读取；以下是新内容"
    ),
    "not recorded: session.record_usage() stores it": "没有记录：用 session.record_usage() 保存",
    "recalled (entry, score)": "召回（记录，分数）",
    "id of the call": "调用的 id",
    "id": "id",
    "result of a tool": "工具的结果",
    "call of a tool": "对工具的调用",
    "exact": "精确",
    "bound": "上界",
    "estimate": "估计",
    "summary up to entry {seq:,}": "到第 {seq:,} 条记录为止的摘要",
    "in use": "在用",
    "written by": "作者",
    "caller": "程序给出",
    "extraction, without a model": "抽取式摘要器（不用模型）",
    "source: of all it covers, the least trusted": "来源（所含内容中最不可信的）",
    "mixed": "混合",
    "by entry": "于记录",
    "fold": "折叠",
    "results": "结果数",
    "pins & findings": "固定项与工具所得",
    "pins": "固定项",
    "none": "没有",
    "never": "永不",
    "expires": "失效",
    "findings (remembered tool results)": "工具所得（记住的工具结果）",
    "to the sessions": "返回会话列表",
    "Invalid message": "消息无效",
    "Budget settings contradict each other": "预算的设置互相矛盾",
    "The mandatory parts do not fit the budget": "预算容不下必须发送的部分",
    "An option is out of range": "参数超出范围",
    "The file cannot be imported": "文件无法导入",
    "Not found": "没有找到",
    "Unknown model": "不认识的模型",
    "The summarizer returned nothing usable": "没有得到可用的摘要",
    "The model returned no answer": "模型没有回答",
    "The provider rejected the prompt as too long": "服务商认为提示词过长而拒绝",
    "The model is busy or unreachable": "模型繁忙或连接不到",
    "The agent reached its step limit": "智能体达到了步数上限",
    "Bad request": "请求有误",
    "Missing or invalid token, or a missing right": "缺少访问令牌、访问令牌无效或权限不足",
    "Limit exceeded": "超出限额",
    "The store failed": "存储出错",
    "Conflict with a concurrent change": "与同时发生的改动冲突",
    "Another run of an agent has the session": "会话正由智能体的另一次运行使用",
    "The idempotency key was used for another request": "幂等键已用于另一个请求",
    "The conversation was deleted": "会话已被删除",
    "The store has an unsafe setting": "存储的设置不安全",
    "The store is encrypted with another key": "存储用另一个密钥加密",
    "The store was opened by another process": "存储由另一个进程打开",
    "The store cannot be reached": "连接不到存储",
    "An optional package is not installed": "没有安装可选的软件包",
    "The service failed": "服务出错",
    "active": "有效",
    "added": "新增",
    "after": "之后",
    "healthy": "正常",
    "requests": "请求",
    "as a context would show it": "在上下文中的样子",
    "backend": "后端",
    "before": "之前",
    "budget": "预算",
    "by day ({zone})": "按日（{zone}）",
    "by meaning": "含义",
    "by neighbours": "相邻",
    "by words": "词语",
    "bytes": "字节",
    "cache": "缓存",
    "cache break: more than tail and newest turn, which change with each question, is paid again": (
        "缓存中断：除了随每个问题变化的尾部和当前轮次，还有 token 要重新付费"
    ),
    "cache break: {tokens:,} tokens are paid for again": "缓存中断：{tokens:,} token 要重新付费",
    "cached": "缓存命中",
    "a fold: a new summary replaces older turns": "折叠：由新的摘要代替较早的轮次",
    "call": "调用",
    "call {number:,}": "第 {number:,} 次调用",
    "call {number:,} of {calls:,}": "第 {number:,} 次调用，共 {calls:,} 次",
    "calls": "调用",
    "change": "变化",
    "changed": "更新",
    "checkpoint": "检查点",
    "checkpoints": "检查点",
    "compare": "比较",
    "compare with the call before": "与前一次调用比较",
    "context": "上下文",
    "copied": "已复制",
    "copy": "复制",
    "copy as a command": "复制为命令",
    "copy as curl for {provider}": "复制为发给 {provider} 的 curl",
    "copy as pytest": "复制为 pytest 测试",
    "cost": "费用",
    "costs": "费用",
    "counted": "我们的计数",
    "counter": "计数方式",
    "created": "时间",
    "cut": "裁剪",
    "dark or light": "深色或浅色",
    "day": "日期",
    "details": "详情",
    "details need a token with the right admin": "详情需要带 admin 权限的访问令牌",
    "digest": "哈希值",
    "dropped": "丢弃",
    "entries": "记录",
    "entry": "记录",
    "every entry of the log is in this call": "日志的每条记录都在这次调用里",
    "fate": "去向",
    "fidelity of all entries it covers": "对其覆盖的全部记录的保真度",
    "fidelity of what this fold read": "对本次折叠所读内容的保真度",
    "metrics": "指标",
    "file": "文件",
    "files": "文件",
    "first difference": "首处不同",
    "encrypted; no key was given": "已加密；未给出密钥",
    "first message": "第一条消息",
    "cannot be read with this encryption key": "用此加密密钥无法读取",
    "folded": "折叠",
    "fork from here": "从这里分支",
    "free": "空闲",
    "from the first": "从头看",
    "gone": "不再发送",
    "health": "健康",
    "number": "数量",
    "injected": "插入",
    "input": "输入",
    "output": "输出",
    "prices of": "价格按",
    "show": "显示",
    "tokens only": "只显示 token 数",
    "the model of each call ({models})": "各次调用的模型（{models}）",
    "{calls:,} calls have no price: the model is not known, or not in the price list": (
        "{calls:,} 次调用没有价格：不知道其模型，或价目中没有"
    ),
    "list prices of {date} in {currency}": "{date} 的标价，单位 {currency}",
    "{calls:,} calls have no figures of the provider: estimated, without the output (≈)": (
        "{calls:,} 次调用没有服务商的数字：按估计计算，不含输出（≈）"
    ),
    "insights": "要点",
    "it contains media or long texts, which are too long to copy": "其中含有媒体或长文本，太长，无法复制",
    "the page is too long: the rest is not shown": "页面太长：其余部分未显示",
    "the name has invisible characters: type it by hand": "名称含有不可见的字符：请手工写出",
    "j/k move · Enter opens · / searches": "j/k 移动 · Enter 打开 · / 搜索",
    "kept": "原样",
    "left out": "未发送",
    "links": "关联",
    "live": "实时",
    "log": "日志",
    "message": "消息",
    "messages": "消息",
    "model": "模型",
    "moved": "移动",
    "name": "名称",
    "new": "新增",
    "newest": "最新",
    "next": "后一页",
    "next call": "后一次调用",
    "no": "否",
    "no calls yet": "还没有调用",
    "decision": "决定",
    "done": "完成",
    "fact": "事实",
    "kind": "种类",
    "dropped, and shown to no model since: {ids}": "已弃用，此后不再展示给模型：{ids}",
    "no checkpoints yet": "还没有检查点",
    "no rules yet": "还没有规则",
    "preference": "偏好",
    "prohibition": "禁止",
    "rule": "规则",
    "rules": "规则",
    "superseded": "已被取代",
    "task": "任务",
    "no session has such a name": "没有名称相符的会话",
    "no sessions yet": "还没有会话",
    "… and {more:,} more": "……还有 {more:,} 条",
    "This link was used before. Open the newest link that the command printed, or run turnfold ui again.": (
        "这个链接已经用过。请打开命令最新给出的链接，或重新运行 turnfold ui。"
    ),
    "Without a token: open the newest link that the command printed, or run turnfold ui again.": (
        "没有访问令牌：请打开命令最新给出的链接，或重新运行 turnfold ui。"
    ),
    "no snapshots yet": "还没有快照",
    "not verified to be the messages sent": "未能验证是当时发送的消息",
    "nothing changed": "没有变化",
    "nothing found": "没有找到",
    "originals": "原文",
    "outcome": "结果",
    "prefix": "前缀",
    "previous call": "前一次调用",
    "verified: exactly the messages sent": "已验证：与当时发送的消息完全一致",
    "query": "查询",
    "raw": "原始",
    "neutral": "中性",
    "reason": "原因",
    "recall": "召回",
    "removed": "删除",
    "reply opening": "回答开头",
    "reported": "服务商的计数",
    "reserve": "预留",
    "role": "角色",
    "score": "分数",
    "search": "搜索",
    "search in all sessions": "在所有会话中搜索",
    "section": "区段",
    "sent, in this order": "按此顺序发送",
    "seq": "序号",
    "session": "会话",
    "sessions": "会话",
    "show more": "显示更多",
    "shortened": "缩短",
    "shrunk": "缩短",
    "side by side": "并排比较",
    "sign in": "登录",
    "{messages:,} identical messages": "{messages:,} 条相同的消息",
    "sign out": "退出",
    "size": "大小",
    "skip to the content": "跳到内容",
    "snapshot": "快照",
    "snapshots": "快照",
    "source range": "本次新折叠",
    "state": "状态",
    "streams open": "打开的事件流",
    "summary": "摘要",
    "system": "系统",
    "tail": "尾部",
    "the inspector has no such page": "没有这个页面",
    "there is no session {name}": "没有会话 {name}",
    "no call {call} in session {name}": "会话 {name} 中没有调用 {call}",
    "unknown parameter {name}; the parameters are: {known}": "没有参数 {name}；可用的参数：{known}",
    "the parameter {name} has a value that is not allowed": "参数 {name} 的值不可用",
    "recalled": "召回",
    "copy this call": "复制此次调用",
    "verification": "验证",
    "text": "内容",
    "the budget": "预算",
    "the same messages": "消息完全相同",
    "the window moved without a fold": "没有折叠而移动了窗口",
    "timeline": "时间线",
    "token": "访问令牌",
    "tokens": "token 数",
    "tool": "工具",
    "tools": "工具",
    "turn": "轮次",
    "turns": "轮次",
    "used": "已用",
    "user": "用户",
    "assistant": "助手",
    "warnings": "警告",
    "what the model saw": "模型看到的内容",
    "why it changed": "变化的原因",
    "words in all sessions": "所有会话中的词语",
    "window": "窗口",
    "yes": "是",
    "A token with the right to read. It is kept in a cookie that no script can read, until you sign out.": (
        "需要带读取权限的访问令牌。访问令牌保存在脚本无法读取的 cookie 中，直到退出。"
    ),
    "Tool schemas are not stored with a call, only what they cost: {tokens:,} tokens.": (
        "调用只保存工具定义的费用（{tokens:,} token），不保存其内容。"
    ),
    "characters {first:,} to {last:,} of {all:,}": "共 {all:,} 个字符，显示第 {first:,} 到 {last:,} 个",
    "entries {first:,} to {last:,}": "第 {first:,} 到 {last:,} 条记录",
    "message {index}, character {character}, about token {token:,} of the prompt": (
        "第 {index} 条消息，第 {character} 个字符，约为提示词的第 {token:,} 个 token"
    ),
    "token counts differ from the recorded ones: the counter {counter} is unknown here": (
        "与当时的计数不同：本程序不认识计数方式 {counter}"
    ),
    "only the first {read:,} sessions by name were read; search by name prefix": (
        "只查看了按名称排序的前 {read:,} 个会话；可按名称开头搜索"
    ),
    "prefix of the session name": "会话名称的开头",
    "calls from {first:,} on": "从第 {first:,} 次起的调用",
    "tokens shown to the model": "展示给模型的 token 数",
    "the newest {shown:,} calls": "最新的 {shown:,} 次调用",
    "the provider counted {reported:,} ({cached:,} cached); turnfold's count differs by {off:+.1%}": (
        "服务商计为 {reported:,}（缓存 {cached:,}）；turnfold 的计数相差 {off:+.1%}"
    ),
    "nothing was cached, although the first {shared:,} tokens are the same as in the previous call": (
        "没有用上缓存，尽管开头的 {shared:,} token 与上一次调用相同"
    ),
    "The first {messages:,} messages ({tokens:,} tokens) are identical; not cached: {rest:,} tokens after them.": (
        "前 {messages:,} 条消息（{tokens:,} token）相同；其后的 {rest:,} token 没有缓存可用。"
    ),
    "The first message ({tokens:,} tokens) is identical; not cached: {rest:,} tokens after it.": (
        "第一条消息（{tokens:,} token）相同；其后的 {rest:,} token 没有缓存可用。"
    ),
    "The tool schemas changed. They stand before the messages, so none of the {rest:,} tokens is cached.": (
        "工具定义变了。它们在消息之前，所以 {rest:,} token 都没有缓存可用。"
    ),
    "No message at the beginning is identical: none of the {rest:,} tokens is cached.": (
        "开头没有相同的消息：{rest:,} token 都没有缓存可用。"
    ),
    "the tail (pins, rules, recalled passages), line by line": "尾部（固定项、规则、召回的原文），逐行比较",
    "{lines:,} identical lines": "{lines:,} 行相同",
    "the whole message": "整条消息",
    "{allowed:,} tokens allowed": "可用 {allowed:,} token",
    "{ratio:.1f} times shorter: {before:,} tokens to {after:,}": (
        "缩短为 1/{ratio:.1f}：{before:,} token 变为 {after:,}"
    ),
    "{shown:,} of {total:,}": "{total:,} 个中的 {shown:,} 个",
    "{size} of {kind}, not loaded": "{kind}，{size}，未加载",
    "{size:,} characters, not shown": "{size:,} 个字符，未显示",
}


_ENGLISH: Final[Mapping[str, str]] = {
    "bound": "at most",
    "caller": "the application",
    "estimate": "estimated",
    "shrunk": "shortened",
}
"""English labels for words in stored data that are unclear by themselves."""


_PLURAL: Final = re.compile(
    r"(?<![\d,.])1 (calls|entries|messages|pins|rules|sessions|tokens)\b( have\b)?"
)


def _singular(found: re.Match[str]) -> str:
    noun = "entry" if found[1] == "entries" else found[1].removesuffix("s")
    return f"1 {noun}{' has' if found[2] else ''}"


class PageLabels:
    """The labels of the inspector's pages in one language."""

    def __init__(self, language: Language) -> None:
        self.language: Language = language

    def __call__(self, english: str, **figures: object) -> str:
        """Return a label in this language by its English text, with values filled in for the names in braces."""
        if self.language == "zh":
            return CHINESE[english].format(**figures) if figures else CHINESE[english]
        return _PLURAL.sub(_singular, english.format(**figures)) if figures else english

    def reason(self, reason: str) -> str:
        """Return the reason in a receipt (context report) or comparison, translated to this language."""
        return translate_reason(reason, self.language)

    def known(self, word: str) -> str:
        """Return the label of a word from stored data, such as a section name; the word itself if it has no label."""
        return (CHINESE if self.language == "zh" else _ENGLISH).get(word, word)


def language_of(chosen: str, accepted: str) -> Language:
    """Return the language that the user chose.

    Otherwise returns the first supported language that the browser accepts, or English.
    """
    for each in (chosen, *accepted.lower().split(",")):
        match each.strip()[:2]:
            case "zh":
                return "zh"
            case "en":
                return "en"
            case _:
                continue
    return "en"
