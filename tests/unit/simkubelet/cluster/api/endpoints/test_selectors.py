"""Label and field selectors."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.endpoints.selectors import Selection, SelectorError, parse_fields, parse_labels
from simkubelet.cluster.api.registry.kinds import kind_named

LABELS = {"app": "web", "tier": "front", "count": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("!other", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app!=web", False),
        ("other!=web", True),
        ("app in (web, api)", True),
        ("app notin (web,api)", False),
        ("other notin (web)", True),
        ("count>4", True),
        ("count<5", False),
        ("app>4", False),
        ("empty=", True),
        ("empty in ()", True),
        ("app in (,web)", True),
        ("example.com/app notin (x)", True),
        (" app = web , tier ", True),
    ],
)
def test_label_selector(text: str, matches: bool) -> None:
    assert all(requirement.matches(LABELS) for requirement in parse_labels(text)) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app in web", "unable to parse requirement: found 'web' expected: '('"),
        ("app ? web", "unable to parse requirement: found '?', expected: in, notin, =, ==, !=, gt, lt"),
        ("=web", "found '=', expected: !, identifier, or 'end of string'"),
        ("app=web,", "found '', expected: identifier after ','"),
        ("app=web tier", "found 'tier', expected: ',' or 'end of string'"),
        ("app in (web", "unable to parse requirement: found '', expected: ',' or ')'"),
        (
            "count>many",
            'unable to parse requirement: values[0]: Invalid value: "many": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_what_is_no_label_selector(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        parse_labels(text)
    assert str(raised.value) == message


names = st.text("abcxyz", min_size=1, max_size=4)


@given(st.dictionaries(names, names), st.dictionaries(names, names))
def test_equalities_match_the_labels_that_have_them(labels: dict[str, str], wanted: dict[str, str]) -> None:
    text = ",".join(f"{key}={value}" for key, value in wanted.items())
    assert all(requirement.matches(labels) for requirement in parse_labels(text)) == (wanted.items() <= labels.items())


@given(st.text("ab,=!()<> inot", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SelectorError):
        parse_labels(text)


def test_field_selector_has_escapes() -> None:
    assert parse_fields(r"a=x\,y,b!=z") == (("a", "x,y", True), ("b", "z", False))


def test_what_is_no_field_selector() -> None:
    with pytest.raises(SelectorError, match=r"invalid selector: 'a'; can't understand 'a'"):
        parse_fields("a")


terms = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["", "!"]), st.sampled_from("abc")),
    st.builds("{}{}{}".format, st.sampled_from("abc"), st.sampled_from(["=", "==", "!="]), st.sampled_from("xy")),
    st.builds(
        "{} {} ({},{})".format, st.sampled_from("abc"), st.sampled_from(["in", "notin"]), *[st.sampled_from("xyz")] * 2
    ),
    st.builds("{}{}{}".format, st.sampled_from("abc"), st.sampled_from("<>"), st.integers(0, 3)),
)


@given(st.lists(terms, max_size=5), st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y", "z", "1", "2"])))
def test_selection_is_what_meets_each_requirement(texts: list[str], labels: dict[str, str]) -> None:
    text = ",".join(texts)

    matches = Selection(kind_named("pods"), None, text).matches({"metadata": {"labels": labels}})

    assert matches is all(requirement.matches(labels) for requirement in parse_labels(text))


@given(
    st.lists(
        st.tuples(st.sampled_from(["name", "namespace"]), st.sampled_from(["=", "!="]), st.sampled_from("ab")),
        max_size=4,
    ),
    st.fixed_dictionaries({"name": st.sampled_from("ab"), "namespace": st.sampled_from("ab")}),
)
def test_fields_are_what_meets_each_term(texts: list[tuple[str, str, str]], metadata: dict[str, str]) -> None:
    text = ",".join(f"metadata.{name}{operator}{value}" for name, operator, value in texts)

    matches = Selection(kind_named("pods"), None, "", text).matches({"metadata": metadata})

    assert matches is all((metadata[name] == value) is (operator == "=") for name, operator, value in texts)


@pytest.mark.parametrize(
    "selectors",
    [
        {"labels": ",".join(f"!k{number}" for number in range(30_000))},
        {"labels": ",".join(f"a!=v{number}" for number in range(30_000))},
        {"labels": ",".join(["a=b"] * 30_000)},
        {"fields": ",".join(f"metadata.name!=n{number}" for number in range(20_000))},
    ],
    ids=["absent labels", "other values", "one many times", "other fields"],
)
def test_many_terms_take_no_longer_for_each_object(selectors: dict[str, Any]) -> None:
    selection = Selection(kind_named("pods"), None, **selectors)
    pod = {"metadata": {"name": "p", "labels": {"a": "b"}}}

    began = time.process_time()
    assert all(selection.matches(pod) for _ in range(2000))

    assert time.process_time() - began < 3.0
