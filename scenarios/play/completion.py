"""What a shell offers for the words of a command: names of stories, their tags, versions of Kubernetes.

Only click is imported at load, see `scenarios.cli`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["offered", "stories_and_files", "tags_of_stories", "versions"]


def stories_and_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Built-in stories and topics, and files."""
    from click.shell_completion import CompletionItem

    from ..story.stories import builtin

    topics = (f"{name.partition('/')[0]}/" for name in builtin() if "/" in name)
    return [CompletionItem(incomplete, type="file"), *offered((*topics, *builtin()), incomplete)]


def tags_of_stories(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tags of built-in stories."""
    from ..story.stories import summaries

    return offered(sorted(tag for summary in summaries().values() for tag in summary.tags), incomplete)


def versions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The Kubernetes minors that kubelets follow."""
    from simkubelet.model.version import SUPPORTED

    return offered(SUPPORTED, incomplete)


def offered(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Those of the names that begin as what is typed, each once."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]
