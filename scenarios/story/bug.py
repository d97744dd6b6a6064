"""The section ``bug`` of a story: which known bug of Kubernetes or of a plugin it reproduces."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, StrictStr, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from .part import Part, is_condition, is_met

KUBELET: Final = "kubelet"
KUBERNETES: Final = frozenset((KUBELET, "kube-apiserver", "kube-controller-manager", "kube-scheduler"))
ALL: Final = "all"
_LINK: Final = r"^[A-Za-z0-9][-A-Za-z0-9]*/[-._A-Za-z0-9]+#[1-9][0-9]*$"


def _not_blank(text: str) -> str:
    if text.strip():
        return text
    raise PydanticCustomError("blank", "expected words")


Words = Annotated[StrictStr, AfterValidator(_not_blank), Field(min_length=1)]


class Bug(Part):
    """A bug of Kubernetes or of a plugin that a story reproduces.

    Attributes:
        id: Capital letters and a number, such as ``K4``.
        links: Issues and pull requests, each as ``owner/repository#number``.
        component: What has the bug: a program of Kubernetes, such as ``kubelet`` or ``kube-scheduler``, or the
            plugin's project, such as ``NVIDIA/k8s-device-plugin``.
        affected: Of Kubernetes, a condition on its version or ``all``; of a plugin, its versions in words.
        fixed: The first versions with the fix, one of each line of releases; left out while there is none.
    """

    id: Annotated[StrictStr, Field(pattern=r"^[A-Z]+[0-9]+$")]
    links: tuple[Annotated[StrictStr, Field(pattern=_LINK)], ...] = ()
    component: Words
    affected: Words
    fixed: tuple[Words, ...] = ()

    @field_validator("affected")
    @classmethod
    def _versions_of_kubernetes(cls, affected: str, others: ValidationInfo) -> str:
        if others.data.get("component") in KUBERNETES and affected != ALL and not is_condition(affected):
            raise PydanticCustomError("affected", "expected 'all' or a condition on the version, such as '<1.36'")
        return affected

    def is_in_kubernetes(self, kubernetes: str) -> bool:
        """Whether Kubernetes of this version has it; no bug of a plugin is one of Kubernetes.

        Raises:
            InputError: The version is not simulated.
        """
        if self.component not in KUBERNETES:
            return False
        return self.affected == ALL or is_met(self.affected, kubernetes)
