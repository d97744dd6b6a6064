"""How containers start: environment, identity, output, and the errors of those that cannot."""

from __future__ import annotations

import os

import pytest

from simkubelet.devices.pod_devices import Mount
from simkubelet.runtime.container_runtime import ContainerStartError, StartFailure

from .conftest import separated, supervised

pytestmark = pytest.mark.slow

CREATED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
)
IN_INIT = f"{CREATED}unable to start container process: error during container init: "


async def test_environment_is_the_containers_to_the_letter(node, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    own = [{"name": "with.dot", "value": "a=b"}, {"name": "WHO", "value": "pod"}]

    seen = await node.output("cat", "/proc/self/environ", env=own, envs={"WHO": "plugin", "GPU": "g 0"})

    variables = dict(entry.split("=", 1) for entry in seen.strip("\0").split("\0"))
    assert variables.pop("PATH").endswith(":/usr/bin:/sbin:/bin")
    assert variables.pop("HOSTNAME")
    assert variables == {"with.dot": "a=b", "WHO": "pod", "GPU": "g 0", "HOME": "/root"}


@separated
async def test_program_is_process_1_and_a_user_without_capabilities(node):
    seen = await node.output(
        "sh", "-c", "echo $$$$; id -u; grep CapEff /proc/self/status; cat /proc/sys/kernel/hostname"
    )

    process_id, user, capabilities, hostname = seen.splitlines()
    assert (process_id, user) == ("1", "0")
    assert int(capabilities.split()[1], 16) == 0
    assert hostname != os.uname().nodename


@supervised
async def test_program_without_namespaces_is_told_that_it_is_root(node):
    seen = await node.output("sh", "-c", "id -u; grep CapEff /proc/self/status; ps -o sid= -p $$$$; echo $$$$")

    user, capabilities, session, process_id = seen.split("\n")[:4]
    assert (user, int(capabilities.split()[1], 16)) == ("0", 0)
    assert session.strip() == process_id


async def test_container_has_no_descriptors_but_the_three(node):
    assert await node.output("ls", "/proc/self/fd") == "0\n1\n2\n3\n"  # 3 is the folder that ls reads


async def test_hosts_own_files_are_not_there(node, tmp_path):
    seen = await node.output("sh", "-c", f"ls -A /run; test -e {tmp_path} || echo hidden")

    assert seen == "hidden\n"


async def test_output_goes_to_a_file_per_attempt(node):
    first = await node.start("echo", "out")
    await first.wait()
    second = await node.start("sh", "-c", "echo err >&2", attempt=1)
    await second.wait()

    namespace_pod_uid = first.log.relative_to(node.folder / "pods-logs").parts[0]
    assert namespace_pod_uid.startswith("default_")
    assert namespace_pod_uid.count("_") == 2
    assert (first.log.parent.name, first.log.name, first.log.read_text()) == ("main", "0.log", "out\n")
    assert (second.log.name, second.log.read_text()) == ("1.log", "err\n")


@pytest.mark.parametrize(
    ("command", "settings", "words"),
    [
        pytest.param(["nonsense"], {}, 'exec: "nonsense": executable file not found in $PATH', id="not-on-the-path"),
        pytest.param(["/no"], {}, 'exec: "/no": stat /no: no such file or directory', id="no-such-file"),
        pytest.param(["/etc"], {}, 'exec: "/etc": is a directory', id="folder"),
        pytest.param(["/etc/passwd"], {}, 'exec: "/etc/passwd": permission denied', id="not-executable"),
        pytest.param(
            ["true"],
            {"workingDir": "/etc/passwd"},
            'chdir to cwd ("/etc/passwd") set in config.json failed: not a directory',
            id="no-working-directory",
        ),
        pytest.param(["true", "\0"], {}, "embedded null byte", id="nul-in-an-argument"),
        pytest.param(["true", "x" * 200_000], {}, "argument list too long", id="argument-too-long"),
    ],
)
async def test_program_that_cannot_be_started_is_a_start_error(node, command, settings, words):
    with pytest.raises(ContainerStartError) as raised:
        await node.start(*command, **settings)

    assert raised.value.failure is StartFailure.RUN
    assert raised.value.message.startswith(IN_INIT)
    assert words in raised.value.message


async def test_variable_without_a_name_is_a_start_error(node):
    with pytest.raises(ContainerStartError) as raised:
        await node.start("true", envs={"": "x"})

    assert raised.value.failure is StartFailure.RUN
    assert raised.value.message.startswith(f"{IN_INIT}invalid environment variable: name cannot be empty")


async def test_container_without_a_command_is_refused(node):
    with pytest.raises(
        ContainerStartError, match=r'^failed to generate container ".*" spec: .*: no command specified$'
    ):
        await node.start()


async def test_program_that_the_kernel_refuses_ends_with_255(node):
    script = node.write("broken", "#!/no/interpreter\n")
    script.chmod(0o755)

    container = await node.start("/opt/broken", mounts=(Mount("/broken", "/opt/broken", True),))

    assert (await container.wait()).code == 255
    assert container.log.read_text() == "exec /opt/broken: no such file or directory\n"


async def test_working_directory_is_made(node):
    assert await node.output("pwd", workingDir="/data/deep") == "/data/deep\n"


async def test_references_in_command_and_arguments_are_expanded(node):
    own = [{"name": "B", "value": "<$(A)>"}]

    assert await node.output("echo", "$(A)", args=["$$(A)", "$(B)", "$(NO)"], env=own, envs={"A": "a"}) == (
        "a $(A) <$(A)> $(NO)\n"
    )
