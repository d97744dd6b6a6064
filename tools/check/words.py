"""Fail where prose uses a word that this project has dropped, and name the word to use instead.

Prose is what somebody reads as a sentence: Markdown, docstrings, comments, help texts, names and ids of tests,
descriptions of stories. Code and quotations are not prose: text in backticks or double quotes is not checked, since it
may be the kubelet's or NVIDIA's own.

Without arguments the tool checks the files of the checkout. With arguments it checks those files and folders; a file of
an unknown kind, such as a commit message, is prose as a whole.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

from .text import ROOT, project_files

_TEXTS = {
    tokenize.STRING,
    *(getattr(tokenize, name) for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE") if hasattr(tokenize, name)),
}
"""Since Python 3.12 a formatted string is several tokens."""

DROPPED = {
    r"mend(?:s|ed|ing)?": "fix",
    r"befall(?:s|en|ing)?|befell": "affect, apply to",
    r"anew|afresh": "again; recreated, regenerated",
    r"reckon(?:s|ed|ing)?": "compute, count",
    r"com(?:e|es|ing) along|came along": "bundled, built-in",
    r"heed(?:s|ed|ing)?": "follow, handle, listen to",
    r"told(?! apart)": "reported, recorded, given",
    r"tell(?:s|ing)? of": "report, contain, be about",
    r"(?:unless|if not|where not) told|nothing (?:else )?is said": "by default",
    r"who(?:m|so)?ever": "user, caller, client",
    r"cut(?:s|ting)? short": "truncate",
    r"by and by": "gradually, later",
    r"tend(?:s|ed|ing)?(?! to)": "supervise, restart",
    r"(?:new|next|first|second|last|earlier|another|each|every) (?:life|lives)": "process, start, instance",
    r"surroundings": "node context",
    r"last words": "exit log, last output",
    r"in (?:its|their) tracks": "paused",
    r"in turns": "alternately",
    r"(?:stands?|stood|standing) (?:in(?! for)|on|at|below|above|beside|behind|there|here|before)": "is in, is on",
    r"(?:lies|lie|lay) (?:in|on|at|below|above|beside|behind|there|here)": "is in, is on",
    r"sees to": "provides, handles",
    r"falls? ill|fell ill|is ill|are ill": "become unhealthy",
    r"(?:is|are|be|gets?|got) well(?=[.,;:)])": "healthy",
    r"(?:that|which|it|this|they|these) (?:is|are|was|were) no (?!longer|more|such|one|matter|less)": "is not a",
    r"shall": "must, should, will",
    r"save (?:where|when)": "except",
    r"but for": "except for",
    r"of one's own": "your own",
    r"(?:own|kubelet's|Go's|program's|driver's|original's|API's) words": "text, message",
    r"takes? (?:it |them |that )?away|took (?:it |them |that )?away|taken away": "remove",
    r"goes? on|went on|going on": "continue",
    r"once more|all the same|none the less": "again; anyway",
    r"lest|whence|thence|hitherto|whilst|amongst|in vain|amiss|awry": "a plainer word",
}
"""Pattern -> what to use instead. A space in a pattern stands for any white space, line ends included."""

_DROPPED = re.compile(
    r"\b(?:{})\b".format("|".join(f"({each})" for each in DROPPED)).replace(" ", r"\s+"), re.IGNORECASE
)
_USE = tuple(DROPPED.values())
_QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"\n]*\"|“[^”]*”", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$|\]\([^)\n]*\)", re.MULTILINE | re.DOTALL)
_HASH_COMMENT = re.compile(r"(?<!\S)#(.*)")
_C_COMMENT = re.compile(r"/\*(.*?)\*/|//([^\n]*)", re.DOTALL)
_DESCRIPTION = re.compile(r"^description:((?:.*\n)(?:[ \n].*\n|\n)*)|^ *- name:(.*)", re.MULTILINE)
_STRING = re.compile(r"[A-Za-z]*(\"\"\"|'''|\"|')(.*)\1", re.DOTALL)
_HELP = {"help", "short_help", "epilog", "id", "ids"}


def findings(suffix: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, found words and what to use instead, for the prose in a file of some kind."""
    prose = _QUOTED.sub(_blank, _PROSE.get(suffix, str)(text))
    ends = list(accumulate(map(len, text.splitlines(keepends=True))))
    for match in _DROPPED.finditer(prose):
        yield bisect_right(ends, match.start()) + 1, " ".join(match[0].split()), _USE[(match.lastindex or 1) - 1]


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"\S", " ", match[0])


def _only(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with everything outside some spans replaced by spaces, so that places stay the same."""
    kept, last = [], 0
    for start, end in sorted(spans):
        kept += [re.sub(r"\S", " ", text[last:start]), text[start:end]]
        last = max(last, end)
    return "".join([*kept, re.sub(r"\S", " ", text[last:])])


def _markdown(text: str) -> str:
    return _FENCE.sub(_blank, text)


def _comments(text: str) -> str:
    return _only(text, [match.span(1) for match in _HASH_COMMENT.finditer(text)])


def _yaml(text: str) -> str:
    described = [match.span(group) for match in _DESCRIPTION.finditer(text) for group in (1, 2) if match[group]]
    return _only(text, [*described, *(match.span(1) for match in _HASH_COMMENT.finditer(text))])


def _c(text: str) -> str:
    spans = [match.span(group) for match in _C_COMMENT.finditer(text) for group in (1, 2) if match[group]]
    return re.sub(r"^ +\*", _blank, _only(text, spans), flags=re.MULTILINE)


def _python(text: str) -> str:
    tree = ast.parse(text)
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    strings = list(_prose_strings(tree))
    spans = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        if token.type == tokenize.COMMENT:
            spans.append((start + 1, end))
        elif token.type in _TEXTS and any(first <= token.start < last for first, last in strings):
            inside = _STRING.fullmatch(token.string)
            spans.append((start + inside.start(2), start + inside.end(2)) if inside else (start, end))
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            spans.append((start, end))
    return re.sub(r"\btest_\w+", lambda name: name[0].replace("_", " "), _only(text, spans))


def _prose_strings(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where docstrings, help texts and ids of tests begin and end, as (line, column in bytes)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            place: ast.expr = node.value
        elif isinstance(node, ast.keyword) and node.arg in _HELP:
            place = node.value
        else:
            continue
        yield (place.lineno, place.col_offset), (place.end_lineno or place.lineno, place.end_col_offset or 0)


_PROSE: dict[str, Callable[[str], str]] = {
    ".md": _markdown,
    ".py": _python,
    **dict.fromkeys((".c", ".h"), _c),
    **dict.fromkeys((".yaml", ".yml"), _yaml),
    **dict.fromkeys((".toml", ".cmake", ".sh", ".go"), _comments),
}


def _files(arguments: list[str]) -> Iterator[Path]:
    for path in map(Path, arguments) if arguments else (ROOT,):
        yield from (each for each in project_files(path) if each.suffix in _PROSE) if path.is_dir() else (path,)


def main(arguments: list[str]) -> int:
    """Print each finding; return 1 if there is any."""
    hits = 0
    for path in _files(arguments):
        for line, words, use in findings(path.suffix, path.read_text(encoding="utf-8")):
            hits += 1
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{line}: '{words}': write '{use}'", file=sys.stderr)
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
