"""The form of an answer that a client asks for."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from simkubelet.cluster.api.decoding.decoding import PROTOBUF
from simkubelet.cluster.api.endpoints.handlers import LARGEST_HEAD
from simkubelet.cluster.api.endpoints.views import JSON_TYPE, Form, encoded_status, form_asked
from simkubelet.cluster.api.errors import StatusError

TABLE = Form("Table", "meta.k8s.io", "v1")
REFUSAL = StatusError.no_such_path().status()
MANY = 50
"""So many times what it takes to split the header."""


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        (" application/json ; q=0.5", Form()),
        ("text/html,,application/json", Form()),
        ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", TABLE),
        ("application/json; as=Table; g=meta.k8s.io; v=v1", TABLE),
        ("application/json;as=Other;g=meta.k8s.io;v=v1, application/json", Form()),
        (PROTOBUF, Form(media_type=PROTOBUF)),
        (f"text/html,{PROTOBUF},application/json", Form(media_type=PROTOBUF)),
    ],
)
def test_first_form_that_is_served(accept: str, form: Form) -> None:
    assert form_asked(accept, [TABLE], with_protobuf=True) == form


@pytest.mark.parametrize(
    ("accept", "said"),
    [
        ("text/html", "406: Not Acceptable"),
        (",", "406: Not Acceptable"),
        ("application/yaml", "only the following media types are accepted"),
        ("application/json;as=Other", "only the following media types are accepted"),
    ],
)
def test_no_form_that_is_served(accept: str, said: str) -> None:
    with pytest.raises(StatusError, match=said):
        form_asked(accept, [TABLE])


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [("", JSON_TYPE), ("text/html", JSON_TYPE), (f"text/html, {PROTOBUF}", PROTOBUF), (f"*/*,{PROTOBUF}", JSON_TYPE)],
)
def test_form_of_a_refusal(accept: str, media_type: str) -> None:
    assert encoded_status(accept, REFUSAL)[1] == media_type


def seconds_of(function: Callable[[], object]) -> float:
    """The least of three, in CPU time of this thread, so that other programs do not count."""
    taken = []
    for _ in range(3):
        begin = time.thread_time()
        function()
        taken.append(time.thread_time() - begin)
    return min(taken)


@pytest.mark.parametrize(
    "accept",
    [
        pytest.param("," * LARGEST_HEAD, id="nothing"),
        pytest.param("a," * (LARGEST_HEAD // 2), id="one"),
        pytest.param(",".join(f"{number:x}" for number in range(LARGEST_HEAD // 6)), id="different ones"),
    ],
)
def test_largest_header_holds_up_nobody(accept: str) -> None:
    """A stranger's, too: a refusal has a form before it is known who asks."""

    def ask() -> None:
        with pytest.raises(StatusError):
            form_asked(accept, [TABLE])
        encoded_status(accept, REFUSAL)

    taken, bound = seconds_of(ask), MANY * seconds_of(lambda: accept.split(","))
    assert taken < bound
