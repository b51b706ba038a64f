"""Chinese translations of the sentences that commands print: their errors, results of `doctor`, lines of `chat`.

The English sentence is the key; names in braces are placeholders for values. Code writes every sentence in English, and
`turnfold.cli.chinese_labels.translated` looks it up when it is printed, so JSON and logs stay English. Errors of the
library that users of commands meet are in `chinese_library_errors`; of others, the terminal shows the kind of error in
Chinese and the message in English.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnfold.cli.chinese_library_errors import LIBRARY_ERRORS

__all__ = (
    "FAULTS",
    "MESSAGES",
    "PROBLEMS",
)


_BROKEN: Final[Mapping[str, str]] = {
    "not a list": "不是列表",
    "empty": "为空",
    "the role {role} is not allowed": "不能用角色 {role}",
    "content is neither text nor a list": "content 既不是文本也不是列表",
    "content is neither text nor a list of blocks": "content 既不是文本也不是块的列表",
    "no content": "没有内容",
    "no {field}": "缺少 {field}",
    "the last block is thinking": "最后一个块是思考内容",
    "thinking in a message of role {role}": "角色为 {role} 的消息含有思考内容",
    "a thinking block without text": "思考块没有文本",
    "a cache mark on a thinking block": "思考块上有缓存标记",
    "a tool call in a message of role {role}": "角色为 {role} 的消息含有工具调用",
    "the id {id} is not allowed": "不能用 id {id}",
    "the name {name} is not allowed": "不能用名称 {name}",
    "input is not an object": "input 不是对象",
    "a tool result in a message of role {role}": "角色为 {role} 的消息含有工具结果",
    "a source of type {kind} is not allowed, or lacks a field": "source 的类型 {kind} 不可用，或缺少字段",
    "the first message is the assistant's": "第一条消息是助手的",
    "a system message must follow a user message": "系统消息必须跟在用户消息之后",
    "a system message may only hold text": "系统消息只能含文本",
    "other content comes before a tool result": "工具结果之前有其他内容",
    "neither text nor a list": "既不是文本也不是列表",
    "{marks} cache marks; at most {most} are allowed": "有 {marks} 个缓存标记，最多 {most} 个",
    "the current turn does not begin with thinking": "当前轮次没有以思考内容开头",
    "not an object": "不是对象",
    "only white space": "只有空白",
    "thinking after a tool call": "思考内容在工具调用之后",
    "a block without a type": "块没有类型",
    "no result for {id} follows": "后面没有 {id} 的结果",
    "result for {id} without its call": "{id} 的结果没有对应的调用",
    "two results for {id}": "{id} 有两个结果",
    "not a text block": "不是文本块",
    "the id {id} is used twice": "id {id} 用了两次",
    "empty text": "空文本",
    "a text block without text": "文本块没有文本",
    "empty, or only white space": "为空，或只有空白",
    "the first content is the model's": "第一个 content 是模型的",
    "parts is not a list": "parts 不是列表",
    "no parts": "没有 parts",
    "a part must have one data field; it has {number}": "一个 part 必须有一个数据字段，这里有 {number} 个",
    "a tool call without its signature": "工具调用没有签名",
    "the text field is not text": "text 字段不是文本",
    "{field} is not an object": "{field} 不是对象",
    "response is not an object": "response 不是对象",
    "args is not an object": "args 不是对象",
    "a tool call in a content that is not the model's": "不属于模型的 content 含有工具调用",
    "a tool call directly after another content of the model": "工具调用紧跟在模型的另一个 content 之后",
    "the {calls} calls have no matching results after them": "{calls} 个调用之后没有对应的结果",
    "a tool result in a content of the model": "模型的 content 含有工具结果",
    "the {results} results have no matching calls before them": "{results} 个结果之前没有对应的调用",
    "text together with tool results": "文本与工具结果在一起",
    "{field} without its data": "{field} 没有数据",
    "a function message without the function's name": "function 消息没有函数名",
    "an empty list": "空列表",
    "a call of type {kind} is not allowed": "不能用类型为 {kind} 的调用",
    "arguments are not text": "arguments 不是文本",
    "two calls have the same id": "两个调用的 id 相同",
    "tool_calls must be a list, in an assistant message": "tool_calls 必须是列表，并在助手消息中",
    "no content and no tool calls": "既没有内容也没有工具调用",
    "a {kind} block without text, or not in an assistant message": "{kind} 块没有文本，或不在助手消息中",
    "an empty list of calls": "调用列表为空",
    "{kind} in a message of the {role}": "{role} 消息中有 {kind}",
    "a block of type {kind} is not allowed": "不能用类型为 {kind} 的块",
    "the id {id} does not begin with {start}": "id {id} 不以 {start} 开头",
    "the call_id {id} is not allowed": "不能用 call_id {id}",
    "{field} is not text": "{field} 不是文本",
    "output is neither text nor a list": "output 既不是文本也不是列表",
    "no output of the model follows the reasoning": "推理之后没有模型的输出",
    "{kind} is not allowed in a message of this role": "这种角色的消息不能含 {kind}",
    "no output for {id}": "{id} 没有输出",
    "an item without a type": "条目没有类型",
    "the call_id {id} is used twice": "call_id {id} 用了两次",
    "output for {id} without its call": "{id} 的输出没有对应的调用",
    "two outputs for {id}": "{id} 有两个输出",
    "reasoning without a summary list": "推理没有 summary 列表",
}
_REPAIRS: Final[Mapping[str, str]] = {
    "{path} left out: {problem}": "{path} 去掉：{problem}",
    "{path} converted: {problem}": "{path} 转换：{problem}",
    "{path} moved: {problem}": "{path} 移动：{problem}",
    "{path} added: {problem}": "{path} 添加：{problem}",
    "sent as text: {problem}": "作为文本发送：{problem}",
    "content that is not a list of blocks, sent as text": "content 不是块的列表，作为文本发送",
    "the {marks} cache marks above the limit of {most}": "超过上限 {most} 的 {marks} 个缓存标记",
    "no list of messages": "没有消息列表",
    "switched off: the current turn does not begin with thinking": "已关闭：当前轮次没有以思考内容开头",
    "not a message": "不是消息",
    "the role {role}, sent as user": "角色 {role}，作为 user 发送",
    "a message without content that can be sent": "没有可发送内容的消息",
    "the tool results, to the beginning of the message": "工具结果移到消息开头",
    "thinking, to before the tool calls": "思考内容移到工具调用之前",
    "thinking at the end of a message": "消息末尾的思考内容",
    "not a block": "不是块",
    "thinking that is not signed, or not in an assistant message": "没有签名或不在助手消息中的思考内容",
    "the name {name}, which the provider refuses": "名称 {name}，服务商会拒绝",
    "input that is not an object, wrapped in one": "input 不是对象，包成对象",
    "a tool result whose tool_use_id is not text": "tool_use_id 不是文本的工具结果",
    "a message, because there was none": "一条消息，因为原来没有",
    "neither text nor a list, sent as text": "既不是文本也不是列表，作为文本发送",
    "a system message that does not follow a user message, sent as a user message": (
        "不跟在用户消息之后的系统消息，作为用户消息发送"
    ),
    "a user message before the first assistant message": "第一条助手消息之前的一条用户消息",
    "the result for {id} has no unanswered call: sent as text": "{id} 的结果没有等待它的调用：作为文本发送",
    "a result for the call {id}, which had none": "调用 {id} 的结果，原来没有",
    "the result for {id}, to directly after its call": "{id} 的结果移到它的调用之后",
    "the id {id}, which the provider refuses, is now {new}": "id {id} 会被服务商拒绝，现为 {new}",
    "no list of contents": "没有 contents 列表",
    "a content, because there was none": "一个 content，因为原来没有",
    "not a content": "不是 content",
    "a content without parts that can be sent": "没有可发送 parts 的 content",
    "text together with tool results, into a separate content": "与工具结果在一起的文本移到单独的 content",
    "one part with {number} data fields, split: {fields}": "有 {number} 个数据字段的 part，已拆开：{fields}",
    "a part without data": "没有数据的 part",
    "{field} that is not an object": "{field} 不是对象",
    "a tool call in a content that is not the model's, as text": "不属于模型的 content 中的工具调用，作为文本",
    "{field} that is not an object, wrapped in one": "{field} 不是对象，包成对象",
    "an id that is not text": "不是文本的 id",
    "the name {name}, replaced by the name in its call": "名称 {name}，改用调用中的名称",
    "the placeholder that Google documents for the signature of another model's call": (
        "Google 文档为其他模型的调用规定的签名占位符"
    ),
    "a tool call, into the previous content of the model": "工具调用移到模型的上一个 content",
    "a user content before the first content of the model": "模型的第一个 content 之前的一个用户 content",
    "an author's name that cannot be sent": "无法发送的作者名",
    "a block of type {kind} that cannot be sent": "类型为 {kind} 的块无法发送",
    "tool calls that are not a list, or not in an assistant message": "工具调用不是列表，或不在助手消息中",
    "not a call": "不是调用",
    "arguments that are not text, sent as JSON text": "arguments 不是文本，作为 JSON 文本发送",
    "no content, sent as empty text": "没有内容，作为空文本发送",
    "content that is neither text nor a list, sent as text": "content 既不是文本也不是列表，作为文本发送",
    "an empty list, sent as empty text": "空列表，作为空文本发送",
    "{kind} in a message that may only hold text": "只能含文本的消息中有 {kind}",
    "an id that does not begin with {start}": "不以 {start} 开头的 id",
    "a block of type {kind} that this message cannot hold": "这条消息不能含类型为 {kind} 的块",
    "not an item": "不是条目",
    "a summary that is not a list": "summary 不是列表",
    "{field} that is not text, sent as JSON text": "{field} 不是文本，作为 JSON 文本发送",
    "output that is neither text nor a list, sent as text": "output 既不是文本也不是列表，作为文本发送",
    "{kind}, as {new}": "{kind}，作为 {new}",
    "a {kind} whose output is missing": "缺少输出的 {kind}",
    "reasoning without an output of the model after it": "后面没有模型输出的推理",
    "a tool of {owner}, which {provider} does not have": "{owner} 的工具，{provider} 没有",
}
FAULTS: Final[Mapping[str, str]] = {**_BROKEN, **_REPAIRS}
"""English fault or repair of `turnfold lint` -> Chinese; names in braces are placeholders for values."""
PROBLEMS: Final[Mapping[str, str]] = {
    "line {line}: {problem}": "第 {line} 行：{problem}",
    "message {key}: {problem}": "消息 {key}：{problem}",
    "row {number} of {table}: {problem}": "{table} 第 {number} 行：{problem}",
    "it has neither messages nor conversations": "里面既没有消息，也没有会话",
    "not JSON: {error}": "不是 JSON：{error}",
    "role: unknown role {role}. Use one of {known}: use {right} for it": (
        "role：没有角色 {role}，这里应写 {right}；可以是：{known}"
    ),
    "role: unknown role {role}. Use one of {known}": "role：没有角色 {role}，可以是：{known}",
    'role: the message has no role. Add "role"': "role：消息没有角色，请加上 role",
    "conversation {name} is already on line {line}": "会话 {name} 已在第 {line} 行",
    "nested too deeply to be read": "嵌套太深，无法读取",
    "the file ends inside its list: it is truncated": "文件在列表中间结束：文件不完整",
    "the file ends inside this value, or it is not a JSON object, or nested too deeply": (
        "文件在这个值中间结束，或它不是 JSON 对象，或嵌套太深"
    ),
    "not a ChatGPT conversation: it has no mapping": "不是 ChatGPT 的会话：没有 mapping",
    "expected a memory of mem0 with a text in `memory`": "应是 mem0 的记忆，`memory` 中有文本",
    "expected a message of LangChain, got type {kind}": "应是 LangChain 的消息，类型却是 {kind}",
    "expected a message or a conversation, got {kind}": "应是消息或会话，却是 {kind}",
    "expected a transcript line, got {kind}": "应是一行会话记录，却是 {kind}",
    "the key {key} is given twice": "键 {key} 出现了两次",
    "empty message of the {role}": "{role} 的空消息",
    "message of type remove": "类型为 remove 的消息",
    "message on an abandoned branch": "被放弃的分支上的消息",
    "field {name}": "字段 {name}",
    "line of type {kind}": "类型为 {kind} 的行",
}
"""English reason why `turnfold import` left something out -> Chinese; names in braces are placeholders for values."""


_ERRORS: Final[Mapping[str, str]] = {
    "no costs: {reason}": "不计费用：{reason}",
    "no price for {model} among the {models} models in the prices of {date}: write a price table of your own (docs: "
    "recipes/costs.md) and name it with load_prices(FILE), or --prices FILE": (
        "{date} 的价目（{models} 个模型）中没有 {model} 的价格：请写一份价目（格式见文档 recipes/costs.md），"
        "用 load_prices(FILE) 或 --prices FILE 指明"
    ),
    "unknown strategy {name}; use {known}, or several joined with '+'": (
        "没有策略 {name}；可用：{known}，或用 + 连接几个"
    ),
    "no call to simulate: none of the {number} messages is an assistant's reply to another message": (
        "没有可重放的调用：{number} 条消息中没有助手对其他消息的回答"
    ),
    "port={port} must be 0 to 65535; 0 means any free port": "端口 {port} 须在 0 到 65535 之间；0 表示任选一个空闲端口",
    "--upstream {address} is not the address of a provider: for example https://api.openai.com": (
        "--upstream {address} 不是服务商的地址：写成 https://api.openai.com"
    ),
    "there is no checkpoint {id} to drop: `turnfold checkpoints` lists all checkpoints": (
        "没有可弃用的检查点 {id}：`turnfold checkpoints` 会列出"
    ),
    "--host {host} can be reached from other machines, and without --tokens-file anybody could read and delete "
    "everything. Create a token (turnfold tokens create), or listen on 127.0.0.1": (
        "从其他机器可以访问 --host {host}；没有 --tokens-file，任何人都能读取和删除全部内容。"
        "请创建访问令牌（turnfold tokens create），或监听 127.0.0.1"
    ),
    "line {line}: {number} items in {path} cannot be read: {problem}. Nothing was imported. Fix them, or skip them "
    "with --skip-bad (skip_bad=True)": (
        "{path} 从第 {line} 行起有 {number} 处无法读取：{problem}。没有导入任何内容；请改正，或用 --skip-bad 跳过"
    ),
    "line {line}: {number} item in {path} cannot be read: {problem}. Nothing was imported. Fix them, or skip them "
    "with --skip-bad (skip_bad=True)": (
        "{path} 从第 {line} 行起有 {number} 处无法读取：{problem}。没有导入任何内容；请改正，或用 --skip-bad 跳过"
    ),
    "{path} has no messages in the format {format}. If it is in another format, name it: one of {known}": (
        "{path} 里没有 {format} 格式的消息。若是别的格式，请指明：{known}"
    ),
    "line {line}: {path} cannot be imported: {problem}. Nothing was imported. Fix this line, or skip it with "
    "--skip-bad (skip_bad=True)": (
        "{path} 第 {line} 行无法导入：{problem}。没有导入任何内容；请改正这一行，或用 --skip-bad 跳过"
    ),
    "no session of user {user}: no id is {id} or begins with {prefix}, and no message or owner has this user_id": (
        "没有用户 {user} 的会话：没有等于 {id} 或以 {prefix} 开头的 id，也没有消息或所有者带有这个 user_id"
    ),
    "unknown store {store}; known: {known}.": "没有这种存储：{store}；可用：{known}",
    'unknown store {store}; known: {known}. For a file write "{file}".': (
        "没有这种存储：{store}；可用：{known}。文件请写成 {file}"
    ),
    "unknown format {format}; use one of {known}": "没有格式 {format}，可以是：{known}",
    "time_zone={name} is no IANA time zone that this system knows: for example "
    'time_zone="Asia/Shanghai" or "UTC"; where '
    "all are unknown, `pip install tzdata`": (
        "本系统不认识时区 {name}：请写 IANA 名称，例如 Asia/Shanghai 或 UTC；若都不认识，请 `pip install tzdata`"
    ),
    "TURNFOLD_LANG={given} is neither zh nor en, and is ignored": "TURNFOLD_LANG={given} 既不是 zh 也不是 en，不起作用",
    "--once needs a text to send": "--once 需要有要发送的文本",
    "--json needs --once TEXT": "--json 须与 --once TEXT 一起使用",
    "--base-url needs --model, because it names only the server": (
        "--base-url 只指明服务器，须同时给出 --model"
    ),
    "{model} needs a key: set {name}, or name a server of your own with --base-url; without --model, chat works "
    "offline": "{model} 需要密钥：请设置 {name}，或用 --base-url 指明自己的服务器；不带 --model 时 chat 可离线使用",
    "/recall needs words to search for, for example: /recall spare key": "/recall 后面要有词语，例如：/recall 备用钥匙",
    "/pin needs a text, for example: /pin answer in two sentences": "/pin 后面要有一段文字，例如：/pin 用两句话回答",
    "/history takes a number of messages, for example: /history 20": "/history 后面是消息的条数，例如：/history 20",
    "/session needs an id: /session @last; /new begins a new session": (
        "/session 后面要有会话 id，例如：/session @last；新建会话用 /new"
    ),
    "give exactly one of: a session, --user, --all, --verify": "请只给出其中一个：会话、--user、--all、--verify",
    "--entry and --reason erase one entry: give the session and --entry": (
        "--entry 与 --reason 用于删除一条记录：请给出会话与 --entry"
    ),
    "only a SQLite store can be copied as a file; for PostgreSQL use pg_dump, or `turnfold export --all`": (
        "只有 SQLite 存储能按文件复制；PostgreSQL 请用 pg_dump，或 `turnfold export --all`"
    ),
    "rotating needs a file with the new key and, on the next line, the old one: name it with --encryption-key-file": (
        "更换密钥需要一个文件：第一行是新密钥，下一行是旧密钥；用 --encryption-key-file 指明"
    ),
    "this erases {what} for good, which must be confirmed: add --yes": "需要确认：这会永久删除{what}，请加上 --yes",
    "not confirmed, so nothing was deleted": "未确认，没有删除任何内容",
    "to delete, give the whole id of the session: {name}": "要删除，请给出会话的完整 id：{name}",
    "cannot read the receipt {path}: {error}": "无法读取回执 {path}：{error}",
    "{path} is not a receipt of an erasure: {error}": "{path} 不是删除的回执：{error}",
    "{path} exists already: give the name of a new file, or replace it with --force": (
        "{path} 已存在：请给出新文件的名称，或用 --force 替换它"
    ),
    "{path} exists already: give the name of a new file": "{path} 已存在：请给出新文件的名称",
    "several sources were given: give only one of these: a session or file, --all, --set FILE": (
        "给出了多个来源：只能是会话或文件、--all、--set FILE 之一"
    ),
    "--budget {given} is not a number of tokens: for example 2000 or 2000,8000": (
        "--budget {given} 不是 token 数：写成 2000 或 2000,8000"
    ),
    "--budget {budget}: not even the first call fits. {reason}": "--budget {budget}：连第一次调用也放不下。{reason}",
    "no sessions of tenant {tenant} in {store}: check --store and --tenant": (
        "{store} 中没有租户 {tenant} 的会话：请检查 --store 和 --tenant"
    ),
    "there are no messages in {path}: give a file with a conversation": "{path} 中没有消息：请给出含有会话的文件",
    "no conversation in {path}": "{path} 中没有会话",
    "nothing to evaluate: none of the {number} conversations has an answer or a question": (
        "没有可评测的内容：{number} 个会话都没有回答或问题"
    ),
    "cannot read the summary {path}: {error}": "无法读取摘要 {path}：{error}",
    "provider {provider} is not one of {known}": "没有服务商 {provider}，可以是：{known}",
    "{path} is not text in UTF-8 (byte {at}): save it as UTF-8": (
        "{path} 不是 UTF-8 文本（第 {at} 字节）：请另存为 UTF-8"
    ),
    "{path} is nested too deeply to be read as a history": "{path} 嵌套太深，无法作为历史读取",
    "{path} is neither JSON nor JSON Lines: {error}": "{path} 既不是 JSON 也不是 JSON Lines：{error}",
    "--tokens-file, --allow-host and --allow-origin apply to HTTP: add --http, or leave them out": (
        "--tokens-file、--allow-host 和 --allow-origin 只用于 HTTP：请加上 --http，或去掉它们"
    ),
    "no pin {key} in {session}; pinned: {names}": "{session} 中没有固定项 {key}；现有：{names}",
    "--model-budget {given} is not a model and its tokens: for example gpt-5=100000": (
        "--model-budget {given} 不是模型名和 token 数：例如 gpt-5=100000"
    ),
    "{number}, but none with the id {session}; their ids: {shown}": (
        "{number}，但没有 id 为 {session} 的；它们的 id：{shown}"
    ),
    "--session selects a conversation of a file, but there is no file {source}": (
        "--session 用来选文件中的会话，但没有文件 {source}"
    ),
    "{number}: select one with --session, for example {shown}": "{number}：请用 --session 选一个，例如 {shown}",
    "cannot read {path}: {reason}": "无法读取 {path}：{reason}",
    "{path} is not a JSON list of tool schemas": "{path} 不是工具定义的 JSON 列表",
    "{path} is not a JSON list of tool schemas: {error}": "{path} 不是工具定义的 JSON 列表：{error}",
    "no such file: {path}": "没有这个文件：{path}",
    "--turns {text} is neither a turn number nor a range: for example 7 or 3-9": (
        "--turns {text} 既不是轮次也不是范围：写成 7 或 3-9"
    ),
    "{text} is not a day or time: for example 2026-01-31 or 2026-01-31T12:00": (
        "{text} 不是日期或时间：写成 2026-01-31 或 2026-01-31T12:00"
    ),
    "{name} is no session: to write the export to that file, put --output before its name": (
        "{name} 不是会话：要导出到这个文件，请在它前面写上 --output"
    ),
    "no session {name} in {address}; it looks like a file: `--store {store}` opens a store, `turnfold import {file}` "
    "reads conversations of other programs": (
        "{address} 中没有会话 {name}；它像是文件：`--store {store}` 打开存储，"
        "`turnfold import {file}` 读入其他程序的对话"
    ),
    "no session {name} of tenant {tenant} in {store}; `turnfold sessions` lists all sessions": (
        "{store} 中没有租户 {tenant} 的会话 {name}；`turnfold sessions` 会列出已有的会话"
    ),
    "the store looks like an address without a scheme: use postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
    "or sqlite:///PATH for a file of such a name": (
        "存储像是没有协议的地址：写成 postgresql://USER:PASSWORD@HOST:PORT/DATABASE，"
        "若是这个名称的文件，写成 sqlite:///PATH"
    ),
    "no store at {path}. Name one with --store or TURNFOLD_STORE; `turnfold chat` and `turnfold import` create one": (
        "{path} 处没有存储。用 --store 或 TURNFOLD_STORE 指明；`turnfold chat` 和 `turnfold import` 会创建存储"
    ),
    "the file {path} is empty, so it is no store yet. Name another with --store or TURNFOLD_STORE; `turnfold chat` and "
    "`turnfold import` make it one": (
        "文件 {path} 是空的，还不是存储。用 --store 或 TURNFOLD_STORE 指明另一个；"
        "`turnfold chat` 和 `turnfold import` 会把它变成存储"
    ),
    "{name} matches several sessions: {shown}; give a longer prefix or the whole id": (
        "{name} 与多个会话相符：{shown}；请给出更长的前缀或完整的 id"
    ),
    "{name} is not a call: use its number, its id, {last} or {previous}; `turnfold explain {session} --list` lists "
    "the calls": (
        "{name} 不是调用：可用它的编号、id、{last} 或 {previous}；`turnfold explain {session} --list` 会列出调用"
    ),
    "a rule must have 1 to {most} characters, this one has {length}: shorten it, or use pin()": (
        "规则须有 1 到 {most} 个字符，这条有 {length} 个：请缩短，或用 `turnfold pin`"
    ),
    "the call is named twice: give it as an argument or with --call": (
        "调用只能给出一次：作为参数，或用 --call"
    ),
    "no call {name} in {session}: {reason}": "{session} 中没有调用 {name}：{reason}",
    "calls are numbered from 1 to {calls}": "调用的编号从 1 到 {calls}",
    "it has no calls yet": "它还没有调用",
    "call 1 of {session} is the first call, so there is no call before it to compare with: name two calls": (
        "{session} 的第 1 次调用之前没有别的调用可供对比：请给出两次调用"
    ),
    "session {session} has {calls} calls, so there is no {name}": (
        "会话 {session} 有 {calls} 次调用，因此没有 {name}"
    ),
    "session {session} has {calls} call, so there is no {name}": (
        "会话 {session} 有 {calls} 次调用，因此没有 {name}"
    ),
    "the format of {name} is not known ({problem}). If it is one of the following, name it with --format: {known}": (
        "认不出 {name} 的格式（{problem}）。若是下列之一，请用 --format 指明：{known}"
    ),
    "call {number} of {calls}: {reason}": "第 {number} 次调用（共 {calls} 次）：{reason}",
    "framing of {number} system message": "{number} 条系统消息的外框",
    "framing of {number} system messages": "{number} 条系统消息的外框",
    "text, each part cut to {most} tokens": "正文，每段截到 {most} token",
    "system": "系统消息",
    "pins": "固定项",
    "this pin": "这个固定项",
    "reply opening": "回答开头",
    "newest turn": "最新一轮",
    "newest turn, no part above {most} tokens": "最新一轮，每段不超过 {most} token",
    "They cannot be cut further: raise the budget, raise Shares(system=...), or send fewer": (
        "系统消息不能再缩短：请提高预算或份额 Shares(system=...)，或少发一些"
    ),
    "Pins are sent word for word: unpin some, raise the budget, or raise Shares(tail=...)": (
        "固定项按原文发送：请取消一些固定项，或提高预算或份额 Shares(tail=...)"
    ),
    "Pins are sent word for word: nothing was pinned; pin less, unpin others, raise the budget of the memory, or raise "
    "Shares(tail=...)": (
        "固定项按原文发送：没有固定任何内容；请少固定一些、取消其他固定项，或提高记忆的预算或份额 Shares(tail=...)"
    ),
    "The newest turn cannot be left out or shortened further: {remedy}": "最新一轮不能省略，也不能再缩短：{remedy}",
    "give the text to pin, or --entry with the number of an entry": (
        "请给出要固定的文字，或用 --entry 给出记录的序号"
    ),
    "session {name} was deleted: nothing of it is stored": "会话 {name} 已删除：不再保存它的任何内容",
    "no active rule {key} in {session}; `turnfold rules` lists the active rules, by id and seq": (
        "{session} 中没有有效的规则 {key}；`turnfold rules` 会列出，可用 id 或序号"
    ),
    "the store is named twice: give it as an argument or with --store": (
        "存储指定了两次：只用参数，或只用 --store"
    ),
    "the session is named twice: give it as an argument or with --session": (
        "会话只能给出一次：作为参数，或用 --session"
    ),
    "--json prints JSON only, and markdown is not JSON: name a file for it with --output FILE": (
        "--json 只输出 JSON，而 markdown 不是 JSON：请用 --output FILE 指定文件"
    ),
    "--base-url {given} has no scheme: use http://{address}": (
        "--base-url {given} 没有协议：请写 http://{address}"
    ),
    "--set {file}: {problem}": "--set 的文件 {file}：{problem}",
    "format {format} is not one of {known}": "没有格式 {format}，可以是：{known}",
    "give either the sessions to export or --all, not both": "请给出要导出的会话，或 --all，二者取一",
    "give the sessions to export, or --all": "请给出要导出的会话，或 --all",
    "{path} is empty: give a file with a conversation": "{path} 是空的：请给出有对话的文件",
    "{path} is a folder: give a file": "{path} 是文件夹：请给出文件",
    "there is no file {source}, and {reason}": "没有文件 {source}；{reason}",
    "there are no messages in {path}: give a request body, a list of messages, or a file that `turnfold import` can "
    "read": "{path} 中没有消息：请给出请求体、消息列表，或 `turnfold import` 能读的文件",
    "mandatory parts need {needed} {unit} ({parts}) but the budget allows {allowed}. {remedy}": (
        "必需的部分要 {needed} {unit}（{parts}），预算只有 {allowed}。{remedy}"
    ),
    "mandatory parts need {needed} {unit} ({parts}) but their share of the budget of {budget} is {allowed}. {remedy}": (
        "必需的部分要 {needed} {unit}（{parts}），但预算 {budget} 中它们的份额只有 {allowed}。{remedy}"
    ),
    "mandatory parts need {needed} {unit} ({parts}) but their share of the budget of {budget} is {allowed}: a budget "
    "of {least} has room for them. {remedy}": (
        "必需的部分要 {needed} {unit}（{parts}），但预算 {budget} 中它们的份额只有 {allowed}："
        "预算 {least} 才放得下。{remedy}"
    ),
    "raise the budget ({arithmetic})": "请提高预算（{arithmetic}）",
    "raise max_bytes ({most})": "请提高 max_bytes（{most}）",
    "Nothing is left for the conversation: raise the budget ({arithmetic}) or send fewer tools": (
        "没有剩给对话的部分：请提高预算（{arithmetic}），或少发一些工具"
    ),
    "Nothing is left for the conversation: raise the budget ({arithmetic})": (
        "没有剩给对话的部分：请提高预算（{arithmetic}）"
    ),
    "The summary share is too small for a summary: raise the budget or the share, or clear the summary": (
        "摘要的份额放不下摘要：请提高预算或份额，或清除摘要"
    ),
    "conversation {mark} is encrypted with the key {key}, and no key was given. Nothing was shown or written. Give "
    "the key: encryption_key=, or for commands and the service --encryption-key-file PATH or "
    "TURNFOLD_ENCRYPTION_KEY_FILE": (
        "会话 {mark} 用密钥 {key} 加密，但没有给出密钥；没有显示或写入任何内容。请给出密钥：程序用 encryption_key=，"
        "命令和服务用 --encryption-key-file PATH 或 TURNFOLD_ENCRYPTION_KEY_FILE"
    ),
    "the store is encrypted, and no key was given to write to conversation {mark}. Nothing was shown or written. Give "
    "the key: encryption_key=, or for commands and the service --encryption-key-file PATH or "
    "TURNFOLD_ENCRYPTION_KEY_FILE": (
        "存储已加密，但没有给出写入会话 {mark} 所需的密钥；没有显示或写入任何内容。请给出密钥：程序用 encryption_key=，"
        "命令和服务用 --encryption-key-file PATH 或 TURNFOLD_ENCRYPTION_KEY_FILE"
    ),
    "conversation {mark} needs the encryption key with the id {key}; given: {given}. Nothing was read. Give that key, "
    "after the current one if it is an old one": (
        "会话 {mark} 需要 id 为 {key} 的加密密钥；给出的是：{given}。没有读取任何内容。"
        "请给出那个密钥；若是旧密钥，放在当前密钥之后"
    ),
    "cannot connect to PostgreSQL: {reason}": "无法连接 PostgreSQL：{reason}",
    "the folder {folder} does not exist; create it first": "文件夹 {folder} 不存在；请先创建它",
    "cannot write {path}: the folder {folder} does not exist; create it first": (
        "无法写入 {path}：文件夹 {folder} 不存在；请先创建它"
    ),
    "cannot use {path}: {reason}": "无法使用 {path}：{reason}",
    "cannot open {path}: {error}": "无法打开 {path}：{error}",
    "cannot listen on {host} port {port}: {error}. Choose another port with --port; 0 picks a free one": (
        "无法监听 {host} 的端口 {port}：{error}。请用 --port 换一个端口；0 表示任选空闲端口"
    ),
    "nothing was written: {reason}": "没有写入任何内容：{reason}",
    "{purpose} needs the package {package}: pip install {wanted}": (
        "{purpose} 需要软件包 {package}：pip install {wanted}"
    ),
}
_USAGE: Final[Mapping[str, str]] = {
    "Missing command.": "请给出命令",
    "Missing argument {name}.": "请给出 {name}",
    "Missing argument {name}. Give its id, or @last for the newest": "请给出 {name}：它的 id，或用 @last 指最新的一个",
    "Missing option {name}.": "请给出选项 {name}",
    "No such command {name}.": "没有命令 {name}",
    "No such command {name}. To undo a fold, `turnfold checkpoints SESSION` lists the summaries and "
    "`turnfold checkpoints SESSION --drop ID` drops one": (
        "没有命令 {name}。要撤销折叠：`turnfold checkpoints SESSION` 列出摘要，"
        "`turnfold checkpoints SESSION --drop ID` 弃用其中一个"
    ),
    "No such command {name}. Did you mean {near}?": "没有命令 {name}，是不是 {near}？",
    "{name} belongs after the command: {example} ...": "{name} 要写在命令之后：{example} ...",
    "No such option: {name}": "{name} 不是这个命令的选项",
    "No such option: {name} (Possible options: {near})": "{name} 不是这个命令的选项，相近的有：{near}",
    "Got unexpected extra argument(s) ({given})": "多出的参数：{given}",
    "Option {name} requires an argument.": "选项 {name} 后面要有值",
    "Option {name} does not take a value.": "选项 {name} 后面不能有值",
    "Invalid value: {reason}": "{reason}（值不可用）",
    "Invalid value for {name}: {reason}": "{name}：{reason}（值不可用）",
    "Invalid value for {name}: Input should be a valid integer, unable to parse string as an integer, got {given}": (
        "{name} 应是整数，这里是 {given}"
    ),
    "Invalid value for {name}: Input should be a valid number, unable to parse string as a number, got {given}": (
        "{name} 应是数字，这里是 {given}"
    ),
    "Invalid value for {name}: Input should be greater than or equal to {least}, got {given}": (
        "{name} 至少为 {least}，这里是 {given}"
    ),
    "Invalid value for {name}: path {path} does not exist.": "{name}：没有文件 {path}",
    "Invalid value for {name}: Value error, {given} is not one of {known}.": (
        "{name}：{given} 不在可用的值之中：{known}"
    ),
}
"""Usage errors of the command line parser."""
_DOCTOR: Final[Mapping[str, str]] = {
    "extras": "可选依赖",
    "tokenizers": "分词器",
    "extra {extra}": "可选依赖 {extra}",
    "tokenizer {name}": "分词器 {name}",
    "sqlite in memory": "内存中的 sqlite",
    "store": "存储",
    "cache": "缓存",
    "store file": "存储文件",
    "store permissions": "存储权限",
    "contents": "内容",
    "disk": "磁盘",
    "folds": "折叠",
    "session {name}: folding failed {times} times, last with {error}": (
        "会话 {name}：折叠失败 {times} 次，最近一次是 {error}"
    ),
    "session {name}: folding failed {times} time, last with {error}": (
        "会话 {name}：折叠失败 {times} 次，最近一次是 {error}"
    ),
    "Check the summarizer; until it works, older turns are shown as an extract": (
        "请检查写摘要的模型；在它恢复之前，较早的轮次以摘录代替"
    ),
    "{address}: {backend} store ({facts})": "{address}：{backend} 存储（{facts}）",
    "terminal": "终端",
    "prices": "价目",
    "turnfold {version}, Python {python} on {system}": "turnfold {version}，{system} 上的 Python {python}",
    "Use Python 3.11 or newer": "请使用 Python 3.11 或更新的版本",
    "Before {safe} two connections can corrupt a file: upgrade apsw": (
        "在 {safe} 之前，两个连接可能损坏文件：请升级 apsw"
    ),
    "opens, full-text search available": "可以打开，支持全文搜索",
    "no full-text search": "不支持全文搜索",
    "Reinstall splintr-rs, which ships the vocabularies": "请重新安装 splintr-rs，词表由它提供",
    "{tokens} tokens for {characters} characters": "{characters} 个字符为 {tokens} 个 token",
    "{store} does not exist yet": "{store} 尚不存在",
    "{store} is empty": "{store} 是空的",
    "It is created with the first session": "会随第一个会话创建",
    "Its folder is not writable": "其文件夹不可写",
    "{address} does not answer": "{address} 没有应答",
    "{address} answers": "{address} 有应答",
    "Start Redis, or correct --cache: every read goes to the store": (
        "请启动 Redis，或改正 --cache：目前每次读取都要访问存储"
    ),
    "quick_check finds no damage": "quick_check 没有发现损坏",
    "Copy the file away, restore it from a backup, and check its disk": (
        "请把文件复制到别处，从备份恢复，并检查磁盘"
    ),
    "other users of this machine can open the store": "本机的其他用户可以打开存储",
    "only its owner can open the store": "只有所有者可以打开存储",
    "{read} entries read, checksums match": "已读取 {read} 条记录，校验和相符",
    "{read} entry read, checksums match": "已读取 {read} 条记录，校验和相符",
    "{read} entries read, checksums match; only the first {most} were read": (
        "已读取 {read} 条记录，校验和相符；只读取了前 {most} 条"
    ),
    "Restore the store from a backup, and check its disk": "请从备份恢复存储，并检查磁盘",
    "{free} GiB free on the disk of the store": "存储所在磁盘还有 {free} GiB",
    "Free disk space: a full disk fails every write": "请腾出磁盘空间：磁盘写满后任何写入都会失败",
    "Set LANG=C.UTF-8 (or PYTHONUTF8=1): Chinese cannot be shown in this encoding": (
        "请设置 LANG=C.UTF-8（或 PYTHONUTF8=1）：此编码无法显示中文"
    ),
    "{models} models, list prices of {date}": "{models} 个模型，{date} 的标价",
}
_CHAT: Final[Mapping[str, str]] = {
    "to continue: {command}": "继续：{command}",
    "the message is stored; to send it again: {command}": "消息已保存；再次发送：{command}",
    "(stopped; your message is stored)": "（已停止；你的消息已保存）",
    "no model is set, so this shows earlier messages that match; --model NAME answers": (
        "没有设置模型，这里显示的是匹配的旧消息；要得到回答，请用 --model 名称"
    ),
    "(no matching earlier message; stored)": "（没有匹配的旧消息；已保存）",
    "the repaired history is in {file}; the faults are those of {source}": (
        "修复后的历史在 {file}；以上问题是 {source} 的"
    ),
    "no active rule {name} in this session: /rules lists them": "本会话中没有生效的规则 {name}：/rules 列出它们",
    "rule dropped: {text}": "已弃用规则：{text}",
    "nothing earlier matches": "没有匹配的旧内容",
    "no command {word} in a chat; outside of it: {outside}": "聊天里没有命令 {word}；请在聊天之外运行：{outside}",
    "no command {word}: /help lists them; // begins a message with a slash": (
        "没有命令 {word}：/help 列出所有命令；// 用来发送以斜杠开头的消息"
    ),
    "no command {word}: did you mean {near}? /help lists them; // begins a message with a slash": (
        "没有命令 {word}：是不是 {near}？/help 列出所有命令；// 用来发送以斜杠开头的消息"
    ),
    "new session {name}; /help lists commands, Ctrl-D ends it": "新会话 {name}；/help 列出命令，Ctrl-D 结束",
    "session {name} ({entries} entries); /help lists commands, Ctrl-D ends it": (
        "会话 {name}（{entries} 条记录）；/help 列出命令，Ctrl-D 结束"
    ),
    "session {name} ({entries} entry); /help lists commands, Ctrl-D ends it": (
        "会话 {name}（{entries} 条记录）；/help 列出命令，Ctrl-D 结束"
    ),
    "pinned: every call shows it from your next message on": "已设为固定项：从你的下一条消息起，每次调用都会展示",
    "no rules yet": "还没有规则",
    "folded up to #{seq}": "已折叠到 #{seq}",
    "nothing to fold": "没有可折叠的内容",
    "No model is configured. Name one with --model (and --base-url for a server of your own, for example "
    "--model qwen3 --base-url http://localhost:11434/v1), or set TURNFOLD_MODEL.\n"
    "Until then this works offline: what you type is kept, and matching passages are quoted. Each start is a session "
    "of its own; turnfold chat @last goes on in the last one.": (
        "没有配置模型。用 --model 指明（自己的服务器再加 --base-url，例如 --model qwen3 --base-url "
        "http://localhost:11434/v1），或设置 TURNFOLD_MODEL。\n"
        "在此之前可以离线使用：输入的内容会保存，并引用匹配的旧内容。每次启动都是新的会话；"
        "turnfold chat @last 接着上一个会话。"
    ),
}
_OTHER: Final[Mapping[str, str]] = {
    "turnfold: model {model} is not known: its tokens are estimates": (
        "turnfold：不认识模型 {model}，token 数为估计值"
    ),
    "expires never": "永久有效",
    "expires {day}": "有效期至 {day}",
    "used never": "从未使用",
    "used {day}": "上次使用 {day}",
    "set the base URL of your program to {base}/s/SESSION/v1; Claude Code: ANTHROPIC_BASE_URL={address}. `turnfold ui` "
    "with the same --store shows each call. Ctrl-C ends the proxy.": (
        "把程序的 base URL 设为 {base}/s/SESSION/v1；Claude Code：ANTHROPIC_BASE_URL={address}。"
        "用 `turnfold ui` 加同样的 --store 可以逐次查看调用。按 Ctrl-C 结束代理。"
    ),
    "The link works once; the next one is printed when it was used. Ctrl-C ends the inspector.": (
        "此链接只能用一次；用过后会显示下一个。按 Ctrl-C 结束检查器。"
    ),
    "inspector (this link works once): {link}": "检查器（此链接只能用一次）：{link}",
    "token for programs, valid until this command ends: {token}": "供程序使用的访问令牌，到本程序结束为止：{token}",
    "token for clients, valid until this command ends: {token}": "供客户端使用的访问令牌，到本程序结束为止：{token}",
    "{store}: up to date": "{store}：已是最新",
    "{store} copied to {target} ({size} bytes)": "{store} 已复制到 {target}（{size} 字节）",
    "{store}, tenant {tenant}: {keys} keys encrypted with the new key": (
        "{store}，租户 {tenant}：已用新密钥重新加密 {keys} 个密钥"
    ),
    "{name}: {provider}: {faults} faults": "{name}：{provider}：{faults} 处问题",
    "{name}: {provider}: {faults} fault": "{name}：{provider}：{faults} 处问题",
    "{provider}: {faults} faults": "{provider}：{faults} 处问题",
    "{provider}: {faults} fault": "{provider}：{faults} 处问题",
    "repaired: {change}": "已修复：{change}",
    "repaired by itself in the requests made from context(): {change}": (
        "由 context() 生成请求时会自动修复：{change}"
    ),
    "would be repaired with --mend FILE: {change}": "可用 --mend FILE 修复：{change}",
    "written by a newer release ({steps}): upgrade turnfold": "由更新的版本写成（{steps}）：请升级 turnfold",
    "the schema lacks {steps} steps of this release: run `turnfold db migrate`; opening the store also adds them": (
        "结构比本版本少 {steps} 步：请运行 `turnfold db migrate`；打开存储时也会补上"
    ),
    "{size} bytes, log {log}, {free} of {pages} pages free": (
        "{size} 字节，日志 {log}，{pages} 页中空闲 {free} 页"
    ),
    "journal {journal}, synchronous {synchronous}": "日志方式 {journal}，同步级别 {synchronous}",
    "{applied} steps, {missing} missing": "{applied} 步，缺 {missing} 步",
    "warning: {warning}": "警告：{warning}",
    "no context could be built: {error}": "无法构建上下文：{error}",
}
MESSAGES: Final[Mapping[str, str]] = {
    **LIBRARY_ERRORS,
    **_ERRORS,
    **_USAGE,
    **_DOCTOR,
    **_CHAT,
    **_OTHER,
}
"""English sentence -> Chinese; names in braces are placeholders for values."""
