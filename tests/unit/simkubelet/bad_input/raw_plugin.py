"""A device plugin that answers some of its calls with bytes of the test's choice, whether they are messages or not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

from simkubelet.apis.grpcwire.served_call import Method, StreamMethod, UnaryMethod
from tests.support.node import FakePlugin


class RawPlugin(FakePlugin):
    """A fake plugin.

    Attributes:
        answers: method -> its answer's bytes; the other methods answer as a fake plugin does. The bytes for
            ListAndWatch are sent in the place of every list.
    """

    def __init__(self, folder: Path, answers: Mapping[str, bytes] | None = None, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.answers = dict(answers or {})

    def methods(self) -> dict[str, Method]:
        return answered_raw(super().methods(), self.answers.get)


def answered_raw(methods: Mapping[str, Method], answer_of: Callable[[str], bytes | None]) -> dict[str, Method]:
    """Return methods that answer with the bytes that there are for their name, the others as before."""

    def changed(path: str, method: Method) -> Method:
        def chosen(message: Any) -> Any:
            content = answer_of(path.rpartition("/")[2])
            return message if content is None else _Answer(content)

        if isinstance(method, StreamMethod):
            return StreamMethod(method.read, _each(method.answers, chosen))

        async def answer(request: Any) -> Any:
            return chosen(await method.answer(request))

        return UnaryMethod(method.read, answer)

    return {path: changed(path, method) for path, method in methods.items()}


class _Answer(bytes):
    """Bytes that are sent as a message."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - as messages have it
        return self


def _each(answers: Callable[[Any], AsyncGenerator[Any, None]], change: Callable[[Any], Any]) -> Any:
    async def changed(request: Any) -> AsyncGenerator[Any, None]:
        async for message in answers(request):
            yield change(message)

    return changed
