"""Chinese help texts of all commands and options, by English text.

A command is found by the first paragraph of its help. A test checks all commands, so that no option lacks its Chinese
text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = (
    "COMMANDS",
    "ERRORS",
    "OPTIONS",
)


COMMANDS: Final[Mapping[str, str]] = {
    "The context memory of LLM agents: the best context that fits the budget, and nothing lost.": (
        "大模型智能体的上下文记忆：在预算之内给出最好的上下文，什么也不丢。"
    ),
    "Serve conversations over HTTP; OpenAPI at /v1/openapi.json. SIGTERM ends it; a second SIGTERM stops at once.": (
        "通过 HTTP 提供会话；OpenAPI 在 /v1/openapi.json。SIGTERM 使其妥善结束，再发一次则立即结束。"
    ),
    "Show sessions, calls and contexts in a browser. Ctrl-C ends it.": (
        "在浏览器中查看会话、调用与上下文。按 Ctrl-C 结束。"
    ),
    "Pass model calls on to a provider, with contexts that fit a budget: change the base URL, nothing else.": (
        "把模型调用转发给服务商，并使上下文不超出预算：只需改 base URL，别无其他。"
    ),
    "Serve the memory to MCP clients: recall, search, remember.": (
        "为 MCP 客户端提供记忆：召回、搜索、记住。\n\n"
        "作为客户端的命令时经标准输入输出交谈，只代表一个租户：claude mcp add turnfold -- turnfold mcp"
    ),
    "Replay a long conversation call by call, and show what is sent, folded and kept.": (
        "用一段中英文长对话逐次演示：发送了什么，折叠了什么，保留了什么。\n\n不需要网络、密钥或服务器。"
    ),
    "Chat with a model in a stored session; without a model, search the session's memory.": (
        "在会保存的会话中与模型交谈；没有模型时在会话记忆中查找。"
    ),
    "Check a session or a file against its provider's rules; exit code 1 if it would be rejected.": (
        "检查会话或文件是否符合服务商的要求；会被拒绝时退出码为 1。"
    ),
    "List the sessions, most recently changed first.": "列出会话，最近改动的在前。",
    "Show the messages of a session.": "显示会话中说过的内容。",
    "List the rules of a session: standing instructions of its user, word for word.": (
        "列出会话的规则：用户定下而仍然有效的内容，原话照录。"
    ),
    "Draw the budget of a session's next call, without making it.": (
        "画出会话下一次调用的预算；并不真正调用。"
    ),
    "Show what uses most tokens: sessions, or a session's entries, tools and roles.": (
        "显示开销最大的内容：会话，或一个会话的记录、工具与角色。"
    ),
    "Show the messages a call sent, and why others were left out.": (
        "显示一次调用发送的消息，以及其余消息未发送的原因。"
    ),
    "Compare two calls. With one call: compare it with the one before.": (
        "比较两次调用。只给一次调用时，与它的前一次比较。"
    ),
    "Replay a history under other budgets and strategies, without a model; costs are estimates.": (
        "换预算和策略重放一段历史，不用模型；费用为估计值。"
    ),
    "Measure what contexts still contain and what calls cost, without a model; exit code 1 if a call is unusable.": (
        "不用模型，评测上下文还保留了什么、调用花费多少；有调用不可用时退出码为 1。\n\n"
        "没有指明会话、文件或数据集时，使用自带的小型虚构数据集。"
    ),
    "Search the messages of all sessions; exit code 3 if nothing is found.": (
        "在所有会话中搜索说过的内容；没有找到时退出码为 3。"
    ),
    "Recall earlier messages of a session; exit code 3 if nothing is found.": (
        "召回会话中说过的内容；没有找到时退出码为 3。"
    ),
    "Show the checkpoints (summaries) of a session, or drop one: the session returns to the one before it.": (
        "列出会话的检查点（摘要），或弃用其中一个：会话回到它之前的检查点。"
    ),
    "Fold (compact) everything before the newest turns into a summary; the log is kept.": (
        "把最新几轮之前的内容折叠到摘要之后；日志保持完整。"
    ),
    "Show a text or an entry word for word in every call from the next user turn on.": (
        "从下一个用户轮次起，在每次调用中原文显示一段文字或一条记录。"
    ),
    "Remove a pin; calls leave it out from the next user turn on.": "从下一个用户轮次起取消一个固定项。",
    "Erase a session, one entry of it, all sessions of a user or a tenant. Cannot be undone.": (
        "彻底删除一个会话、其中一条记录、一个用户的所有会话或整个租户。不可撤销。"
    ),
    "Copy a session up to an entry, to continue it differently.": (
        "把会话复制到某条记录为止，以便换一种方式继续。"
    ),
    "Export sessions to a file: exactly, or in a provider's format, one conversation per line.": (
        "把会话写入文件：原样，或按服务商的格式，每行一个会话。"
    ),
    "Import conversations from other programs, or an export; can be repeated as the file grows.": (
        "导入其他程序的会话或导出的文件；文件增长后可以重复导入。\n\n"
        "只有整个文件都能读取时才会写入。已在此删除的会话不再导入。有内容未导入时退出码为 1。"
    ),
    "Audit stored sessions: account for every entry; exit code 1 if one is lost or duplicated.": (
        "核对已存会话的每条记录；有丢失或重复时退出码为 1。"
    ),
    "Check versions, extras, tokenizers, store and terminal; exit code 1 if something needs fixing.": (
        "检查版本、可选依赖、分词器、存储与终端；有需要修复之处时退出码为 1。"
    ),
    "Create, list, rotate and revoke access tokens of a service.": (
        "创建、列出、更换和收回服务的访问令牌。"
    ),
    "Create an access token and show it once; only its hash is stored.": (
        "创建一个访问令牌并显示一次：只保存其散列值。"
    ),
    "List the tokens: name, tenant, rights, expiry and last use.": (
        "列出访问令牌：名称、租户、权限、有效期与上次使用时间。"
    ),
    "Give an access token a new secret and show the token once; its name, tenant and rights stay.": (
        "为访问令牌更换密钥并显示一次；名称、租户与权限不变。"
    ),
    "Revoke a token; a running service notices within a second, and ends its event streams.": (
        "收回一个访问令牌；运行中的服务一秒之内即知，并结束它的事件流。"
    ),
    "The store: its location, status, schema and backup.": (
        "存储：在哪里、有什么、结构版本、备份。"
    ),
    "Print the location of the store, existing or not.": "显示存储的位置，无论它是否存在。",
    "Show size, settings, schema and warnings; exit code 1 if there are warnings.": (
        "显示大小、设置、结构版本与警告；有警告时退出码为 1。"
    ),
    "Migrate the store's schema to this release; opening the store does the same.": (
        "把存储的结构升级到本版本，打开它时也会如此。"
    ),
    "Back up a SQLite store while it is in use.": "在使用中复制 SQLite 存储。",
    "Encrypt the keys of a tenant's conversations again, with the first key of --encryption-key-file.": (
        "用 --encryption-key-file 的第一个密钥重新加密租户各会话的密钥。"
    ),
}
OPTIONS: Final[Mapping[str, str]] = {
    "Address of the provider: https://api.anthropic.com": "服务商的地址：https://api.anthropic.com",
    "Token budget of models whose names begin with MODEL.": "名称以此开头的模型的预算。",
    "Longest time without data from the provider, in seconds.": "服务商最多多少秒不发送任何内容。",
    "Session for requests that name none. Default: such requests pass unchanged.": (
        "没有指明会话的请求属于哪个会话。默认：原样转发。"
    ),
    "Token budget of a request. Default: 3/4 of the model's context window.": (
        "一个请求的 token 预算。默认：模型上下文窗口的四分之三。"
    ),
    "Port to listen on; 0 picks a free one.": "0 表示取一个空闲的端口。",
    "Redis cache in front of the store.": "放在存储前面的 Redis。",
    "First call to compare. Default: @prev.": "要比较的第一次调用。默认：@prev。",
    "A file that does not exist yet.": "尚不存在的文件。",
    "Later call to compare it with. Default: @last.": "与之比较的较晚的调用。默认：@last。",
    "Log each request, without content.": "每个请求记一行，不含内容。",
    "Host name to accept; '*' for any, with a token file.": (
        "服务所用的名称；“*”表示任何名称，须有访问令牌文件。"
    ),
    "A session, or a file: a request body, messages, or what `import` can read.": (
        "一个会话，或一个文件：请求体、消息列表，或 `import` 能读取的内容。"
    ),
    "Base URL of a server with OpenAI's chat API.": "使用 OpenAI 聊天接口的服务器的 base URL。",
    "A session, or a file `import` can read.": "一个会话，或 `import` 能读取的文件。",
    "A session to show in detail. Default: all sessions.": "要详细显示的会话。默认：所有会话。",
    "A session: its id, a prefix of it, or @last.": "会话：其 id、id 的开头，或 @last。",
    "Price table to use instead of the built-in one.": "代替自带价目的价目表。",
    "Origin of web pages that may call the service, such as https://example.com.": "可以调用此服务的网页来源，例如 https://example.com。",
    "Address or SQLite file of the store. Default: TURNFOLD_STORE, or a file in the user's data folder.": (
        "存储的地址或 SQLite 文件。默认：TURNFOLD_STORE，或用户的一个文件。"
    ),
    "Other memories to evaluate too, separated by commas.": "同时评测这些方法，用逗号分开。",
    "Also serve MCP, at /mcp.": "同时在 /mcp 答复 MCP 客户端。",
    "Time zone for times that a model is shown, such as Asia/Shanghai.": (
        "给模型看的时间所用的时区，例如 Asia/Shanghai。"
    ),
    "Also recall by meaning; needs the extra 'semantic'.": "也按含义召回；需要可选依赖 semantic。",
    "Replace secrets and personal data with labels before storing; key: TURNFOLD_REDACTION_KEY.": (
        "存储前把密钥和个人信息换成标签；标签的密钥：TURNFOLD_REDACTION_KEY。"
    ),
    "Token file; required unless listening on loopback.": "访问令牌文件；除非只监听本机回环地址，否则必需。",
    "Only entries before this day or time, UTC.": "只限早于此日期或时间（UTC）的记录。",
    "Also show the earlier entries that match these words.": "还显示与这些词相符的较早记录。",
    "Maximum number of bytes that a tenant may store; 0 for no limit.": "一个租户最多可保存的字节数；0 表示不限。",
    "Largest request body in bytes.": "一个请求的字节数。",
    "Requests of a tenant that run at once, model calls included.": "一个租户同时运行的请求数，包括模型调用。",
    "ChatGPT: also import abandoned branches.": "ChatGPT：也包括被放弃的分支。",
    "Model to count tokens and costs for. Default: that of the session.": "按此模型计数和计价。默认：会话自己的模型。",
    "Model to count tokens and costs for.": "按此模型计数和计价。",
    "Model to count tokens for.": "按此模型计数。",
    "Model to count tokens for. Default: the session's counter.": (
        "按此模型计数。默认：与会话当时的计数相同。"
    ),
    "File to write. Default: the standard output.": "要写入的文件。默认：标准输出。",
    "Do not pause between calls.": "两次调用之间不停顿。",
    "All sessions of the tenant.": "租户的所有会话。",
    "Format of the file, if a file is given; auto detects it.": "文件的格式（给出文件时）；auto 表示自动识别。",
    "Show the entries after this number. Default: the newest entries.": "从此序号之后的记录开始。默认：最新的。",
    "Conversations with questions and their evidence: each line a JSON object with conversation_id, messages (id, "
    "role, content) and questions (question, evidence_ids) or rules (text, message_id).": (
        "带有问题及其依据的会话：每行一个 JSON 对象，含 conversation_id、messages（id、role、content），以及 questions"
        "（question、evidence_ids）或 rules（text、message_id）。"
    ),
    "Session to continue or begin; @last is the newest.": "要继续或新建的会话；@last 是最近改动的。",
    "Add this rule, in your words.": "添加这条规则，用你自己的话。",
    "Drop the rule with this id, or the rules of the entry with this number.": (
        "去掉有此 id 的规则，或此序号记录中的规则。"
    ),
    "Replace the file if it exists.": "文件已存在时替换它。",
    "Store to show, the same as --store.": "要显示的存储，与 --store 相同。",
    "The same as the argument SESSION.": "与参数 SESSION 相同。",
    "Hours an Idempotency-Key is remembered; 0 for ever.": (
        "Idempotency-Key 记住多少小时；0 表示永远。"
    ),
    "Hours the old secret is still accepted; 0 ends it now.": (
        "旧密钥继续有效的小时数；0 表示立即失效。"
    ),
    "Without a token file: admit every user and program of this machine.": (
        "没有访问令牌文件时：放行本机的所有用户和程序。"
    ),
    "File to append an audit log to: who did what, without content.": (
        "把谁做了什么追加到这个文件，不含内容。"
    ),
    "Maximum number of open connections.": "同时打开的连接数上限。",
    "Days until it expires; 0 for never.": "有效多少天；0 表示永远。",
    "Number of calls in the sparkline.": "曲线画出多少次调用。",
    "Number of entries.": "多少条记录。",
    "Number of largest items to list.": "列出多少个最大的项目。",
    "Number of rows.": "多少行。",
    "Number of sessions, newest first.": "多少个，最新的在前。",
    "Number of results.": "多少个。",
    "Number of refreshes; 0 refreshes until Ctrl-C.": "刷新次数；0 表示刷新到按 Ctrl-C 为止。",
    "Id of the new session.": "新会话的 id。",
    "Install completion for the current shell.": "为当前的命令行安装补全。",
    "Show the passages that a model would get, within this many tokens.": (
        "显示模型在这么多 token 之内会看到的段落。"
    ),
    "Instructions to the model.": "给模型的指示。",
    "File with tool schemas (a JSON list) to add to every call.": "工具定义文件（JSON 列表），每次调用都带上。",
    "Language of the labels. Default: the locale's.": "标签的语言。默认：区域设置的语言。",
    "Skip unreadable items, and list them.": "略过无法读取的内容，并列出。",
    "Keep the SQLite database at this path. Default: it is deleted.": (
        "把 SQLite 数据库留在那里。默认：删除。"
    ),
    "List the calls instead.": "改为列出调用。",
    "Listen at http://HOST:PORT/mcp instead of stdin.": (
        "在 http://HOST:PORT/mcp 监听，而不是标准输入。"
    ),
    "Refresh every so many seconds.": "过这么多秒再看一次。",
    "Id under which to store the conversation of a file that has only one.": (
        "文件只有一个会话时，以此 id 保存它。"
    ),
    "Number of newest turns that stay out of the summary. Default: 8.": "不进入摘要的最新轮次的数目。默认：8。",
    "Only entries from this day or time on, UTC.": "只限此日期或时间（UTC）起的记录。",
    "Comma-separated: read, write, admin.": "read、write、admin 中的几个，用逗号分开。",
    "Only entries of this turn, or of the turns FIRST-LAST.": "只限此轮次，或 FIRST-LAST 这些轮次的记录。",
    "Only in this session.": "只在此会话中。",
    "Only print the address.": "只显示地址。",
    "Also list rules that ended, with the time, and the rule that replaced each.": (
        "也列出已结束的规则：何时结束，被哪一条取代。"
    ),
    "Only sessions whose id starts with this text.": "只列出 id 以此开头的。",
    "Print JSON, and nothing else.": "只输出 JSON。",
    "Print every call and the totals as JSON, nothing else.": "只以 JSON 输出每次调用与总计。",
    "Print the results as JSON.": "以 JSON 输出找到的内容。",
    "Read and check; write nothing.": "只读取和检查，什么也不写。",
    "Requests per second and access token; 0 for no limit.": "每个访问令牌每秒的请求数；0 表示不限。",
    "Requests allowed at once before the rate applies.": "速率起作用之前可一次发出的请求数。",
    "The same as the argument CALL.": "与参数 CALL 相同。",
    "Number or id of a call, @last or @prev. Default: @last.": (
        "调用的编号或 id，@last 或 @prev。默认：@last。"
    ),
    "Send this, print the answer, and exit.": "说这句话，输出回答，然后结束。",
    "Seconds that running work has to finish at shutdown.": "停止时，进行中的工作可用来完成的秒数。",
    "Sessions to export, by id or prefix.": "要导出的会话，用 id 或 id 的开头。",
    "Sessions to audit. Default: all sessions of the tenant.": "要核对的会话。默认：租户的所有会话。",
    "Show completion for the current shell, to copy it or customize the installation.": (
        "显示当前命令行的补全脚本，供复制或修改后安装。"
    ),
    "Show the version.": "显示版本。",
    "Show this message and exit.": "显示本帮助并退出。",
    "Summary to use: a text, @FILE, or - for standard input.": (
        "代替被折叠的内容：一段文字、@FILE，或用 - 表示标准输入。"
    ),
    "The token file.": "保存访问令牌的文件。",
    "File to import; a .gz file, or ChatGPT's .zip, need not be unpacked.": (
        "要导入的文件；.gz 与 ChatGPT 的 .zip 不必解压。"
    ),
    "Text to show in every call.": "要在每次调用中显示的文字。",
    "Number of the entry to show, if no text is given.": "没有给出文字时，要显示的记录的序号。",
    "Name of the pin. Default: made from the text.": "固定项的名称。默认由文字得出。",
    "Name of the pin to remove.": "要取消的固定项的名称。",
    "Erase only this entry, and everything made from it.": "只删除这条记录，以及由它得出的一切。",
    "Reason kept in the placeholder of an erased entry.": "留在被删除记录的占位中的原因。",
    "Do not ask for confirmation.": "不再要求确认。",
    "Whole id of the session to erase.": "要删除的会话的完整 id。",
    "Erase all sessions of this user: their ids are ID or begin with ID/, or ID is their user_id.": (
        "删除此用户的所有会话：会话 id 为 ID 或以 ID/ 开头，或其 user_id 为 ID。"
    ),
    "Erase all sessions of the tenant.": "删除租户的所有会话。",
    "Erase nothing; check the erasure receipt in this file.": "不删除；核对此文件中的删除回执。",
    "File with the key of an encrypted store; of several keys, the first encrypts new data.": (
        "加密存储的密钥文件；可有多个密钥，第一个用于加密。"
    ),
    "Drop this checkpoint and those made from it.": "弃用此检查点及由它写成的检查点。",
    "Show the dropped checkpoints.": "列出已弃用的检查点。",
    "Last entry to copy. Default: all.": "它的最后一条记录。默认：全部。",
    "Model that the exported requests are for.": "导出的请求所针对的模型。",
    "What models may also write: pins, sessions (other than --session) or summaries. Repeatable.": (
        "允许模型另外写入：固定项（pins）、--session 以外的会话（sessions）、摘要（summaries）。可重复。"
    ),
    "Session used if a client names none.": "客户端没有指明时所指的会话。",
    "Token budget of a call. Default: that of the newest call.": (
        "一次调用可用的 token 数。默认：与最近一次调用相同。"
    ),
    "Token budget of a call; may be repeated.": "一次调用可用的 token 数；可重复给出。",
    "Maximum number of tokens in all logs of a tenant; 0 for no limit.": "租户所有日志的 token 总数上限；0 表示不限。",
    "Default token budget of a call.": "未指明的调用可用的 token 数。",
    "Token limit of one response; the rest can be requested.": "一个答复的 token 数；其余可以再要。",
    "Token budgets of a call, separated by commas: 2000,8000.": "一次调用可用的 token 数，用逗号分隔：2000,8000。",
    "Token budget of a call.": "一次调用可用的 token 数。",
    "Token budget of a call. Default: 75% of the model's context window; 12,000 if that is not known.": (
        "一次调用可用的 token 数。默认：模型上下文窗口的 75%；不知道窗口大小时为 12,000。"
    ),
    "Only calls of this tool and their results.": "调用此工具的内容，或它的答复。",
    "Name of the token.": "它的名称。",
    "Name of the token: a-z, 0-9 and '-'.": "它的名称：a-z、0-9 与“-”。",
    "Only entries that mention this file, or a file in this folder.": "提到此文件或其下文件的内容。",
    "Words to search for.": "要找的内容，用词语表示。",
    "Where chats are stored: a file or an address. Default: a file in the user's data folder.": (
        "保存聊天的位置：文件或地址。默认：用户数据文件夹中的一个文件。"
    ),
    "Address to listen on.": "监听的位置。",
    "Which conversation of the file to use, by id.": "用文件中的哪个会话（id）。",
    "Model to chat with. Default: TURNFOLD_MODEL.": "由哪个模型回答。默认：TURNFOLD_MODEL。",
    "Show whole messages, not only the first line.": "完整的消息，而不只是第一行。",
    "Tenant whose conversations it gives access to.": "可访问哪个租户的会话。",
    "Tenant to serve if there is no token file.": "没有访问令牌文件时提供哪个租户的会话。",
    "Tenant whose sessions to use.": "使用哪个租户的会话。",
    "With --list: number of calls.": "与 --list 一起：多少个。",
    "Show every message whole.": "完整显示每条消息。",
    "With --once: print the answer and its token figures as JSON.": (
        "与 --once 一起：以 JSON 输出回答及其说明。"
    ),
    "Write the repaired history to this file.": "把去除错误后的历史写到那里。",
    "anthropic, gemini, openai_chat or openai_responses. Default: detected.": (
        "anthropic、gemini、openai_chat 或 openai_responses。默认：由内容判断。"
    ),
    "auto, turnfold, openai, openai-responses, anthropic, gemini, chatgpt, claude-code, langchain, mem0, "
    "openai-agents.": (
        "auto、turnfold、openai、openai-responses、anthropic、gemini、chatgpt、claude-code、langchain、mem0、"
        "openai-agents 之一。"
    ),
    "entry, checkpoint, a kind of document, or all. Default: entry.": (
        "entry、checkpoint、一种文档，或 all。默认：entry。"
    ),
    "Strategy: fold, oldest-first, last:N, turns:N, shrink:N or everything; joined by +. Repeatable.": (
        "策略：fold、oldest-first、last:N、turns:N、shrink:N 或 everything；几个用 + 连接；可重复给出。"
    ),
    "turnfold (exact), openai, openai-responses, anthropic, gemini, markdown.": (
        "turnfold（原样）、openai、openai-responses、anthropic、gemini、markdown 之一。"
    ),
    "Only messages of this role: user, assistant, tool or system.": (
        "只限此角色的消息：user、assistant、tool 或 system。"
    ),
}
ERRORS: Final[Mapping[str, str]] = {
    "BudgetTooSmall": "预算太小",
    "Conflict": "别人已先改动",
    "ConversationDeleted": "会话已被删除",
    "InvalidBudget": "预算的数字互相矛盾",
    "InvalidExport": "文件无法导入",
    "InvalidOption": "选项不合规定",
    "InvalidRecord": "内容无法原样保存",
    "MissingExtra": "缺少可选的软件包",
    "ModelFailed": "模型没有回答",
    "NotFound": "没有找到",
    "RequestRefused": "请求被拒绝",
    "StoreError": "存储无法完成",
    "StoreUnavailable": "连接不到存储",
    "SummaryFailed": "摘要无法使用",
    "TurnfoldError": "出错",
    "UnknownModel": "不认识的模型",
    "UnsafeStore": "存储的设置不安全",
    "WrongProcess": "存储属于另一个进程",
}
"""Chinese names of the kinds of errors, by class name; the message comes after the kind."""
