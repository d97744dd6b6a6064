"""How deep the parts of an expression are nested, by its text: the package reads none that is deeper than 32.

Kubernetes reads expressions up to 250, and counts twice: brackets and right operands while it parses, and then how many
operators, members, calls and indices contain one another. A chain of members or operators is nested to the left.

Source: cel-go v0.26.0, parser/parser.go (``recursionListener``, ``checkAndIncrementRecursionDepth``), CEL.g4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

__all__ = ["depth_error"]

_LIMIT: Final = 250
_WORDS: Final = re.compile(
    r"[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\")|[rR][bB]?(?:'[^'\n]*'|\"[^\"\n]*\")"
    r"|[bB]?(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")|\d[\w.]*|[A-Za-z_]\w*|&&|\|\||[=!<>]=|//[^\n]*|\S",
    re.DOTALL,
)
_PRECEDENCE: Final = {
    **dict.fromkeys(("?", ":"), 0),
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_COUNTED: Final = (":", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%")


_Entered: TypeAlias = tuple[int, int, int]


@dataclass(slots=True)
class _Level:
    """What is between two brackets.

    Attributes:
        before: what the bracket follows: nothing, a value that it looks into, a function or a member of a value.
        heights: of operands that wait for their operators; `highest` is that of the parts before.
        choices: how many have begun their last part, and `open_choices` how many have not.
    """

    before: Literal["", "value", "function", "member"] = ""
    heights: list[int] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    highest: int = 0
    open_choices: int = 0
    choices: int = 0

    def put(self, operator: str) -> None:
        while self.operators and _PRECEDENCE[self.operators[-1]] >= max(_PRECEDENCE[operator], 1):
            self._join()
        self.operators.append(operator)

    def end(self) -> int:
        """End a part, and return the greatest height so far."""
        while self.operators:
            self._join()
        self.highest = max(self.highest, *self.heights, 0)
        self.heights.clear()
        self.open_choices = self.choices = 0
        return self.highest

    def _join(self) -> None:
        operator = self.operators.pop()
        right = self.heights.pop() if self.heights else 0
        left = self.heights.pop() if self.heights else 0
        self.heights.append(max(left, right) + (operator in _COUNTED))

    @property
    def entered(self) -> _Entered:
        """How often the parser is in the rules of expressions, comparisons and sums here."""
        open_ = {_PRECEDENCE[each] for each in self.operators[-3:]}
        return 1 + self.choices, 1 + (3 in open_), 1 + (4 in open_) + (5 in open_)


def _sum(one: _Entered, other: _Entered) -> _Entered:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def depth_error(expression: str) -> str | None:
    """Return what cel-go says of an expression that is too deep, None for one that is not."""
    levels = [_Level()]
    entered: list[_Entered] = [(0, 0, 0)]
    wants_operand, highest, before = True, 0, ""
    name: Literal["function", "member"] = "function"
    for word in _WORDS.findall(expression):
        level = levels[-1]
        if word.startswith("//") or (word == "?" and (wants_operand or before == ".")):
            continue
        if word in ("(", "[", "{"):
            entered.append(_sum(entered[-1], level.entered))
            levels.append(_Level("" if wants_operand else "value" if word != "(" else name))
            wants_operand = True
        elif word in (")", "]", "}") and len(levels) > 1:
            inner = levels.pop()
            entered.pop()
            height = inner.end()
            outer = levels[-1]
            if inner.before:
                # The member of a call was counted as a part of its value.
                target = outer.heights.pop() - (inner.before == "member")
                height = max(height, target) + (inner.before != "function")
            outer.heights.append(height)
            wants_operand = False
        elif word == ",":
            level.end()
            wants_operand = True
        elif word in _PRECEDENCE and not wants_operand:
            if word == ":" and not level.open_choices:
                level.end()
            else:
                level.put(word)
                level.open_choices += (word == "?") - (word == ":")
                level.choices += word == ":"
            wants_operand = True
        elif word[0] not in "!-.":
            if before == "." and level.heights:
                level.heights[-1] += 1
                name = "member"
            elif wants_operand:
                level.heights.append(0)
                name = "function"
            wants_operand = False
        if word not in ("(", "[", "{"):
            highest = max(highest, *_sum(entered[-1], levels[-1].entered))
        before = word
    if highest > _LIMIT:
        return f"ERROR: <input>:-1:0: expression recursion limit exceeded: {_LIMIT}"
    if levels[0].end() > _LIMIT:
        return "ERROR: <input>:-1:0: max recursion depth exceeded"
    return None
