"""`turnfold proxy`: a proxy between any agent program and its model provider; shortens requests to a token budget."""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.proxy.app import ProxyApp, make_proxy, run_proxy
    from turnfold.proxy.options import ProxyOptions

__all__ = ("ProxyApp", "ProxyOptions", "make_proxy", "run_proxy")

_HOMES = {
    "turnfold.proxy.app": "ProxyApp make_proxy run_proxy",
    "turnfold.proxy.options": "ProxyOptions",
}

_get, __dir__ = late_names(__name__, _HOMES)


def __getattr__(name: str) -> object:
    try:
        return _get(name)
    except ModuleNotFoundError as missing:
        from turnfold.errors import MissingExtra

        package = (missing.name or "").partition(".")[0]
        if package not in {"h11", "starlette", "uvicorn"}:
            raise
        raise MissingExtra(
            package=package, extra="proxy", purpose=f"{__name__}.{name}"
        ) from missing
