"""What fits where on a partitioned GPU: NVIDIA's tables, the driver's choices, and any order of changes."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fakegpu import InputError, Machine
from fakegpu.profiles.mig_profiles import fill_mig, mig_tables
from fakegpu.recording.replay import fill_recorded_mig
from fakegpu.recording.replay_fields import RecordedAnswers
from fakegpu.state import layout
from fakegpu.state.partition import MigProfile


@pytest.fixture
def a100(tmp_path: Path) -> Iterator[Machine]:
    made = Machine.create(tmp_path / "a100", "a100-40gb", 1, seed="test")
    yield made
    made.close()


# The placements that nvidia-smi mig -lgipp prints on every seven-slice GPU, by profile id.
SEVEN_SLICES = {
    19: ({0, 1, 2, 3, 4, 5, 6}, 1),
    20: ({0, 1, 2, 3, 4, 5, 6}, 1),
    15: ({0, 2, 4, 6}, 2),
    14: ({0, 2, 4}, 2),
    9: ({0, 4}, 4),
    5: ({0}, 4),
    0: ({0}, 8),
}
FOUR_SLICES = {14: ({0, 1, 2, 3}, 1), 21: ({0, 1, 2, 3}, 1), 5: ({0, 2}, 2), 6: ({0, 2}, 2), 0: ({0}, 4)}


@pytest.mark.parametrize("name", mig_tables())
def test_placements_are_nvidias(name: str) -> None:
    table = mig_tables()[name]

    placements = {figures.id: (set(figures.starts), figures.size) for figures in table.profiles.values()}

    assert placements == (FOUR_SLICES if name == "a30" else SEVEN_SLICES)


@pytest.mark.parametrize("name", mig_tables())
def test_profile_holds_no_more_than_the_gpu(name: str) -> None:
    table = mig_tables()[name]
    whole = max(table.profiles.values(), key=lambda figures: figures.multiprocessors)

    for profile_name, figures in table.profiles.items():
        slices = int(profile_name[0])
        assert figures.multiprocessors * figures.instances <= whole.multiprocessors or figures is whole
        assert figures.memory_mib * table.memory_slices // figures.size <= whole.memory_mib * 1.03
        assert figures.instances <= table.compute_slices // slices


# What the user guide shows as the ways to cut an A100, by compute slices from the left.
CONFIGURATIONS = (
    *("7", "43", "421", "4111", "33", "321", "3111", "223", "2113", "1123", "11113"),
    *("2221", "21121", "11221", "211111", "112111", "111121", "1111111"),
)
WIDTHS = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
NAMES = {1: "1g.5gb", 2: "2g.10gb", 3: "3g.20gb", 4: "4g.20gb", 7: "7g.40gb"}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_every_configuration_of_the_user_guide_can_be_made(a100: Machine, configuration: str) -> None:
    slices = [int(digit) for digit in configuration]
    starts = [0, *itertools.accumulate(WIDTHS[number] for number in slices)]

    for number, start in zip(slices, starts, strict=False):
        a100.mig(0).create(NAMES[number], start=start)

    assert [instance.start for instance in sorted(a100.mig(0).instances, key=lambda each: each.start)] == starts[:-1]
    assert len(a100.mig(0).devices) == len(slices)


@pytest.mark.parametrize(
    ("profiles", "ids"),
    [
        pytest.param(["1g.5gb"] * 7, [13, 11, 12, 7, 8, 9, 10], id="seven of the smallest"),
        pytest.param(["3g.20gb", "3g.20gb"], [2, 1], id="two halves"),
        pytest.param(["1g.5gb", "2g.10gb", "4g.20gb"], [13, 5, 1], id="small to large"),
        pytest.param(["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"], [2, 3, 9, 10], id="all-balanced of mig-parted"),
        pytest.param(["7g.40gb"], [0], id="the whole"),
    ],
)
def test_driver_chooses_places_and_ids_as_nvidia_smi_shows_them(
    a100: Machine, profiles: list[str], ids: list[int]
) -> None:
    made = [a100.mig(0).create(profile)[0].id for profile in profiles]

    assert made == ids


def test_a30_counts_its_instances_from_three(tmp_path: Path) -> None:
    a30 = Machine.create(tmp_path / "a30", "a30", 1)

    made = a30.mig(0).create(*["1g.6gb"] * 4)

    assert [instance.id for instance in made] == [3, 4, 5, 6]


def test_media_extensions_are_there_once(tmp_path: Path) -> None:
    a30 = Machine.create(tmp_path / "a30", "a30", 1)
    a30.mig(0).create("1g.6gb+me")

    with pytest.raises(InputError, match=r"no room for 2g\.12gb\+me: it has for 3 x 1g\.6gb, 1 x 2g\.12gb"):
        a30.mig(0).create("2g.12gb+me")


class Partition(RuleBasedStateMachine):
    """Random instances on one GPU against a model: sets of memory slices, and engines to share out."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.machine = Machine.create(Path(self.folder.name) / "node", "a100-40gb", 1)
        self.mig = self.machine.mig(0)
        self.capabilities = self.machine.proc / "driver" / "nvidia" / "capabilities" / "gpu0" / "mig"
        self.table = mig_tables()["a100-40gb"].profiles
        self.taken: dict[int, tuple[str, set[int]]] = {}

    def teardown(self) -> None:
        self.machine.close()
        self.folder.cleanup()

    def left(self, name: str) -> int:
        """How many more the engines allow."""
        names, whole = [held for held, _ in self.taken.values()], self.table["7g.40gb"]
        wanted = self.table[name]
        left = [wanted.instances - names.count(name), (7 - sum(int(held[0]) for held in names)) // int(name[0])]
        for engine in ("decoders", "jpegs", "ofas"):
            each = getattr(wanted, engine)
            if each:
                left.append((getattr(whole, engine) - sum(getattr(self.table[held], engine) for held in names)) // each)
        return max(0, min(left))

    def places(self, name: str) -> list[set[int]]:
        """Places of a profile that are free."""
        taken = {memory for _, held in self.taken.values() for memory in held}
        spans = [set(range(start, start + self.table[name].size)) for start in self.table[name].starts]
        return [span for span in spans if not span & taken]

    @rule(name=st.sampled_from(sorted(mig_tables()["a100-40gb"].profiles)))
    def create(self, name: str) -> None:
        if self.left(name) and self.places(name):
            (made,) = self.mig.create(name, compute=False)
            span = set(range(made.start, made.start + made.size))
            assert span in self.places(name)
            self.taken[made.id] = name, span
        else:
            with pytest.raises(InputError, match="no room"):
                self.mig.create(name, compute=False)

    @rule(name=st.sampled_from(sorted(mig_tables()["a100-40gb"].profiles)), start=st.integers(-1, 9))
    def create_at(self, name: str, start: int) -> None:
        span = set(range(start, start + self.table[name].size))
        if start in self.table[name].starts and self.left(name) and span in self.places(name):
            (made,) = self.mig.create(name, start=start, compute=False)
            assert made.start == start
            self.taken[made.id] = name, span
        else:
            with pytest.raises(InputError):
                self.mig.create(name, start=start, compute=False)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.taken)))
        self.mig.destroy(number)
        del self.taken[number]

    @invariant()
    def tells_what_there_is(self) -> None:
        assert {instance.id: instance.profile for instance in self.mig.instances} == {
            number: name for number, (name, _) in self.taken.items()
        }
        for profile in self.mig.profiles:
            assert profile.free == self.expected_free(profile), profile.name
        assert {path.parent.name for path in self.capabilities.glob("gi*/access")} == {f"gi{gi}" for gi in self.taken}

    def expected_free(self, profile: MigProfile) -> int:
        return min(self.left(profile.name), len(self.places(profile.name)))


TestPartition = Partition.TestCase
TestPartition.settings = settings(
    max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("table", mig_tables())
def test_recording_of_a_user_places_instances_as_the_model_does(table: str) -> None:
    """Root alone is told placements; who records as a user has the profiles."""
    state, replayed = layout.GpuState(), layout.GpuState()
    fill_mig(state, table)
    answers = {
        f"nvmlDeviceGetGpuInstanceProfileInfoV {kind}": {
            "name": f"MIG {profile.name.decode()}",
            "id": profile.id,
            "sliceCount": profile.slices,
            "instanceCount": profile.instances,
            "multiprocessorCount": profile.multiprocessors,
            "memorySizeMB": profile.memory_mib,
        }
        for kind, profile in enumerate(state.mig.profiles)
        if profile.is_here
    }

    fill_recorded_mig(replayed, RecordedAnswers(answers))

    assert replayed.mig.memory_slices == state.mig.memory_slices
    assert placements(replayed.mig) == placements(state.mig)


def placements(mig: layout.Mig) -> list[tuple[str, int, str]]:
    return [(profile.name.decode(), profile.size, f"{profile.starts:08b}") for profile in mig.profiles]
