"""The phase and the next actions of a pod, over all that its containers can have been through."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from simkubelet.devices.pod_devices import DeviceRunOptions
from simkubelet.model.pod import Container, ContainerKind, Pod, PodUID, RestartPolicy
from simkubelet.model.pod_status import PodPhase
from simkubelet.pods.pod_actions import actions_for
from simkubelet.pods.status import container_statuses, phase_of
from simkubelet.runtime.container_records import ContainerRecord
from simkubelet.runtime.container_runtime import ExitStatus

NO_OPTIONS = DeviceRunOptions({}, (), (), {}, ())


def container(name: str, kind: ContainerKind, policy: RestartPolicy | None = None) -> Container:
    return Container(name, kind, {}, {}, {}, restart_policy=policy)


def life(name: str, code: int | None) -> ContainerRecord:
    """A life that ended with `code`, or still lasts."""
    status = None if code is None else ExitStatus.of(code)
    return ContainerRecord(name, 0, {}, NO_OPTIONS, 0.0, status)


policies = st.sampled_from(RestartPolicy)
kinds = st.lists(st.sampled_from([ContainerKind.INIT, ContainerKind.SIDECAR]), max_size=3)
codes = st.none() | st.sampled_from([0, 1])


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    init = [container(f"i{n}", kind) for n, kind in enumerate(draw(kinds))]
    apps = [container(f"a{n}", ContainerKind.APP, draw(st.none() | policies)) for n in range(draw(st.integers(1, 3)))]
    return Pod(PodUID("u"), "default", "p", (*init, *apps), "n", restart_policy=draw(policies))


@st.composite
def pods_with_lives(draw: st.DrawFn) -> tuple[Pod, dict[str, ContainerRecord]]:
    pod = draw(pods())
    lived = [c.name for c in pod.containers if draw(st.booleans())]
    return pod, {name: life(name, draw(codes)) for name in lived}


def phase(pod: Pod, lives: dict[str, ContainerRecord], *, is_over: bool = False, by_container: bool = True) -> PodPhase:
    runs = {name: [run] for name, run in lives.items()}
    statuses = container_statuses(pod, runs, {}, by_container=by_container)
    started = any(app.name in lives for app in pod.app_containers)
    return phase_of(pod, statuses, is_over=is_over, has_initialized=started, by_container=by_container)


@settings(deadline=None)
@given(pods(), st.booleans(), st.data())
def test_terminal_phase_comes_only_when_nothing_is_to_be_started(pod: Pod, rules: bool, data: st.DataObject):
    """Follow a pod whose containers end at any time and in any way."""
    lives: dict[str, ContainerRecord] = {}
    for _ in range(12):
        if phase(pod, lives, by_container=rules).is_terminal:
            break
        actions = actions_for(pod, lives, has_sandbox=True, had_sandbox=True, by_container=rules)
        lives |= {each.name: life(each.name, None) for each in (*actions.init, *actions.apps)}
        running = [name for name, each in lives.items() if each.is_running]
        if running:
            name = data.draw(st.sampled_from(running))
            lives[name] = life(name, data.draw(st.sampled_from([0, 1])))

    final = phase(pod, lives, by_container=rules)
    actions = actions_for(pod, lives, has_sandbox=True, had_sandbox=True, by_container=rules)
    if final.is_terminal:
        assert not actions.apps
        assert not any(lives[app.name].is_running for app in pod.app_containers if app.name in lives)
    if final is PodPhase.SUCCEEDED:
        assert all(lives[app.name].exit == ExitStatus.of(0) for app in pod.app_containers)


@settings(deadline=None)
@given(pods_with_lives())
def test_pod_whose_containers_have_been_ended_for_good_has_a_terminal_phase(
    given: tuple[Pod, dict[str, ContainerRecord]],
):
    pod, lives = given
    lives = {name: each for name, each in lives.items() if each.exit is not None}

    if all(app.name in lives for app in pod.app_containers) and all(c.name in lives for c in pod.init_containers):
        assert phase(pod, lives, is_over=True).is_terminal


@settings(deadline=None)
@given(pods())
def test_app_containers_wait_for_every_init_container(pod: Pod):
    """Follow a pod from nothing: each step starts something, in the manifest's order, until the apps run."""
    lives: dict[str, ContainerRecord] = {}
    started: list[str] = []
    for _ in pod.containers:
        actions = actions_for(pod, lives, has_sandbox=True, had_sandbox=False, by_container=False)
        assert not (actions.apps and actions.init)
        for each in (*actions.init, *actions.apps):
            started.append(each.name)
            lives[each.name] = life(each.name, 0 if each.kind is ContainerKind.INIT else None)

    assert started == [each.name for each in pod.containers]
    assert phase(pod, lives) is PodPhase.RUNNING
    assert actions_for(pod, lives, has_sandbox=True, had_sandbox=False, by_container=False).apps == ()


@settings(deadline=None)
@given(pods_with_lives())
def test_phase_is_running_while_an_initialized_pod_has_a_running_app(given: tuple[Pod, dict[str, ContainerRecord]]):
    pod, _ = given
    lives = {c.name: life(c.name, 0 if c.kind is ContainerKind.INIT else None) for c in pod.containers}

    assert phase(pod, lives) is PodPhase.RUNNING
    assert phase(pod, lives, is_over=True) is PodPhase.RUNNING


@settings(deadline=None)
@given(pods(), codes.filter(lambda code: code is not None), st.booleans())
def test_pod_that_never_restarts_succeeds_only_with_zero(pod: Pod, code: int, rules: bool):
    apps = tuple(container(app.name, ContainerKind.APP) for app in pod.app_containers)
    pod = Pod(PodUID("u"), "default", "p", apps, "n", restart_policy=RestartPolicy.NEVER)

    expected = PodPhase.FAILED if code else PodPhase.SUCCEEDED
    assert phase(pod, {app.name: life(app.name, code) for app in apps}, by_container=rules) is expected


@settings(deadline=None)
@given(pods(), st.booleans())
def test_reboot_begins_with_the_first_init_container(pod: Pod, rules: bool):
    lives = {c.name: life(c.name, 0 if c.kind is ContainerKind.INIT else 255) for c in pod.containers}

    actions = actions_for(pod, lives, has_sandbox=False, had_sandbox=True, by_container=rules)

    if pod.restart_policy is RestartPolicy.NEVER:
        assert actions.ends_pod
    else:
        assert actions.makes_sandbox
        assert actions.init == pod.init_containers[:1]
        assert bool(actions.apps) is not bool(pod.init_containers)
