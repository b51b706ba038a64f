from typing import Any, Generic, TypeVar

_State = TypeVar("_State")

class _Store:
    async def get(self, path: str, default: object = ...) -> Any: ...  # noqa: ANN401
    async def set(self, path: str, value: object) -> None: ...

class Context(Generic[_State]):
    @property
    def store(self) -> _Store: ...
