"""A real Kubernetes control plane on loopback: etcd, API server, controller manager and scheduler as processes.

    python -m tools.control_plane [--dir DIR] [--kubernetes MINOR]

It has no nodes; ``simkubelet join`` brings them. Everything is below one folder, which goes at the end: certificates of
an authority made for it, etcd's data, a log of each component, and the kubeconfig of an administrator, whose path is
printed once the API server is ready. It ends on Ctrl-C or SIGTERM, or with the process that started it.
"""

from __future__ import annotations

import argparse
import ipaddress
import itertools
import json
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from simkubelet.host import tied_to_parent

from .build import control_plane as build_control_plane
from .build.go_build import BuildError

HOST = "127.0.0.1"
READY_WITHIN_S = 120.0
ENDS_WITHIN_S = 20.0
POD_RANGE = "10.64.0.0/10"
SERVICE_RANGE = "10.0.0.0/16"
_FIRST_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
"""Without it, which a controller makes, the API server takes no pods."""
_VALID = timedelta(days=30)
_EARLIER = timedelta(minutes=5)
_GIVEN_BY_KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT, _LAST_PORT = 10_000, 65_535


class ControlPlaneError(Exception):
    """A component does not run; the message has the last line of its log."""


class Authority:
    """A certificate authority, which writes what it signs into a folder.

    Args:
        folder: Gets ``ca.crt`` and, for each name, ``NAME.crt`` and ``NAME.key``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("simkubelet-control-plane")
        certificate = (
            _certificate(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path = folder / "ca.crt"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, subject: str, group: str = "", *, is_server: bool = False) -> tuple[Path, Path]:
        """Return the paths of a new certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH
        certificate = _certificate(_name(subject, group), self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if is_server:
            names = [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
            certificate = certificate.add_extension(x509.SubjectAlternativeName(names), critical=False)
        path = self.folder / f"{name}.crt"
        path.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path, write_key(self.folder / f"{name}.key", key)


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> Path:
    """Write a private key, which nobody else may read, and return its path."""
    path.touch(mode=0o600)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(*form))
    return path


def _name(common_name: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
    )


@dataclass
class _Component:
    """One process."""

    name: str
    argv: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            argv = tied_to_parent(list(self.argv))
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def check(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            lines = self.log.read_text(errors="replace").splitlines() or ["nothing is in its log"]
            raise ControlPlaneError(f"{self.name} ended with status {self.process.returncode}: {lines[-1]}")

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self.process is None:
            return
        self.process.send_signal(sent)
        try:
            self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class ControlPlane:
    """A control plane from `__enter__` to `__exit__`; entered when its API server takes pods.

    Args:
        programs: The folder of the components' binaries, by their names.
        folder: An empty one for all its files.

    Attributes:
        authority: Of the certificates of servers and clients.
        kubeconfig: Lets an administrator in.

    Raises:
        ControlPlaneError: A component does not start.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self.authority = Authority(folder)
        self._etcd, self._peer, self._port = free_ports(3)
        self.url = f"https://{HOST}:{self._port}"
        self.kubeconfig = self._kubeconfig("admin", "admin", "system:masters")
        self._service_accounts = write_key(folder / "sa.key", rsa.generate_private_key(65537, 2048))
        self._components = {
            name: _Component(name, (str(programs / name), *_flags(flags)), folder / f"{name}.log")
            for name, flags in self._all_flags().items()
        }

    def __enter__(self) -> Self:
        try:
            for name in self._components:
                self.start(name)
            self._until_there(_FIRST_ACCOUNT)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        for component in reversed(self._components.values()):
            component.stop()

    def start(self, name: str) -> None:
        """Start a component, and wait until the API server is ready where it is that.

        The component ends with the thread that calls this, so that nothing is left of a program that is killed.
        """
        self._components[name].start()
        if name == "kube-apiserver":
            self._until_there("/readyz")

    def stop(self, name: str) -> None:
        """End a component at once, as a power cut does; `start` starts it again over the same state."""
        self._components[name].stop(signal.SIGKILL)

    def check(self) -> None:
        """Check that all components run.

        Raises:
            ControlPlaneError: One has ended.
        """
        for component in self._components.values():
            component.check()

    def _until_there(self, path: str) -> None:
        tls = ssl.create_default_context(cafile=str(self.authority.path))
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        tls.load_cert_chain(self._folder / "admin.crt", self._folder / "admin.key")
        end = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < end:
            self.check()
            try:
                urllib.request.urlopen(f"{self.url}{path}", context=tls, timeout=5).close()  # noqa: S310
                return
            except OSError:
                # The server has no event for it; a fifth of a second costs it nothing.
                time.sleep(0.2)
        raise ControlPlaneError(f"there is no {path} after {READY_WITHIN_S:.0f} s; see the components' logs")

    def _kubeconfig(self, name: str, user: str, group: str = "") -> Path:
        certificate, key = self.authority.sign(name, user, group)
        path = self._folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url, "certificate-authority": "ca.crt"}}],
            "users": [{"name": name, "user": {"client-certificate": certificate.name, "client-key": key.name}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        path.write_text(json.dumps(document))
        return path

    def _all_flags(self) -> Mapping[str, Mapping[str, Any]]:
        """Component -> flag -> value, in the order of their start."""
        certificate, key = self.authority.sign("kube-apiserver", "kube-apiserver", is_server=True)
        # As kubeadm made it before 1.29; the group's users may do everything at a kubelet too.
        to_kubelets = self.authority.sign("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        peer, client = (f"http://{HOST}:{port}" for port in (self._peer, self._etcd))
        clients = {"kubeconfig": self.kubeconfig, "leader-elect": "false", "secure-port": 0}
        return {
            "etcd": {
                "data-dir": self._folder / "etcd",
                "listen-client-urls": client,
                "advertise-client-urls": client,
                "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
                "initial-cluster": f"default={peer}",
                "unsafe-no-fsync": "true",
                "log-level": "warn",
            },
            "kube-apiserver": {
                "etcd-servers": client,
                "bind-address": HOST,
                "advertise-address": HOST,
                "secure-port": self._port,
                # No Service leads here: an address of this machine alone is none that a Service may have.
                "endpoint-reconciler-type": "none",
                "service-cluster-ip-range": SERVICE_RANGE,
                "client-ca-file": self.authority.path,
                "tls-cert-file": certificate,
                "tls-private-key-file": key,
                "kubelet-client-certificate": to_kubelets[0],
                "kubelet-client-key": to_kubelets[1],
                "kubelet-preferred-address-types": "InternalIP,Hostname",
                "authorization-mode": "Node,RBAC",
                "service-account-issuer": "https://kubernetes.default.svc",
                "service-account-key-file": self._service_accounts,
                "service-account-signing-key-file": self._service_accounts,
                "allow-privileged": "true",
            },
            "kube-controller-manager": {
                **clients,
                "root-ca-file": self.authority.path,
                "service-account-private-key-file": self._service_accounts,
                "allocate-node-cidrs": "true",
                "cluster-cidr": POD_RANGE,
            },
            "kube-scheduler": clients,
        }


def _flags(flags: Mapping[str, Any]) -> Iterator[str]:
    return (f"--{name}={value}" for name, value in flags.items())


def free_ports(count: int) -> list[int]:
    """Return ports that nobody takes until a component listens there.

    The kernel gives none of them to outgoing connections, and no other control plane has them.
    """
    first, last = map(int, _GIVEN_BY_KERNEL.read_text().split())
    others = [*range(_FIRST_PORT, first), *range(last + 1, _LAST_PORT + 1)]
    free = (port for port in random.sample(others, len(others)) if _is_free(port) and _claim(port))
    return list(itertools.islice(free, count))


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return True


def _claim(port: int) -> bool:
    """Have a port until this process ends; whether no other control plane has it. The claim ends with the process."""
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.bind(f"\0simkubelet-control-plane-{port}")
        except OSError:
            return False
        one.detach()
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a control plane until a signal; 3 where it cannot be built or does not run."""
    parser = argparse.ArgumentParser(description="Run a real Kubernetes control plane without nodes, until Ctrl-C.")
    parser.add_argument("--dir", type=Path, help="where its folder is made (default: the system's temporary folder)")
    build_control_plane.add_minor(parser)
    given = parser.parse_args(arguments)
    ended = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: ended.set())
    folder = Path(tempfile.mkdtemp(prefix="sk-control-plane-", dir=given.dir))
    try:
        with ControlPlane(build_control_plane.build(given.kubernetes), folder) as control_plane:
            print(f"export KUBECONFIG={control_plane.kubeconfig}", flush=True)
            ended.wait()
            control_plane.check()
    except (BuildError, ControlPlaneError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
