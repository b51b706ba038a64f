"""Labels of the inspector in English and Chinese; the English label is the key.

A label missing here fails a test. Stored content and error messages are not translated; reasons are, by
`turnfold.inspect.reasons`.
"""

from __future__ import annotations

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
    "Replace MODEL with your model. Tool schemas are not stored, so they are missing.": (
        "请把 MODEL 换成所用的模型。工具定义不随调用保存，因此不在其中。"
    ),
    "Run it where the store is; set TURNFOLD_STORE.": (
        "请在存储所在处运行；用 TURNFOLD_STORE 指明存储。"
    ),
    "active": "有效",
    "added": "新增",
    "after": "之后",
    "healthy": "正常",
    "requests": "请求",
    "as a context would show it": "在上下文中的样子",
    "backend": "后端",
    "before": "之前",
    "budget": "预算",
    "by day (UTC)": "按日（UTC）",
    "by meaning": "含义",
    "by neighbours": "相邻",
    "by words": "词语",
    "bytes": "字节",
    "cache": "缓存",
    "cache break: tokens the provider had cached are paid for again": "缓存中断：服务商已缓存的 token 要重新付费",
    "cache break: {tokens:,} tokens are paid for again": "缓存中断：{tokens:,} token 要重新付费",
    "cached": "缓存命中",
    "a fold: a new summary stands for older turns": "折叠：由新的摘要代替较早的轮次",
    "call": "调用",
    "call {number}": "调用 {number}",
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
    "created": "创建",
    "cut": "裁剪",
    "dark or light": "深色或浅色",
    "day": "日期",
    "details": "详情",
    "details need a token with the right admin": "详情需要带 admin 权限的访问令牌",
    "digest": "摘要值",
    "dropped": "丢弃",
    "entries": "记录",
    "entry": "记录",
    "every entry of the log is in this call": "日志的每条记录都在这次调用里",
    "fate": "去向",
    "fidelity": "保真度",
    "metrics": "指标",
    "file": "文件",
    "files": "文件",
    "first difference": "首处不同",
    "first message": "第一条消息",
    "folded": "折叠",
    "fork from here": "从这里分叉",
    "free": "空余",
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
    "list prices of {date} in {currency}": "{date} 的标价，单位 {currency}",
    "{calls:,} calls have no figures of the provider: they are estimated, without their output (≈)": (
        "{calls:,} 次调用没有服务商的数字：按估计计算，不含输出（≈）"
    ),
    "insights": "要点",
    "it contains media, which is too long to copy": "其中含有媒体，太长，无法复制",
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
    "no sessions yet": "还没有会话",
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
    "recall": "回忆",
    "recalled": "召回",
    "removed": "删除",
    "reported": "服务商的计数",
    "reserve": "预留",
    "role": "角色",
    "score": "分数",
    "search": "搜索",
    "search in all sessions": "在所有会话中搜索",
    "section": "部分",
    "sent, in this order": "按此顺序发送",
    "seq": "序号",
    "session": "会话",
    "sessions": "会话",
    "show more": "显示更多",
    "shrunk": "缩短",
    "side by side": "并排比较",
    "sign in": "登录",
    "{messages:,} identical messages": "{messages:,} 条相同的消息",
    "sign out": "退出",
    "size": "大小",
    "skip to the content": "跳到内容",
    "snapshot": "快照",
    "snapshots": "快照",
    "source range": "覆盖范围",
    "state": "状态",
    "streams open": "打开的事件流",
    "summary": "摘要",
    "system": "系统",
    "tail": "尾部",
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
    "trust": "可信级别",
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
        "第 {index} 条消息，第 {character} 个字符，约为提示的第 {token:,} 个 token"
    ),
    "counted differently than when recorded: the counter {counter} is unknown here": (
        "与当时的计数不同：本程序不认识计数方式 {counter}"
    ),
    "only the first {read:,} sessions by name were read; search by name prefix": (
        "只查看了按名称排序的前 {read:,} 个会话；可按名称开头搜索"
    ),
    "prefix of the session name": "会话名称的开头",
    "calls from {first} on": "从 {first} 起的调用",
    "tokens shown to the model": "展示给模型的 token 数",
    "the newest {shown:,} calls": "最新的 {shown:,} 次调用",
    "the provider counted {reported:,} ({cached:,} cached); we are {off:+.1%} off": (
        "服务商计为 {reported:,}（缓存 {cached:,}）；我们的偏差为 {off:+.1%}"
    ),
    "nothing was cached, although {shared:,} tokens at the beginning were those of the call before": (
        "没有用上缓存，尽管开头的 {shared:,} token 与上一次调用相同"
    ),
    "identical: {messages} messages, {tokens:,} tokens; the {rest:,} after them are not cached": (
        "相同：{messages} 条消息，{tokens:,} token；其后的 {rest:,} token 没有缓存可用"
    ),
    "{allowed:,} tokens allowed": "可用 {allowed:,} token",
    "{ratio:.1f} times shorter: {before:,} tokens to {after:,}": (
        "缩短为 1/{ratio:.1f}：{before:,} token 变为 {after:,}"
    ),
    "{shown:,} of {total:,}": "{total:,} 个中的 {shown:,} 个",
    "{size} of {kind}, not loaded": "{kind}，{size}，未加载",
    "{size:,} characters, not shown": "{size:,} 个字符，未显示",
}


class PageLabels:
    """Labels in one language."""

    def __init__(self, language: Language) -> None:
        self.language: Language = language

    def __call__(self, english: str, **figures: object) -> str:
        """Return a label with its figures filled in."""
        label = CHINESE[english] if self.language == "zh" else english
        return label.format(**figures) if figures else label

    def reason(self, reason: str) -> str:
        """Return the reason of a receipt or a comparison."""
        return translate_reason(reason, self.language)

    def known(self, word: str) -> str:
        """Return the label of a name from elsewhere, such as a section; the name itself if it has none."""
        return CHINESE.get(word, word) if self.language == "zh" else word


def language_of(chosen: str, accepted: str) -> Language:
    """Return the language chosen before, else the first supported one the browser accepts, else English."""
    for each in (chosen, *accepted.lower().split(",")):
        match each.strip()[:2]:
            case "zh":
                return "zh"
            case "en":
                return "en"
            case _:
                continue
    return "en"
