"""Chinese translations of the errors of models, stores, files and budgets that users of commands meet.

As in `turnfold.cli.chinese_messages`, the English sentence is the key, and names in braces are placeholders for values.
What a provider, a database or the system answers stays as it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ("LIBRARY_ERRORS",)


def _attempts() -> dict[str, str]:
    """Return the Chinese and English texts for the number and duration of failed attempts to call a model."""
    found: dict[str, str] = {}
    for plural in ("", "s"):
        for english, chinese in (
            ("", ""),
            (", {characters} characters into the answer", "，回答已收到 {characters} 个字符"),
        ):
            for wait, again in (
                ("", ""),
                ("; it asks to wait {seconds} s", "；它要求等 {seconds} 秒"),
            ):
                found[f"after {{attempts}} attempt{plural}{english}{wait}"] = (
                    f"试了 {{attempts}} 次{chinese}{again}"
                )
    return found


_MODELS: Final[Mapping[str, str]] = {
    "{model} refused the prompt as too long ({details}). Send a smaller context": (
        "{model} 拒绝了提示词，因为太长（{details}）。请发送较小的上下文"
    ),
    "{model} gave no answer {reason} ({details}). Check the base URL and that the server runs, or try again later": (
        "{model} 没有回答，{reason}（{details}）。请检查 base URL 和服务器是否在运行，或稍后再试"
    ),
    "{model} gave no answer {reason} ({details}). Try again later": (
        "{model} 没有回答，{reason}（{details}）。请稍后再试"
    ),
    "{model} refused the call ({details}). The same call would fail again: change the request, the options or "
    "the key": ("{model} 拒绝了调用（{details}）。原样再发也会失败：请改请求、选项或密钥"),
    "{model} could not be called ({details}). The same call would fail again: change the request, the options or the "
    "key": "无法调用 {model}（{details}）。原样再发也会失败：请改请求、选项或密钥",
    "{model} returned an answer that cannot be stored ({error}): call it again": (
        "{model} 返回的回答无法保存（{error}）：请再调用一次"
    ),
    "the provider gave no reason": "服务商没有说明原因",
    "the stream ended before the answer was complete": "流在回答完整之前就结束了",
    "the response has no {missing}, so it is not an answer; check base_url": (
        "响应里没有 {missing}，不是回答；请检查 base_url"
    ),
    "model is empty: give the name that the provider uses for the model": "模型名是空的：请给出服务商所用的名称",
    "the context window of {model} is not known: use Memory(..., model={name}, budget=Budget(max_tokens=8000)) with "
    "the tokens that a prompt may have, which are then estimated, or add its window and tokenizer with "
    "turnfold.tokens.register_model (docs: concepts/tokens.md)": (
        "不知道 {model} 的上下文窗口：请写 Memory(..., model={name}, budget=Budget(max_tokens=8000))，填入提示词可用的 "
        "token 数（token 按估计计），或用 turnfold.tokens.register_model 登记它的窗口和分词器"
        "（文档：concepts/tokens.md）"
    ),
    "the context window of {model} is not known: add the model with turnfold.tokens.register_model": (
        "不知道 {model} 的上下文窗口：请用 turnfold.tokens.register_model 登记模型"
    ),
    "cannot read the price file {path}: {error}": "无法读取价目文件 {path}：{error}",
    "{path} is not a valid price table: {error}": "{path} 不是有效的价目：{error}",
    "{path} gives prices per {tokens} tokens; they must be per 1,000,000": (
        "{path} 的价格按 {tokens} 个 token 计；必须按 1,000,000 个计"
    ),
    "{path} uses cache rules that it does not define: {names}; add them to `caches`": (
        "{path} 用到没有定义的缓存规则：{names}；请写进 `caches`"
    ),
    **_attempts(),
}
_STORES: Final[Mapping[str, str]] = {
    "{address} has a host; a relative path takes three slashes: sqlite:///{name}": (
        "{address} 里有主机名；相对路径要写三个斜杠：sqlite:///{name}"
    ),
    "{address}: SQLite addresses take no ? or # part; write them as %3F and %23": (
        "{address}：SQLite 的地址不能有 ? 或 # 部分；请写成 %3F 和 %23"
    ),
    "cache={cache} must be the address of a Redis server: redis://host:port, rediss://, redis+cluster:// or unix://": (
        "cache={cache} 必须是 Redis 服务器的地址：redis://host:port、rediss://、redis+cluster:// 或 unix://"
    ),
    "{scheme}:// cannot be the store: Redis may lose data. Use it as cache=, in front of one of {known}": (
        "{scheme}:// 不能作存储：Redis 可能丢失数据。请放在 cache= 里，用在这些存储之前：{known}"
    ),
    "the address of the store is not of the form postgresql://user:password@host:port/database; in a password, write "
    "@ : / ? # % as %40 %3A %2F %3F %23 %25": (
        "存储的地址不是 postgresql://user:password@host:port/database 的形式；密码里的 @ : / ? # % 要写成 "
        "%40 %3A %2F %3F %23 %25"
    ),
    "the address of the cache is not of the form redis://user:password@host:port/database (or rediss://, unix://); in "
    "a password, write @ : / ? # % as %40 %3A %2F %3F %23 %25": (
        "缓存的地址不是 redis://user:password@host:port/database（或 rediss://、unix://）的形式；密码里的 "
        "@ : / ? # % 要写成 %40 %3A %2F %3F %23 %25"
    ),
    "a cluster cannot be reached through a socket file: use a redis:// address": (
        "不能通过套接字文件访问集群：请用 redis:// 地址"
    ),
    "the store has been closed; open it again": "存储已关闭；请重新打开",
    "the store has been closed; open a new one": "存储已关闭；请打开新的",
    "conversation {name} has been erased; use another id": "会话 {name} 已被删除；请用别的 id",
    "conversation {name} does not exist: `turnfold sessions` lists all conversations": (
        "没有会话 {name}：`turnfold sessions` 会列出所有会话"
    ),
    "nothing was read: {error}": "没有读取任何内容：{error}",
    "the commit failed ({error}), and whether it reached the disk is unknown: it was applied as a whole or not at all. "
    "Retry, an append with the same client ids": (
        "提交失败（{error}），不知道是否已写入磁盘：要么全部生效，要么完全没有。请重试；追加时用相同的 client id"
    ),
    "the connection was lost before the server confirmed the commit ({error}): it was applied as a whole or not at "
    "all. Retry, an append with the same client ids": (
        "在服务器确认提交之前连接断了（{error}）：要么全部生效，要么完全没有。请重试；追加时用相同的 client id"
    ),
    "nothing was written: the writing thread was interrupted (Ctrl-C, or an exception of a signal handler); retry": (
        "没有写入任何内容：写入的线程被中断（Ctrl-C，或信号处理程序的异常）；请重试"
    ),
    "nothing was written: the file's tables are not those of this release ({error}). Another release has upgraded it "
    "since it was opened: restart this process with the newest turnfold": (
        "没有写入任何内容：文件里的表与本版本不符（{error}）。"
        "打开之后，别的版本升级了它：请用最新的 turnfold 重启本进程"
    ),
    "nothing was written: the database's tables are not those of this release ({error}). Another release has upgraded "
    "them since this process began: restart it with the newest turnfold": (
        "没有写入任何内容：数据库里的表与本版本不符（{error}）。"
        "本进程启动之后，别的版本升级了它：请用最新的 turnfold 重启"
    ),
    "all {number} connections of the pool were in use for {seconds} s: increase pool_size": (
        "连接池的 {number} 个连接在 {seconds} 秒内都被占用：请调大 pool_size"
    ),
    "pool_size must be at least 1, got {number}": "pool_size 至少为 1，这里是 {number}",
    "connect_timeout_seconds must be at least {least}, got {given}": (
        "connect_timeout_seconds 至少为 {least}，这里是 {given}"
    ),
    "{name}_timeout_seconds must be more than 0, got {given}": "{name}_timeout_seconds 必须大于 0，这里是 {given}",
    "the file is damaged: it contains data that turnfold never writes ({error}): restore it from a backup": (
        "文件已损坏：含有 turnfold 从不写入的数据（{error}）：请从备份恢复"
    ),
    "{path} is not a SQLite file ({size} bytes): give the path of a store, or of a new file": (
        "{path} 不是 SQLite 文件（{size} 字节）：请给出存储的路径，或新文件的路径"
    ),
    "{path} is not a SQLite file: give the path of a store's file": "{path} 不是 SQLite 文件：请给出存储文件的路径",
    "the file belongs to another program (it has {names}): use a separate file": (
        "这个文件属于别的程序（里面有 {names}）：请另用一个文件"
    ),
    "{path} exists, and a backup never overwrites a file: give another path": (
        "{path} 已存在，备份从不覆盖文件：请给出别的路径"
    ),
    "{path} is not a file name: omit the path for a store in memory, or give ./{name}": (
        "{path} 不是文件名：要内存里的存储就不写路径，否则写 ./{name}"
    ),
    "{path} cannot be the path of a store: it contains NUL or is not UTF-8": (
        "{path} 不能作存储的路径：含有 NUL，或不是 UTF-8"
    ),
    "cannot write {path}: {error}": "无法写入 {path}：{error}",
    "cannot open {path}: {error} for {seconds} s; another process has it locked": (
        "无法打开 {path}：{seconds} 秒内一直是 {error}；别的进程锁住了它"
    ),
    "cannot open {path}: the folder {folder} does not exist; create it first": (
        "无法打开 {path}：文件夹 {folder} 不存在；请先创建它"
    ),
    "{path} is no longer the file that was opened: {reason} while it was in use. The write is not acknowledged, and "
    "this store accepts no more: close it in every process, make sure that the right file (with its -wal, if it has "
    "one) is at the path, and open it again": (
        "{path} 已不是打开的那个文件：使用中{reason}。这次写入没有得到确认，本存储不再接受写入：请在所有进程中关闭它，"
        "确认路径上是正确的文件（若有 -wal，要一起），再重新打开"
    ),
    "other data was written over it": "被别的数据覆盖",
    "an older copy was written over it": "被较旧的副本覆盖",
    "{path} has no conversations, but its header says that data was stored: its log {log} is missing. Copy both files "
    "together, or make copies with backup(); if the data is not needed, delete the file": (
        "{path} 里没有会话，但文件头说存过数据：缺少它的日志 {log}。"
        "请两个文件一起复制，或用 `turnfold db backup` 复制；"
        "若不需要这些数据，就删除文件"
    ),
    "{path} runs with {name}={given} where {needed} is needed for acknowledged entries to survive: use a file on a "
    "local disk that this process may write": (
        "{path} 的 {name} 是 {given}，而要让已确认的记录不丢失，须为 {needed}：请用本地磁盘上本进程可写的文件"
    ),
    "{path} was written by a newer or different release of turnfold (its schema has {applied}; this release knows "
    "{known}): upgrade turnfold": (
        "{path} 由更新的或别的 turnfold 版本写成（其结构有 {applied}；本版本认识 {known}）：请升级 turnfold"
    ),
    "the database was written by a newer or different release of turnfold (its schema has {applied}; this release "
    "knows {known}): upgrade turnfold": (
        "数据库由更新的或别的 turnfold 版本写成（其结构有 {applied}；本版本认识 {known}）：请升级 turnfold"
    ),
    "another program altered tables or added triggers in {path} ({names}): restore it from a backup": (
        "别的程序改过 {path} 的表，或加了触发器（{names}）：请从备份恢复"
    ),
    "{what} must be text, got {given}: {advice}": "{what} 必须是文本，这里是 {given}：{advice}",
    "{what} must be 1 to {most} characters, got {length} characters": (
        "{what} 须有 1 到 {most} 个字符，这里有 {length} 个"
    ),
    "ranges must be in order, without overlap, and begin at 1 or later; got ({first}, {last}) after one that ends at "
    "{before}": "各段须依次排列、互不重叠，且从 1 起；这里 ({first}, {last}) 接在止于 {before} 的一段之后",
    "{what} must not contain NUL: remove the one at character {at}": "{what} 不能含有 NUL：请去掉第 {at} 个字符处的",
    "{what} is not valid Unicode: remove the lone surrogate at character {at}": (
        "{what} 不是有效的 Unicode：请去掉第 {at} 个字符处的单个代理码元"
    ),
    "{what} must be 0 to {most}, got {given}": "{what} 须为 0 到 {most}，这里是 {given}",
    "cannot read the encryption keys in {path}: {error}": "无法读取 {path} 里的加密密钥：{error}",
    "there is no encryption key in {path}: {remedy}": "{path} 里没有加密密钥：{remedy}",
    "an encryption key must have {size} bytes: {remedy}": "加密密钥必须有 {size} 个字节：{remedy}",
    "an encryption key must be bytes or text: {remedy}": "加密密钥必须是字节或文本：{remedy}",
    "no encryption key was given: {remedy}": "没有给出加密密钥：{remedy}",
    "give 32 random bytes, or text that stands for them; `openssl rand -hex 32` makes one": (
        "请给出 32 个随机字节或表示它们的文本；`openssl rand -hex 32` 可以生成"
    ),
    "the stored key of conversation {mark} is damaged: it cannot be unwrapped with the key {key}, which wrapped it. "
    "Restore the store from a backup": "会话 {mark} 保存的密钥已损坏：用加密它的密钥 {key} 也解不开。请从备份恢复存储",
    "conversation {name} was written without encryption: export it with a store that has no key, and import it into an "
    "encrypted one": "会话 {name} 写入时没有加密：请用不带密钥的存储导出，再导入加密的存储",
    "conversation {mark} was written in plain text while another process encrypted the store; the text has been "
    "removed again: write it with the key, to a conversation with another id": (
        "会话 {mark} 在另一个进程加密存储时被写入了明文，这些明文已被移除：请使用密钥写入另一个 id 的会话"
    ),
    "conversation {mark} was written in plain text while another process encrypted the store: delete it, and write it "
    "again with the key": "别的进程加密存储时，会话 {mark} 以明文写入：请删除它，再用密钥写入",
    "the store has encrypted conversations, which cannot be searched. Nothing was shown or written. Give the key: "
    "encryption_key=, or for commands and the service --encryption-key-file PATH or TURNFOLD_ENCRYPTION_KEY_FILE, and "
    "search one conversation at a time": (
        "存储里有加密的会话，无法搜索；没有显示或写入任何内容。请给出密钥：程序用 encryption_key=，命令和服务用 "
        "--encryption-key-file PATH 或 TURNFOLD_ENCRYPTION_KEY_FILE，并且一次只搜索一个会话"
    ),
    "conversation {mark} is encrypted, and no key was given. Nothing was shown or written. Give the key: "
    "encryption_key=, or for commands and the service --encryption-key-file PATH or TURNFOLD_ENCRYPTION_KEY_FILE": (
        "会话 {mark} 已加密，但没有给出密钥；没有显示或写入任何内容。请给出密钥：程序用 encryption_key=，"
        "命令和服务用 --encryption-key-file PATH 或 TURNFOLD_ENCRYPTION_KEY_FILE"
    ),
    "an encrypted store searches one conversation at a time: give the conversation; a search over all of them would "
    "have to decrypt everything": "加密的存储一次只能搜索一个会话：请给出会话；搜索全部须解密所有内容",
}
_FILES: Final[Mapping[str, str]] = {
    "file not found: {path}": "没有文件：{path}",
    "{path} cannot be read: {error}": "无法读取 {path}：{error}",
    "{path} is not text in UTF-8: save it as UTF-8, or convert it, for example with "
    "iconv -f GBK -t UTF-8 {name} > utf8-{new}": (
        "{path} 不是 UTF-8 文本：请另存为 UTF-8，或转换编码，例如 iconv -f GBK -t UTF-8 {name} > utf8-{new}"
    ),
    "{path} is damaged: {error}": "{path} 已损坏：{error}",
    "{path} is damaged or not UTF-8 text: {error}": "{path} 已损坏，或不是 UTF-8 文本：{error}",
    "{path} unpacks to more than {most} times its size, so it is no text": (
        "{path} 解压后超过自身大小的 {most} 倍，不是文本"
    ),
    "Unpack it and look at its content": "请解压后查看内容",
    "{path} contains {number} files named conversations*.json; one is expected": (
        "{path} 里有 {number} 个名为 conversations*.json 的文件；应当只有一个"
    ),
    "more than {number} empty lines in a row": "连续的空行超过 {number} 行",
    "more than {number} spaces in a row": "连续的空格超过 {number} 个",
    "the line has more than {most} characters, the most that can be imported": (
        "这一行超过 {most} 个字符，无法导入"
    ),
    "the value has more than {most} characters, the most that can be imported": (
        "这个值超过 {most} 个字符，无法导入"
    ),
    "{path} has several conversations (the second begins on line {line}); import it without a conversation name": (
        "{path} 里有几个会话（第二个从第 {line} 行开始）；导入时请不要给出会话名称"
    ),
    "{path} has sessions in the format {found}, not {given}; use the format {right}": (
        "{path} 里的会话是 {found} 格式，不是 {given}；请用格式 {right}"
    ),
    "{path} is not a SQLite file; the format openai-agents needs the database file of SQLiteSession": (
        "{path} 不是 SQLite 文件；openai-agents 格式需要 SQLiteSession 的数据库文件"
    ),
    "{path} is a SQLite file without a table of messages that can be imported": (
        "{path} 是 SQLite 文件，但没有可以导入的消息表"
    ),
    "It is a store of turnfold: use it with --store, or export it first": (
        "它是 turnfold 的存储：请用 --store 指明，或先导出"
    ),
    "Supported are the files of SQLiteSession (OpenAI Agents) and SQLChatMessageHistory (LangChain)": (
        "可用的是 SQLiteSession（OpenAI Agents）和 SQLChatMessageHistory（LangChain）的文件"
    ),
    "{path} cannot be read as SQLite: {error}": "无法把 {path} 作为 SQLite 读取：{error}",
    "conversation {name} is already in the store and differs from entry {entry} on; nothing was imported. Delete "
    "the stored conversation, or import the file into another store, or under another id: --session ID if it has one "
    "conversation": (
        "会话 {name} 已在存储中，从第 {entry} 条记录起不同；没有导入任何内容。请删除已存的会话，"
        "或把文件导入另一个存储，或用别的 id 导入：文件只有一个会话时用 --session ID"
    ),
    "conversation {name} is already in the store and differs from the one in the export; nothing would be imported. "
    "Import into another store, or export the other conversations alone": (
        "会话 {name} 已在存储中，且与导出文件中的不同；什么也不会导入。请导入另一个存储，或只导出其他会话"
    ),
    "not an export file": "不是导出文件",
    "the format is {found}, not {right}: this is not an export of turnfold": (
        "格式是 {found}，不是 {right}：这不是 turnfold 的导出文件"
    ),
    "the format has version {found}; this release reads version {right}": (
        "格式的版本是 {found}；本版本读取的是 {right}"
    ),
    'the first line is not a valid header: it must have "line": "header"': (
        '第一行不是有效的文件头：其中要有 "line": "header"'
    ),
    "this is not a line of an export: {error}": "这不是导出文件的一行：{error}",
    "the line is not in canonical form (a duplicate key, or other spacing, order or numbers)": (
        "这一行不是规范形式（有重复的键，或空白、顺序、数字的写法不同）"
    ),
    "the message is not in its canonical form (other spacing, order or numbers)": (
        "消息不是规范形式（空白、顺序或数字的写法不同）"
    ),
    "the fidelity of a checkpoint must be 0 to 1, got {given}": "检查点的保真度须在 0 到 1 之间，这里是 {given}",
    "an export must be read as bytes: open the file in binary mode": "导出文件须按字节读取：请以二进制方式打开",
    "the line is longer than {most} bytes": "这一行超过 {most} 个字节",
    "the file ends before its footer": "文件在结束行之前就断了",
    "Export it again": "请重新导出",
    "this is a second header: only line 1 may be a header": "这是第二个文件头：只有第 1 行可以是文件头",
    "this line is outside of a conversation: a conversation line must come before it": (
        "这一行不在会话之内：前面须有一行 conversation"
    ),
    "this end line is outside of a conversation: a conversation line must come before it": (
        "这个 end 行不在会话之内：前面须有一行 conversation"
    ),
    "the end line of conversation {name} is missing": "缺少会话 {name} 的 end 行",
    "the digest of conversation {name} does not match: the conversation was changed or damaged": (
        "会话 {name} 的哈希值不符：会话被改过或已损坏"
    ),
    "the digest of the file does not match: the file was changed or damaged": (
        "文件的哈希值不符：文件被改过或已损坏"
    ),
    "data follows the footer, which must be the last line": "结束行之后还有数据，而它必须是最后一行",
    "the counts in this line are {found}, but {read} were read: lines are missing or were added": (
        "这一行写的数目是 {found}，但读到 {read}：少了或多了若干行"
    ),
    "conversation {name} comes twice: an export has each conversation once": (
        "会话 {name} 出现了两次：导出文件里每个会话只有一次"
    ),
    "conversation {name} comes after {other}: conversations must be sorted by name": (
        "会话 {name} 排在 {other} 之后：会话必须按名称排序"
    ),
}
_BUDGETS: Final[Mapping[str, str]] = {
    "shares system {system} + summary {summary} + tail {tail} = {total} leave nothing for the conversation; their sum "
    "must stay below 1": (
        "份额 system {system} + summary {summary} + tail {tail} = {total}，没有剩给对话的部分；三者之和须小于 1"
    ),
    "share {name}={given} must be between 0 and 1: it is a part of the budget": (
        "份额 {name}={given} 须在 0 到 1 之间：它是预算的一部分"
    ),
    "snap={given} must be between 0 and 1: it is a share of what a cut keeps": (
        "snap={given} 须在 0 到 1 之间：它是裁剪后所留部分的份额"
    ),
    "{name}={given} must be above 0 and at most 1: it is a share of the room": (
        "{name}={given} 须大于 0 且不超过 1：它是可用空间的份额"
    ),
    "{name}={given} must be a whole number, at least 0; use 0 for no limit": (
        "{name}={given} 须为整数，至少为 0；不限制时写 0"
    ),
    "reserve_ratio={given} must be at least 0 and below 1: it is the part of the window kept for the answer": (
        "reserve_ratio={given} 须至少为 0 且小于 1：它是窗口中留给回答的部分"
    ),
    "context_window=0 and max_tokens=0 set no token limit; set one of them": (
        "context_window=0 且 max_tokens=0，没有 token 上限；请设置其中一个"
    ),
    "context_window {window} x (1 - {ratio}) leaves {left} tokens; raise the window or lower reserve_ratio": (
        "context_window {window} x (1 - {ratio}) 只剩 {left} 个 token；请提高窗口或降低 reserve_ratio"
    ),
}
_SERVERS: Final[Mapping[str, str]] = {
    "--upstream {url} contains a user name or password: remove it; clients send their own keys": (
        "--upstream {url} 含有用户名或密码：请去掉；客户端会发送自己的密钥"
    ),
    "drain={given} must not be negative: give 0 or more seconds": "drain={given} 不能为负：请给 0 或更多秒",
    "{name}={given} must be more than 0 seconds": "{name}={given} 须大于 0 秒",
    "a budget of {tokens} tokens is not possible: give 1 or more, or 0 for three quarters of the context window": (
        "预算不能是 {tokens} 个 token：请给 1 或更多，0 表示上下文窗口的四分之三"
    ),
    "cannot listen on {host} port {port}: {problem}": "无法监听 {host} 的端口 {port}：{problem}",
    "cannot write the audit log {path}: {problem}": "无法写入审计日志 {path}：{problem}",
    "cannot read the token file {path}: {problem}": "无法读取访问令牌文件 {path}：{problem}",
    "{path} is not a valid token file: {problem}": "{path} 不是有效的访问令牌文件：{problem}",
    "{path} contains no token: create one with `turnfold tokens create`": (
        "{path} 里没有访问令牌：请用 `turnfold tokens create` 创建"
    ),
    "invalid token name {name}: use 1 to 64 of a-z, 0-9 and '-'": (
        "访问令牌的名称 {name} 不合规定：请用 1 到 64 个 a-z、0-9 和 '-'"
    ),
    "days={days} must not be negative; 0 means that the token never expires": (
        "days={days} 不能为负；0 表示访问令牌永不过期"
    ),
    "rights {rights} are not valid: use one or more of {known}": (
        "权限 {rights} 不合规定：请用 {known} 中的一个或几个"
    ),
    "a token named {name} exists already: revoke or rotate it, or use another name": (
        "已有名为 {name} 的访问令牌：请吊销或更换它，或用别的名称"
    ),
    "no token is named {name}: existing tokens are {known}": (
        "没有名为 {name} 的访问令牌：已有的是 {known}"
    ),
    "overlap={overlap} must not be negative; 0 means that the old secret ends now": (
        "overlap={overlap} 不能为负；0 表示旧的访问令牌立即失效"
    ),
    "--allow-host '*' without --tokens-file would let any web page read and delete everything, through a host name "
    "that resolves to this machine. Create a token (turnfold tokens create), or name the hosts": (
        "没有 --tokens-file 而用 --allow-host '*'，任何网页都能通过解析到本机的主机名读取和删除全部内容。"
        "请创建访问令牌（turnfold tokens create），或逐个写出主机名"
    ),
    "a budget of {tokens} tokens is more than a service takes: give at most {most}": (
        "预算 {tokens} 个 token 超过服务的上限：请最多给 {most}"
    ),
    "the answer would have more than {most} bytes; ask for less at once": (
        "响应会超过 {most} 字节；请一次少取一些"
    ),
    "the bodies of the requests of this tenant that run have {held} bytes, the limit is {most} bytes: try again "
    "later": "这个租户正在运行的请求，请求体合计 {held} 字节，上限是 {most} 字节：请稍后再试",
    "the request has the header {name} more than once: send it once": "请求头 {name} 出现了不止一次：请只发送一次",
    "key= has {size} bytes: give at least 16 random bytes": (
        "key= 有 {size} 字节：请给至少 16 个随机字节"
    ),
}
LIBRARY_ERRORS: Final[Mapping[str, str]] = {
    **_MODELS,
    **_STORES,
    **_FILES,
    **_BUDGETS,
    **_SERVERS,
}
"""English error -> Chinese; names in braces are placeholders for values."""
