"""Invented words for invented conversations, in English and in Chinese. No text here comes from anywhere else."""

from __future__ import annotations

import json
from random import Random

__all__ = ("chinese", "english", "log_line", "record", "snippet")


def _phrases(text: str) -> list[str]:
    return text.strip().replace("\n", "|").split("|")


_WHO = _phrases("""
the scheduler|our billing service|the nightly import|a customer in Lisbon|the second worker
the mobile client|my colleague Ada|the audit script|the search index|the old gateway
the on-call engineer|the warehouse robot|this migration|the export job|the translation team
""")
_DID = _phrases("""
could not open|quietly dropped|retried|overwrote|needs to explain|compared|measured
forgot to close|keeps asking about|has doubled|renamed|wants to postpone|read only half of
signed off|rolled back
""")
_WHAT = _phrases("""
the third invoice|an empty manifest|two of the seven shards|the default time zone
every second request|the contract with the bakery|a cache of thumbnails|the retry policy
one signed certificate|the weekly report|a column nobody reads|the list of open questions
the price of a return ticket|the oldest backup|its own log file
""")
_HOW = _phrases("""
because the disk was full|before anybody noticed|without a single warning
as agreed in the spring|although the test was green|after the clocks went back
in less time than it takes to boil an egg|and nobody can say why
so we should look at it again|which is exactly what was asked for|unless the flag is set
while the queue was being drained|for the fourth time this week
""")
_ZH_WHO = _phrases("""
调度程序|计费服务|昨晚的导入任务|里斯本的一位客户|第二个工作进程|手机端|同事小林
审计脚本|搜索索引|旧网关|值班工程师|仓库机器人|这次迁移|导出任务|翻译小组
""")
_ZH_DID = _phrases("""
没能打开|悄悄丢掉了|重试了|覆盖了|需要解释|对比了|测量了|忘记关闭|一直在问
改了名字的是|想推迟|只读了一半|签收了|回滚了|重新核对了
""")
_ZH_WHAT = _phrases("""
第三张发票|一份空的清单|七个分片里的两个|默认时区|每隔一个的请求|和面包店的合同
缩略图缓存|重试策略|一张已签名的证书|每周报告|一列没人看的数据|待解决的问题列表
往返票的价格|最早的备份|自己的日志文件
""")
_ZH_HOW = _phrases("""
因为磁盘已经满了|在没有人注意到之前|一条警告都没有留下|和春天约定的一样|虽然测试是绿的
在夏令时结束以后|比煮一个鸡蛋还快|但是谁也说不清原因|所以我们应该再看一遍
这正是当初要求的|除非打开了那个开关|当时队列正在清空|这已经是本周第四次了
""")
_FIELDS = "id owner status region amount currency priority created tags note".split()
_STATES = "open closed waiting failed archived".split()
_REGIONS = "lisboa 上海 oslo 成都 quito".split()
_LEVELS = "INFO WARN ERROR DEBUG".split()


def english(random: Random) -> str:
    """A sentence."""
    who, did, what, how = (random.choice(words) for words in (_WHO, _DID, _WHAT, _HOW))
    return f"{who[0].upper()}{who[1:]} {did} {what} {how} ({random.randrange(10_000)})."


def chinese(random: Random) -> str:
    """A sentence in Chinese."""
    who, did, what, how = (random.choice(words) for words in (_ZH_WHO, _ZH_DID, _ZH_WHAT, _ZH_HOW))
    return f"{who}{did}{what}，{how}（{random.randrange(10_000)}）。"


def snippet(random: Random) -> str:
    """A few lines of code."""
    name, value = random.choice(_FIELDS), random.randrange(1_000)
    body = (
        f"    for {name} in rows[{value}:]:\n        total += weigh({name}, scale={value / 7:.3f})"
    )
    return f"```python\ndef sum_{name}_{value}(rows):\n    total = 0\n{body}\n    return total\n```"


def record(random: Random) -> dict[str, object]:
    """What a table or an interface answers with."""
    values: dict[str, object] = {
        "id": f"{random.getrandbits(40):010x}",
        "owner": random.choice(_WHO),
        "status": random.choice(_STATES),
        "region": random.choice(_REGIONS),
        "amount": random.randrange(1, 9_999_999) / 100,
        "currency": random.choice(("EUR", "CNY", "NOK")),
        "priority": random.randrange(5),
        "created": f"2025-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}T08:{random.randrange(60):02}:00Z",
        "tags": random.sample(_STATES, 2),
        "note": chinese(random) if random.random() < 0.3 else english(random),
    }
    return {name: values[name] for name in sorted(random.sample(_FIELDS, random.randint(4, 8)))}


def log_line(random: Random) -> str:
    """A line of a log."""
    moment = f"2025-11-{random.randrange(1, 29):02} 03:{random.randrange(60):02}:{random.randrange(60):02}"
    details = json.dumps({"row": random.randrange(99_999), "note": random.choice(_WHAT)})
    return f"{moment} {random.choice(_LEVELS)} worker-{random.randrange(9)} {details}"
