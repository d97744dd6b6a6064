"""What each verb declares of itself is so in every backend and on the trace."""

from __future__ import annotations

from typing import get_args

import pytest

from scenarios.backends.kind.backend import CAPABILITIES, KindBackend
from scenarios.backends.sim.world import SimulatedWorld
from scenarios.story.model import Step
from scenarios.story.part import Action
from scenarios.story.verbs import VERBS
from scenarios.trace.trace import Event


def has_handler(backend: type, action: type[Action]) -> bool:
    dispatcher = vars(backend)["perform"].dispatcher
    return dispatcher.dispatch(action) is not dispatcher.dispatch(Action)


@pytest.mark.parametrize("verb", VERBS)
def test_verb_has_a_handler_where_it_can_be_performed(verb: str) -> None:
    action = VERBS[verb]

    assert has_handler(SimulatedWorld, action)
    assert has_handler(KindBackend, action) or action.capability not in CAPABILITIES


@pytest.mark.parametrize("verb", VERBS)
def test_verb_declares_section_and_events_of_the_trace(verb: str) -> None:
    action = VERBS[verb]

    assert (action.verb, bool(action.section), bool(action.__doc__)) == (verb, True, True)
    assert set(action.events) <= set(get_args(Event))


def test_there_are_verbs_of_every_group() -> None:
    assert {"apply", "restartKubelet", "killPlugin", "fail", "createFile", "advance"} <= VERBS.keys()


def test_new_verb_needs_only_its_class() -> None:
    step = Step.model_validate({"bind": {"pod": "trainer", "node": "node-2"}})

    assert step.action is not None
    assert (step.verb, step.title, [*step.action.pods_named]) == (
        "bind",
        "bind pod trainer",
        [("trainer", ("pod",))],
    )
