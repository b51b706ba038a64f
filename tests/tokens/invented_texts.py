"""Texts written for the estimate's tests: the ground that the real conversations cover, in small."""

from __future__ import annotations

import base64
import json
import random
import string
import uuid

__all__ = ("BY_CLASS", "OTHER_LANGUAGES", "STRANGE")

_draw = random.Random(2024)  # noqa: S311 - the same noise in every run

BY_CLASS: dict[str, list[str]] = {
    "Chinese chat": [
        "你今天几点下班？我们一起去吃火锅吧。",
        "昨天那部电影你看了吗？我觉得男主角演得很自然，就是结尾有点仓促。",
        "我最近在学弹吉他，每天练半个小时，手指都磨出茧子了。",
        "不好意思，刚才在开会，没听到手机响。你说的那家书店在哪条路上？",
        "周末如果不下雨，我想带孩子去郊外的湿地公园看候鸟，听说这个季节最多。",
        "谢谢你的建议，我回去跟家里人商量一下，明天上午给你答复。",
    ],
    "Chinese consultation": [
        "医生您好，我父亲六十八岁，患高血压十多年，最近早晨起床时头晕，请问需要调整药量吗？",
        "建议先连续监测一周血压，早晚各一次并做好记录；如收缩压持续高于160毫米汞柱，请尽快到心内科复诊。",
        "孩子发烧38.7度，咳嗽有痰，没有呕吐和皮疹，精神尚可。家里有布洛芬混悬液，可以先用吗？",
        "您描述的症状更像慢性胃炎，平时要规律饮食，避免辛辣、油腻和浓茶，必要时做胃镜检查明确诊断。",
    ],
    "English chat": [
        "Hey, are you still coming over for dinner on Friday? I'm making that lemon chicken again.",
        "I finally signed up for the pottery class we talked about! It starts next Tuesday evening.",
        "No worries at all, take your time. Let me know when you've had a chance to look at it.",
        "Honestly, the hardest part of moving was saying goodbye to the neighbours, they were so kind.",
        "We hiked about nine miles yesterday and my legs are so sore I can barely walk downstairs.",
    ],
    "English service": [
        "I'd like to return the blue jacket from order #W4082615 because the sleeves are too short.",
        "Your refund of $84.50 will be credited to the original payment method within 5 to 7 business days.",
        "To change your reservation, please confirm the new dates and whether you need checked baggage.",
        "I understand this is frustrating. I have escalated the issue and you will receive an email shortly.",
    ],
    "tool calls": [
        json.dumps({"order_id": "#W4082615", "item_ids": ["4579334072", "1656367028"]}),
        json.dumps({"user_id": "maria_lopez_4471", "reservation_id": "QX7T2M", "cabin": "economy"}),
        json.dumps({"path": "src/app/session.py", "offset": 120, "limit": 80}),
        json.dumps({"city": "杭州", "date": "2025-03-14", "units": "metric"}, ensure_ascii=False),
        json.dumps({"command": "git log --oneline -n 20 && ls -la build/"}),
    ],
    "tool results": [
        json.dumps(
            {
                "flight_number": "HAT271",
                "origin": "SEA",
                "destination": "BOS",
                "status": "available",
                "prices": {"basic_economy": 87, "economy": 143, "business": 389},
                "available_seats": {"economy": 12, "business": 3},
            }
        ),
        json.dumps(
            [
                {"id": number, "name": name, "quantity": number * 3, "price": number * 7.25}
                for number, name in enumerate(["desk lamp", "water bottle", "garden hose"], start=1)
            ],
            indent=2,
        ),
        (
            "total 24\ndrwxr-xr-x 4 dana staff  128 Mar  3 10:12 docs\n"
            "-rw-r--r-- 1 dana staff 2210 Mar  3 10:15 README.md\n"
            "-rw-r--r-- 1 dana staff  964 Mar  1 09:40 setup.cfg\n"
        ),
        (
            "FAILED tests/test_cart.py::test_discount - AssertionError: assert 90.0 == 85.5\n"
            "1 failed, 41 passed in 2.13s"
        ),
    ],
    "code": [
        (
            "def moving_average(values: list[float], width: int) -> list[float]:\n"
            '    """The mean of each window of `width` values."""\n'
            "    if width <= 0:\n"
            '        raise ValueError(f"width must be positive, got {width}")\n'
            "    total = sum(values[:width])\n"
            "    means = [total / width]\n"
            "    for old, new in zip(values, values[width:]):\n"
            "        total += new - old\n"
            "        means.append(total / width)\n"
            "    return means\n"
        ),
        (
            "export async function fetchUserProfile(userId, { retries = 2 } = {}) {\n"
            "  const response = await fetch(`/api/users/${userId}`);\n"
            "  if (!response.ok && retries > 0) {\n"
            "    return fetchUserProfile(userId, { retries: retries - 1 });\n"
            "  }\n"
            "  return response.json();\n"
            "}\n"
        ),
        (
            "SELECT c.name, COUNT(*) AS orders\nFROM customers AS c\nJOIN orders AS o ON o.customer_id = c.id\n"
            "WHERE o.created_at >= '2024-01-01'\nGROUP BY c.name\nORDER BY orders DESC\nLIMIT 10;\n"
        ),
        (
            "# 读取配置文件，找不到时使用默认值\ndef load_config(path):\n    try:\n"
            "        with open(path, encoding='utf-8') as file:\n            return json.load(file)\n"
            "    except FileNotFoundError:\n        return dict(DEFAULTS)\n"
        ),
        (
            "class Basket:\n"
            "    def __init__(self) -> None:\n"
            "        self.lines: dict[str, int] = {}\n\n"
            "    def add(self, product: str, quantity: int = 1) -> None:\n"
            "        self.lines[product] = self.lines.get(product, 0) + quantity\n\n"
            "    def total(self, prices: dict[str, float]) -> float:\n"
            "        return sum(prices[product] * count for product, count in self.lines.items())\n"
        ),
        (
            "services:\n  web:\n    image: python:3.12-slim\n    command: uvicorn shop.main:app --port 8000\n"
            "    environment:\n      DATABASE_URL: postgresql://shop@db/shop\n    depends_on: [db]\n"
            "  db:\n    image: postgres:16\n    volumes:\n      - data:/var/lib/postgresql/data\n"
        ),
    ],
    "mixed": [
        "请用 Python 写一个函数，读取 CSV 文件并按 date 列排序，谢谢。",
        "这个 bug 是因为 session 在 commit 之后没有 refresh，所以拿到的还是旧的数据。",
        "部署步骤：先运行 docker compose build，再执行 make migrate，最后检查 /healthz 是否返回 200。",
        "The label says “小心轻放”, which means handle with care; please add it to the packing list.",
        "我们公司用的是 Slack 和 Google Drive，周报模板在 shared folder 里，你有空看一下。",
        "昨天的 meeting 里 Linda 说 Q3 的 budget 要再砍 10%，市场部那边可能会有意见。",
        "My Chinese teacher explained that 热闹 has no exact English word; 'lively' comes close.",
        "这款耳机支持 Bluetooth 5.3，续航 30 小时，USB-C 快充，右边那个按钮可以切换 noise cancelling 模式。",
        "Please reply to the customer: 您好，您的订单已经发货，预计三天内送达。Then close the ticket.",
        "他在 LinkedIn 上发了一篇文章，标题是 How to build trust in remote teams，写得挺实在的。",
    ],
}

OTHER_LANGUAGES: dict[str, str] = {
    "Traditional Chinese": "請問這班公車有到臺北車站嗎？我想在傍晚之前趕到那裡換車。",
    "Japanese": "明日の朝は早いので、今夜は早めに寝ようと思います。天気が良ければ公園を走ります。",
    "Korean": "내일 아침에 일찍 일어나야 해서 오늘은 일찍 자려고 합니다. 날씨가 좋으면 공원을 달릴 거예요.",
    "Russian": "Завтра мне нужно рано вставать, поэтому сегодня я лягу спать пораньше.",
    "Ukrainian": "Завтра мені треба рано вставати, тому сьогодні я ляжу спати раніше.",
    "Greek": "Αύριο πρέπει να ξυπνήσω νωρίς, γι' αυτό απόψε θα κοιμηθώ νωρίτερα.",
    "Arabic": "يجب أن أستيقظ مبكرا غدا، لذلك سأنام الليلة قبل الموعد المعتاد.",
    "Persian": "فردا باید زود بیدار شوم، برای همین امشب زودتر می‌خوابم.",
    "Hebrew": "מחר אני צריך לקום מוקדם, ולכן הלילה אלך לישון מוקדם יותר.",
    "Hindi": "कल मुझे जल्दी उठना है, इसलिए आज रात मैं जल्दी सो जाऊँगा।",
    "Thai": "พรุ่งนี้ต้องตื่นเช้า คืนนี้จึงจะเข้านอนเร็วกว่าปกติ",
    "German": "Morgen muss ich früh aufstehen, deshalb gehe ich heute Abend eher schlafen als sonst.",
    "French": "Demain je dois me lever tôt, alors ce soir je vais me coucher plus tôt que d'habitude.",
    "Spanish": "Mañana tengo que madrugar, así que esta noche me acostaré antes de lo normal.",
    "Polish": "Jutro muszę wcześnie wstać, dlatego dziś wieczorem położę się spać wcześniej.",
    "Czech": "Zítra musím brzy vstávat, a proto půjdu dnes večer spát dřív než obvykle.",
    "Finnish": "Huomenna minun täytyy herätä aikaisin, joten menen tänään tavallista aiemmin nukkumaan.",
    "Hungarian": "Holnap korán kell kelnem, ezért ma este a szokásosnál hamarabb fekszem le.",
    "Turkish": "Yarın erken kalkmam gerekiyor, bu yüzden bu gece her zamankinden erken yatacağım.",
    "Vietnamese": "Ngày mai tôi phải dậy sớm, vì vậy tối nay tôi sẽ đi ngủ sớm hơn thường lệ.",
    "Indonesian": "Besok saya harus bangun pagi, jadi malam ini saya akan tidur lebih awal dari biasanya.",
    "Italian": "Domani devo alzarmi presto, quindi stasera andrò a dormire prima del solito.",
}

STRANGE: dict[str, str] = {
    "base64": base64.b64encode(_draw.randbytes(600)).decode(),
    "hexadecimal": _draw.randbytes(200).hex(),
    "uuids": " ".join(str(uuid.UUID(bytes=_draw.randbytes(16))) for _ in range(12)),
    "mixed keys": " ".join(
        "".join(_draw.choices(string.ascii_letters + string.digits, k=22)) for _ in range(12)
    ),
    "random letters": " ".join(
        "".join(_draw.choices(string.ascii_lowercase, k=9)) for _ in range(40)
    ),
    "random Han": "".join(chr(_draw.randrange(0x4E00, 0xA000)) for _ in range(200)),
    "random hangul": "".join(chr(_draw.randrange(0xAC00, 0xD7A4)) for _ in range(200)),
    "emoji": "😀😂❤️👍🏽👨‍👩‍👧‍👦🇫🇷🎉🔥✨🙏😊🥳🫠" * 3,
    "boxes": "┌──────┬───┐\n│ name │ n │\n├──────┼───┤\n│ a    │ 1 │\n└──────┴───┘\n",
    "Markdown table": "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n",
    "Markdown rule": "|---|---|---|\n",
    "mathematics": "∀x∈ℝ ∃y≥0: x²=y ⇒ ∑ᵢ₌₁ⁿ i = n(n+1)/2, ∫₀^∞ e^(−x²) dx = √π/2",
    "log": "2025-03-14T09:26:53.589Z WARN [pool-3-thread-7] c.e.HttpClient - retry 2/5 in 400ms\n"
    * 5,
    "minified": "!function(t,e){for(var n=0;n<e.length;n++)t[e[n]]=e[n+1]||{}}(window,['a','b']);"
    * 3,
    "address": "https://example.org/a/b-c_d?utm_source=x&id=9f8e7d6c&sig=Zm9vYmFy%2Fbaz#frag-12"
    * 2,
}
