"""A labelled corpus of secrets and of what only looks like them, in English and Chinese.

Sentences are written by hand; `<kind>` marks a secret and `{shape}` a value that is none. The values are made with a
seed, with checksums of their own, so that no key stands in the repository. The detector is developed on `POSITIVE` and
`NEGATIVE`. `HELD_OUT` was written after it and is for the figures that are reported.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from random import Random
from typing import NamedTuple

__all__ = ("DEVELOP", "REPORT", "Sample", "samples")

DEVELOP, REPORT = 0, 1


class Sample(NamedTuple):
    """A text and the places of the secrets in it."""

    text: str
    secrets: tuple[tuple[str, int, int], ...]


POSITIVE = """
Please send the invoice to <email> before Friday.
My address is <email>.
Contact: <email>, <email>; cc <email>
{"user": "<email>", "active": true}
From: Jane Doe <mail>
mailto:<email>?subject=Hello
The account "<email>" was locked at 10:32.
Write to <email>, not to the list.
user=<email>&plan=pro
(<email>)
Is <email>/<email> correct?
[profile](mailto:<email>)
ERROR login failed for <email>: bad password
我的邮箱是<email>，请查收。
联系邮箱：<email>
请把报告发到<email>和<email>两个地址。
收件人<email>已退信
【客服】<email>
邮件（<email>）已发送
用户<email>的订单已发货
账号：<email>　状态：正常
把合同抄送给<email>吧
Call me at <phone> tomorrow.
Phone: <phone>
tel:<phone>
My number is <phone>, after six.
WhatsApp <phone> or mail <email>
Reach us on <phone> / <phone>.
{"phone": "<phone>"}
Mobile <mobile>, ask for Li.
The courier rang <mobile> twice.
Emergency contact: Bob, <usphone>
Fax <usphone> is no longer in use
Dial <usphone> and press 2.
我的手机号是<mobile>，有事打给我。
电话<mobile>
联系人：王芳，手机：<mobile>
请拨打<mobile>或<landline>
座机<landline>没人接
客户（<mobile>）要求退货
收货人 李雷 <mobile> 北京市海淀区
微信同号<mobile>。
来电号码<mobile>，已接听
办公室电话：<landline>
海外联系方式：<phone>
尾号不对，完整号码是<mobile>！
短信已发送至<mobile>。
My card is <card>, expiry 09/27.
Charge <card> for 42 dollars.
card_number=<card>
"pan": "<card>"
Visa <card> was declined
Please use <card> instead of <card>.
Payment with <card> failed, try again.
The old Amex <card> is cancelled.
我的银行卡号是<card>，请扣款。
卡号：<card>
信用卡<card>有效期09/27
请把退款打到<card>。
支付卡 <card> 被拒绝
旧卡<card>已注销，新卡<card>
ID number: <chinaid>
The passport office asked for his Chinese id <chinaid>.
{"id_card": "<chinaid>", "name": "Zhang San"}
Applicant <chinaid> passed the check.
身份证号：<chinaid>
我的身份证号码是<chinaid>，请核对。
身份证<chinaid>已过期
姓名：张三，证件号：<chinaid>，电话：<mobile>
请输入身份证号（<chinaid>）
员工<chinaid>入职登记
export OPENAI_API_KEY=<openai>
client = OpenAI(api_key="<openai>")
The key <openai> stopped working.
Authorization: Bearer <openai>
ANTHROPIC_API_KEY: <anthropic>
Use <anthropic> for the staging agent.
x-api-key: <anthropic>
aws_access_key_id = <aws>
AWS_SECRET_ACCESS_KEY=<awssecret>
Found <aws> in the commit!
git clone https://x-access-token:<github>@github.com/acme/app.git
GITHUB_TOKEN=<github>
remote: token <github> has expired
SLACK_BOT_TOKEN="<slack>"
The bot posts with <slack>.
<google> is the Maps key
https://maps.example.com/api/js?key=<google>&v=3
Set-Cookie: session=<jwt>; HttpOnly
Authorization: Bearer <jwt>
token <jwt> decoded to sub=42
The response was {"access_token": "<jwt>", "expires_in": 3600}
Here is my key:\n<pem>\nkeep it safe
"private_key": "<pemescaped>"
<pem>
password=<password>
DB_PASSWORD: '<password>'
"password": "<password>"
login with admin / password: <password>
the password is <password>
MYSQL_PWD=<password> mysqldump app
postgres://app:<password>@db.internal:5432/main
redis://:<password>@10.0.0.5:6379/0
client_secret=<secret>
secret_key = "<secret>"
API key: <secret>
auth_token=<secret>
密码：<password>
密码是<password>，不要告诉别人
数据库密码为<password>
登录口令：<password>
API密钥：<openai>
密钥是<anthropic>
令牌：<secret>
请用这个密钥<google>调用地图接口
他把<github>提交到仓库了
访问密钥<aws>泄露了，请立即轮换
私钥如下：\n<pem>\n请妥善保管
环境变量 GITHUB_TOKEN=<github> 已失效
请求头 Authorization: Bearer <jwt> 被拒绝
连接串 mysql://shop:<password>@127.0.0.1:3306/shop
机器人令牌 <slack> 需要更换
"""

NEGATIVE = """
Order {order} has shipped.
order number: {order}
The order id is {order16}, thanks.
Invoice #{order} is overdue
Tracking number {order}
Commit {sha} fixed it.
git show {shortsha}
sha256:{sha256}
md5 = {md5}
ETag: "{md5}"
request id {uuid}
trace {uuid} span {shorthex}
{"id": "{uuid}", "ok": true}
Version {version} is out.
pip install requests=={version}
npm install lodash@{version}
"@types/node": "^{version}"
Timestamp {epochms}
created_at={epochus}
at {epochns} ns
2024-03-{day}T10:20:30.123456Z
2024-03-{day} 10:20:30,123 INFO started
ISBN {isbn}
ISBN-13: {isbnhyphen}
IP 192.168.{byte}.{byte}:8080
listening on 10.{byte}.{byte}.{byte}
MAC 00:1b:44:{byte2}:3a:b7
git@github.com:acme/app.git
git clone git@gitlab.example.com:team/repo.git
@app.route("/login")
@dataclass(frozen=True)
icon@2x.png and logo@3x.jpg
Follow @janedoe on the site
user@localhost is the default
price 4,111.11 to 1,234,567.89
3.14159265358979 and 2.718281828459045
The file has 1{digits9} bytes.
offset 1{digits9}, length 20480
+{small} points and -{small} points
GMT+0800, UTC+08:00
Password must be at least 8 characters long.
password: required
The password is incorrect, try again.
password=${DB_PASSWORD}
password: "<your-password-here>"
token: string
tokens: 128000
max_tokens=4096
The token is expired.
api_key=os.environ["OPENAI_API_KEY"]
api_key: YOUR_API_KEY
secret: true
secrets.token_hex(16)
const token = getToken();
token = request.headers.get("Authorization")
Bearer token required
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
sk-learn and sk-image are packages
The ask-me-anything-about-everything-session starts now
task-manager-with-a-very-long-name-indeed
skeleton AKIA is a prefix
eyJ is how a token begins
width: 1200px; margin: 0 auto
10-20-30-40-50-60-70
lines 100-200, 300-400 and 500-600
1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
0x7ffee{shorthex}
chr7:55{digits6}-55{digits6}
SKU 4{digits9}
Build {build} passed
part number 555-0{day}-12
Chapter 138-0013 of the archive
call(1, 2, 3)
Flight CA1{day}3 at 13:45
https://example.com/items/{order}?page=2
https://example.com/{uuid}/download
latitude 39.904{digits6}, longitude 116.407{digits6}
pi*{digits6}
Seat 12A, gate B{day}, terminal 3
room 13{day}, floor 8
USD 13800 and CNY 98000
EAN {ean}
uid=1000({shortsha}) gid=1000
订单号{order}已发货
订单编号：{order16}
运单号{order}
快递单号：{order}，请查收
发票号码{order}
流水号{order16}
提交{sha}修复了问题
哈希值为{sha256}
请求编号 {uuid}
版本{version}已发布
时间戳{epochms}
生成时间：{epochus}
统一书号：{isbn}
书号{isbnhyphen}
2024年3月{day}日10点20分
金额：13800元，共98000件
密码错误，请重试。
密码不能为空
密码：必填
请输入密码
密码长度至少为8位
密码是什么？
令牌已过期
密钥长度为2048位
文件大小为1{digits9}字节
工单号 4{digits9}
批次{build}
序列号{order}
页码100-200，第300行
房间号13{day}
地址：中关村大街{day}号
区号010，邮编100080
身份证号格式不正确
身份证号错误：{badid}
卡号校验失败：{badcard}
手机号位数不对：1380013800
手机号格式：1开头的11位数字
邮箱格式错误：zhang@
邮箱不含域名：zhangsan@内网
经度116.407{digits6}，纬度39.904{digits6}
车牌号京A{day}B67
端口8080，进程号1{digits6}
IP地址192.168.{byte}.{byte}
编号{uuid}
commit {sha} 由机器人提交
依赖 lodash@{version}
条码{ean}
课程代码 CS{day}-2024
"""

HELD_OUT = """
hey can u forward this to <email> asap?
2026-03-02 11:04:05 WARN smtp: recipient <email> rejected (550)
INSERT INTO users (mail, phone) VALUES ('<email>', '<mobile>');
Signed-off-by: Li Wei <mail>
const owner = "<email>"; // TODO
To: <email>\nSubject: lunch
Bcc=<email>|<email>
assignee: <email>,
她的邮箱换成了<email>哦
报名请发邮件至<email>（注明姓名）
抄送：<email>；密送：<email>
“<email>”这个账号登录不了
ring me: <phone>!
| Bob | <phone> | Berlin |
phone_number: "<phone>"
Tel. <usphone>
his cell's <usphone> btw
打<mobile>找小王
手机<mobile>,微信一样
联系方式 <mobile>/<landline>
"mobile":"<mobile>"
司机电话：<mobile>。车牌京A12345
传真：<landline>
pls charge my visa <card> thx
{"number":"<card>","cvc":"123"}
Card: <card> (exp 01/29)
cc <card>
付款卡号<card>，户名张三
把钱退回<card>吧
银联卡：<card>
身份证：<chinaid>
证件号码 <chinaid> 与姓名不符
idNumber=<chinaid>&name=li
买家身份证号是<chinaid>。
os.environ["OPENAI_API_KEY"] = "<openai>"
curl -H "Authorization: Bearer <openai>" localhost
key: <anthropic>
credentials: {accessKeyId: <aws>}
https://oauth2:<github>@gitlab.internal/x.git
token = "<github>"
echo <slack> > t.txt
GOOGLE_MAPS_KEY=<google>
Cookie: jwt=<jwt>
id_token=<jwt>&state=1
cat id_rsa\n<pem>
{"key": "<pemescaped>"}
spring.datasource.password=<password>
sshpass -p x; PASSWORD="<password>"
passwd: <password>
mongodb+srv://admin:<password>@cluster0.mongodb.net/test
initial password is <password>
app_secret: "<secret>"
x_api_key=<secret>
新密码：<password>
wifi密码是<password>
初始口令为<password>，请尽快修改
服务器密码: <password>
应用密钥：<secret>
访问令牌：<secret>
报错：Incorrect API key provided: <openai>
image: app@sha256:{sha256}
FROM python@sha256:{sha256}
"integrity": "sha512-{sha256}=="
color: #{shortsha}
arn:aws:iam::1{digits9}12:role/deploy
account 1{digits9}12 is closed
ssh://git@example.com/x/y.git
git remote add origin git@example.com:a/b.git
npx create-app@{version}
background: url(bg@2x.png)
@media (max-width: 600px)
@pytest.mark.parametrize
at Object.<anonymous> (app.js:10:15)
PR #1{digits6} merged at {shortsha}
elapsed=1{digits9}ns
cursor={epochms}:{epochms}
id={uuid}&v={version}
SSN is not stored here
serial no. {order16}
shipment {order16} left the warehouse
IBAN DE8937040044053201{digits6}
UPS 1Z999AA1{digits9}
VIN 1HGCM82633A{digits6}
0000 0000 0000 0000
1234 5678 9012 3456
9999999999999
row 13{digits6}
2^31 = 2147483648, 2^53 = 9007199254740992
Fri, 13 Nov 2026 10:20:30 GMT
20261113T102030Z
ratio 0.1{digits9}
password reset link sent
Enter your password:
password = getpass.getpass()
"password": null
password=******
passwords must match
token count: 1{digits6}
secret_name: my-secret
apiKey: process.env.API_KEY
The secret of good pasta is salt.
api key not set
Authorization: Basic realm
commit message: bump to {version}
公司税号91110108MA01ABCD2X
客服热线95588，订票12306
股票代码600519，市值2万亿
QQ群8{digits6}21
快递SF1{digits9}123已签收
订单{order16}待付款
交易流水：{order16}
共138001380件，合计13800138元
编号2026{digits9}
时间：{epochms}
学号2026{digits6}
密码已重置
忘记密码？
密码：******
密码强度：中
密码由字母和数字组成
口令不正确
请勿泄露密钥
令牌有效期为7天
手机号已绑定
请输入11位手机号
身份证号须为18位
银行卡号有误
邮箱未验证
@所有人 明天开会
版本号{version}，构建{build}
坐标116.3{digits6},39.9{digits6}
会议号 123 456 789
发票代码{order}
书号{isbn}定价59元
"""

_EMAIL_NAMES = (
    "jane.doe bob li-wei zhang_san x y2k first.last+tag o-neil wang.fang88 m info sales2024".split()
)
_DOMAINS = (
    "example.com qq.com 163.com mail.example.co.uk sub.acme-corp.io example.org foxmail.com"
).split()


def _from(random: Random, alphabet: str, size: int) -> str:
    return "".join(random.choice(alphabet) for _ in range(size))


_ALNUM = string.ascii_letters + string.digits


def _luhn(partial: str) -> str:
    for last in string.digits:
        total = 0
        for at, digit in enumerate(reversed(partial + last)):
            value = int(digit) * (2 if at % 2 else 1)
            total += value // 10 + value % 10
        if total % 10 == 0:
            return partial + last
    raise AssertionError


def _card(random: Random) -> str:
    prefix, size = random.choice(
        [
            ("4", 16),
            ("51", 16),
            ("55", 16),
            ("2300", 16),
            ("37", 15),
            ("6011", 16),
            ("62", 16),
            ("62", 19),
            ("3530", 16),
        ]
    )
    digits = _luhn(prefix + _from(random, string.digits, size - len(prefix) - 1))
    mark = random.choice(["", "", " ", "-"])
    if size == 15 and mark:
        return mark.join((digits[:4], digits[4:10], digits[10:]))
    return mark.join(digits[at : at + 4] for at in range(0, size, 4)) if mark else digits


def _china_id(random: Random, *, valid: bool = True) -> str:
    born = date(1950, 1, 1) + timedelta(days=random.randrange(25_000))
    body = random.choice(["110105", "310104", "440106", "510107", "650102"])
    body += born.strftime("%Y%m%d") + f"{random.randrange(1000):03}"
    total = sum(int(digit) * (2 ** (17 - at) % 11) for at, digit in enumerate(body))
    right = (12 - total % 11) % 11
    if not valid:
        right = (right + 1 + random.randrange(8)) % 11
    return body + ("X" if right == 10 else str(right))


def _mobile(random: Random) -> str:
    start = random.choice("130 135 138 139 147 150 158 166 177 186 188 191 198 199".split())
    rest = _from(random, string.digits, 8)
    return random.choice(
        [start + rest] * 3
        + [
            f"{start}-{rest[:4]}-{rest[4:]}",
            f"{start} {rest[:4]} {rest[4:]}",
            f"+86 {start}{rest}",
            f"+86-{start}-{rest[:4]}-{rest[4:]}",
        ]
    )


def _phone(random: Random) -> str:
    d = lambda size: str(random.randrange(2, 9)) + _from(random, string.digits, size - 1)  # noqa: E731
    return random.choice(
        [
            f"+1 {d(3)} {d(3)} {d(4)}",
            f"+1-{d(3)}-{d(3)}-{d(4)}",
            f"+1 ({d(3)}) {d(3)}-{d(4)}",
            f"+44 20 {d(4)} {d(4)}",
            f"+44 7{d(3)} {d(6)}",
            f"+49 30 {d(8)}",
            f"+49 151 {d(8)}",
            f"+33 6 {d(2)} {d(2)} {d(2)} {d(2)}",
            f"+852 {d(4)} {d(4)}",
            f"+81-90-{d(4)}-{d(4)}",
            f"+91 9{d(4)} {d(5)}",
            f"+61 4{d(2)} {d(3)} {d(3)}",
            f"+8869{d(8)}",
            f"+65{d(8)}",
        ]
    )


def _us_phone(random: Random) -> str:
    a, b, c = (
        f"{random.randrange(201, 989)}",
        f"{random.randrange(200, 999)}",
        _from(random, string.digits, 4),
    )
    return random.choice([f"({a}) {b}-{c}", f"{a}-{b}-{c}", f"+1 {a}-{b}-{c}"])


def _landline(random: Random) -> str:
    return random.choice(["010-6", "021-5", "0755-8", "0571-8"]) + _from(random, string.digits, 7)


def _jwt(random: Random) -> str:
    claims = f'{{"sub":"{random.randrange(10**9)}","iat":1516239022}}'
    parts = [
        base64.urlsafe_b64encode(each.encode()).decode().rstrip("=")
        for each in ('{"alg":"HS256","typ":"JWT"}', claims)
    ]
    return ".".join([*parts, _from(random, _ALNUM + "-_", 43)])


def _pem(random: Random, joint: str = "\n") -> str:
    kind = random.choice(["RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED "])
    lines = [_from(random, _ALNUM + "+/", 64) for _ in range(random.randrange(3, 12))]
    last = _from(random, _ALNUM, 30) + "=="
    begin, end = (f"-----{word} {kind}PRIVATE KEY-----" for word in ("BEGIN", "END"))
    return joint.join([begin, *lines, last, end])


def _password(random: Random) -> str:
    word = random.choice("tiger Sunset winter dragon coffee Monkey panda river".split())
    return random.choice(
        [
            f"{word}{random.randrange(10, 9999)}",
            f"{word.title()}#{random.randrange(1000)}",
            _from(random, _ALNUM, 11) + str(random.randrange(10)),
            _from(random, _ALNUM, 7) + random.choice("!$%^*_-") + _from(random, _ALNUM, 6) + "7",
            f"P{word}_{random.randrange(100, 999)}x",
        ]
    )


SECRETS: dict[str, tuple[str, Callable[[Random], str]]] = {
    "email": ("email", lambda r: f"{r.choice(_EMAIL_NAMES)}@{r.choice(_DOMAINS)}"),
    "phone": ("phone", _phone),
    "mobile": ("phone", _mobile),
    "usphone": ("phone", _us_phone),
    "landline": ("phone", _landline),
    "card": ("card number", _card),
    "chinaid": ("id number", _china_id),
    "openai": (
        "api key",
        lambda r: r.choice(["sk-", "sk-proj-", "sk-svcacct-"]) + _from(r, _ALNUM, 47) + "4",
    ),
    "anthropic": ("api key", lambda r: "sk-ant-api03-" + _from(r, _ALNUM + "-_", 92) + "AA"),
    "aws": (
        "api key",
        lambda r: r.choice(["AKIA", "ASIA"]) + _from(r, string.ascii_uppercase, 13) + "2Q7",
    ),
    "awssecret": ("api key", lambda r: _from(r, _ALNUM + "/+", 37) + "a9Z"),
    "github": (
        "api key",
        lambda r: r.choice(["ghp_", "gho_", "ghs_"]) + _from(r, _ALNUM, 35) + "8",
    ),
    "slack": (
        "api key",
        lambda r: (
            f"xoxb-{r.randrange(10**11, 10**12)}-{r.randrange(10**12, 10**13)}-"
            + _from(r, _ALNUM, 24)
        ),
    ),
    "google": ("api key", lambda r: "AIza" + _from(r, _ALNUM + "-_", 34) + "5"),
    "jwt": ("token", _jwt),
    "pem": ("private key", _pem),
    "pemescaped": ("private key", lambda r: _pem(r, "\\n")),
    "password": ("password", _password),
    "secret": ("api key", lambda r: _from(r, _ALNUM, 30) + "x7"),
}


def _isbn(random: Random) -> str:
    body = "978" + _from(random, string.digits, 9)
    total = sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(body))
    return body + str(-total % 10)


def _hyphened(isbn: str) -> str:
    return "-".join((isbn[:3], isbn[3], isbn[4:7], isbn[7:12], isbn[12]))


def _bad_card(random: Random) -> str:
    good = _luhn("4" + _from(random, string.digits, 14))
    return good[:-1] + str((int(good[-1]) + 1 + random.randrange(8)) % 10)


_HEX = "0123456789abcdef"
OTHERS: dict[str, Callable[[Random], str]] = {
    "order": lambda r: (
        f"202{r.randrange(4, 7)}{r.randrange(101, 1231):04}"
        + _from(r, string.digits, r.choice([6, 8, 10]))
    ),
    "order16": lambda r: _from(r, "123456789", 1) + _from(r, string.digits, 15),
    "sha": lambda r: _from(r, _HEX, 40),
    "shortsha": lambda r: _from(r, _HEX, 7),
    "sha256": lambda r: _from(r, _HEX, 64),
    "md5": lambda r: _from(r, _HEX, 32),
    "shorthex": lambda r: _from(r, _HEX, 8),
    "uuid": lambda r: "-".join(_from(r, _HEX, size) for size in (8, 4, 4, 4, 12)),
    "version": lambda r: f"{r.randrange(30)}.{r.randrange(40)}.{r.randrange(99)}",
    "epochms": lambda r: str(r.randrange(1_500_000_000_000, 1_900_000_000_000)),
    "epochus": lambda r: str(r.randrange(1_500_000_000_000_000, 1_900_000_000_000_000)),
    "epochns": lambda r: str(r.randrange(1_500_000_000_000_000_000, 1_900_000_000_000_000_000)),
    "day": lambda r: f"{r.randrange(1, 29):02}",
    "isbn": _isbn,
    "isbnhyphen": lambda r: _hyphened(_isbn(r)),
    "byte": lambda r: str(r.randrange(256)),
    "byte2": lambda r: f"{r.randrange(256):02x}",
    "digits9": lambda r: _from(r, string.digits, 9),
    "digits6": lambda r: _from(r, string.digits, 6),
    "small": lambda r: str(r.randrange(100, 99_999)),
    "build": lambda r: f"2024{r.randrange(1000, 9999)}.{r.randrange(99)}",
    "ean": lambda r: "69" + _from(r, string.digits, 11),
    "badid": lambda r: _china_id(r, valid=False),
    "badcard": _bad_card,
}


def samples(half: int, *, copies: int = 6, seed: int = 20_261_116) -> Iterator[Sample]:
    """Yield the samples of one half, each sentence with several values."""
    text = f"{POSITIVE.strip()}\n{NEGATIVE.strip()}" if half == DEVELOP else HELD_OUT.strip()
    for number, line in enumerate(text.splitlines()):
        random = Random(f"{seed}:{half}:{number}")  # noqa: S311 (invented values)
        for _ in range(copies):
            yield _filled(line.replace("\\n", "\n"), random)


def _filled(line: str, random: Random) -> Sample:
    text = ""
    found: list[tuple[str, int, int]] = []
    for piece in re.split(r"(<[a-z]+>|\{[a-z0-9]+\})", line):
        name = piece[1:-1]
        if piece == "<mail>":
            text, name = f"{text}<", "email"
        if piece.startswith("<") and name in SECRETS:
            kind, make = SECRETS[name]
            value = make(random)
            found.append((kind, len(text), len(text) + len(value)))
            text += value
        else:
            text += OTHERS[name](random) if piece.startswith("{") and name in OTHERS else piece
    return Sample(text, tuple(found))
