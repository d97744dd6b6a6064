"""The same commands for two API servers, and their answers without what is each cluster's own.

A table of commands is text: ``== topic`` begins a topic, ``#`` a comment; every other line is a command of kubectl, or
a request as ``METHOD /path Header=value``, of whose answer only the status and the words of a refusal count where the
method ends with ``!``. What follows ``<<<`` is given to it: YAML, sent as JSON, or after ``<<<|`` a text as it stands.
``$NS`` is the topic's namespace, ``$NODE`` a node's name, ``$IMAGE`` an image that runs until it is ended. A line that
ends with `` ~`` is done again until both say the same, which is for what controllers do meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from tests.support.patience import LIMIT_S

__all__ = ["Command", "World", "read_table"]

_STREAM_ENDS_WITHIN_S: Final = 15
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")
_OWN: Final = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "<time>"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"https?://(127\.0\.0\.1|localhost|\d+\.\d+\.\d+\.\d+):\d+", "<server>"),
    (r"\d+\.\d+\.\d+\.\d+(/\d+)?", "<address>"),
    (r"(?<![\w.-])((\d+d)?(\d+h)?(\d+m)?\d+s|(\d+d)?(\d+h)?\d+m|\d+d(\d+h)?|<unknown>|<invalid>)(?![\w.-])", "<age>"),
    (r'(resourceVersion"?: "?|resourceVersion="?)\d+', r"\1<version>"),
    (r"\b[0-9a-f]{10,16}\b(?=[ \"])", "<hash>"),
    (r"ResourceVersion in record \(\d+\)", "ResourceVersion in record (<version>)"),
    (r'Invalid value: "\{(\\.|[^"\\])*\}": ', "Invalid value: <object>: "),
    (r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n", "<certificate>"),
    (r"^[IWE]\d{4} \d\d:.*\n", ""),
    (r"[ \t]+$", ""),
    (r"(?<=\S)[ \t]{2,}", "  "),
)
_VOLATILE: Final = {
    "uid": "<uid>",
    "resourceVersion": "<version>",
    "continue": "<token>",
    "description": "<text>",
}


@dataclass(frozen=True)
class Command:
    """One line of a table; `given` is None where nothing is."""

    line: str
    given: str | None = None
    is_awaited: bool = False


def read_table(path: Path) -> dict[str, list[Command]]:
    """Topic -> its commands."""
    topics: dict[str, list[Command]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("== "):
            topics[line[3:]] = []
        elif line.strip() and not line.startswith("#"):
            topics[list(topics)[-1]].append(_command(line))
    return topics


def _command(line: str) -> Command:
    is_awaited = line.endswith(" ~")
    command, is_given, given = line.removesuffix(" ~").partition(" <<<")
    if not is_given:
        return Command(command, is_awaited=is_awaited)
    if given.startswith("|"):
        return Command(command, given.removeprefix("|"), is_awaited)
    documents = [json.dumps(document) for document in yaml.safe_load_all(given.replace(" --- ", "\n---\n"))]
    return Command(command, "\n---\n".join(documents), is_awaited)


@dataclass
class World:
    """One cluster as its clients see it.

    Attributes:
        url: of its API server, or of a proxy that lets everybody in.
        kubectl: the program.
        names: what stands for a ``$NAME`` in a command.
    """

    session: aiohttp.ClientSession
    url: str
    kubeconfig: Path
    kubectl: Path
    names: Mapping[str, str]

    async def answer(self, command: Command, namespace: str) -> str:
        """What a command is answered, in a form that can be compared."""
        names = {**self.names, "NS": namespace}
        line, given = _filled(command.line, names), command.given and _filled(command.given, names)
        word, *_ = line.split(" ", 1)
        if word.rstrip("!") in _METHODS:
            return await self._request(line, given)
        return await self._kubectl(line, given, namespace)

    async def _kubectl(self, line: str, given: str | None, namespace: str) -> str:
        process = await asyncio.create_subprocess_exec(
            self.kubectl,
            f"--namespace={namespace}",
            *shlex.split(line),
            stdin=asyncio.subprocess.PIPE if given is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent)},
        )
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate(None if given is None else given.encode())
        return f"exit {process.returncode}\n{_normal(out.decode())}--- stderr\n{_normal(err.decode())}"

    async def _request(self, line: str, given: str | None) -> str:
        method, path, *pairs = shlex.split(line)
        headers = dict(pair.split("=", 1) for pair in pairs)
        if given is not None:
            headers.setdefault("Content-Type", "application/json")
        data = given.encode() if given is not None else None
        limit = aiohttp.ClientTimeout(total=_STREAM_ENDS_WITHIN_S)
        try:
            async with self.session.request(
                method.rstrip("!"), self.url + path, data=data, headers=headers, timeout=limit
            ) as response:
                text = await response.text()
                if method.endswith("!"):
                    return f"{response.status} {_normal(_message(text))}"
                told = [f"{response.status} {response.content_type}", *response.headers.getall("Warning", [])]
                return "\n".join([*told, _normal_body(text)])
        except TimeoutError:
            return f"no end within {_STREAM_ENDS_WITHIN_S} s"


def _filled(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\$([A-Z]+)", lambda found: names.get(found[1], found[0]), text)


def _normal(text: str) -> str:
    """A text without what differs between two runs of anything."""
    for pattern, instead in _OWN:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


def _message(text: str) -> str:
    answer = json.loads(text)
    return str(answer["message"]) if answer["kind"] == "Status" else ""


def _normal_body(text: str) -> str:
    try:
        documents = [json.loads(line) for line in text.splitlines()] if "\n{" in text else [json.loads(text)]
    except ValueError:
        return _normal(text)
    return "\n".join(json.dumps(_normal_value(document), indent=1, sort_keys=True) for document in documents)


def _normal_value(value: Any) -> Any:
    if isinstance(value, dict):
        if "managedFields" in value:
            # A server sorts them by their seconds first, and one second may end between two changes at one server.
            value = {**value, "managedFields": sorted(value["managedFields"], key=_manager)}
        return {key: _VOLATILE.get(key) or _normal_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_normal_value(inner) for inner in value]
    return _normal(value) if isinstance(value, str) else value


def _manager(entry: Mapping[str, str]) -> tuple[str, ...]:
    return entry["operation"], entry["manager"], entry.get("subresource", "")
