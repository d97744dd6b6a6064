"""The rules of one kind of object: what a write fills in, drops, keeps and refuses.

Source: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go, ``RESTCreateStrategy``; update.go,
``RESTUpdateStrategy``; delete.go, ``RESTGracefulDeleteStrategy`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...objects.objects import JSON, copied
from ..errors import FieldError

__all__ = ["Strategy", "UpdateRules", "keep_all_but_status", "keep_status"]


class UpdateRules(NamedTuple):
    """How an update is brought into its limits, and what is wrong with it then; both take new and old state."""

    prepare: Callable[[JSON, JSON], None]
    validate: Callable[[JSON, JSON], list[FieldError]]


class Strategy:
    """The rules of one kind; as it stands, those of a kind without rules and without a status.

    A hook may change the object called ``new``: it is the caller's own copy. ``old`` is what is stored and is never
    changed; parts of it that go into ``new`` are copied. Hooks are called in the order in which they are written here.
    """

    allow_unconditional_update: bool = True
    """An update without a resourceVersion replaces the stored object."""

    validates_alone: bool = False
    """An object is validated by itself, so that this can be done in a thread; nothing else is looked at.

    For an update this holds for all hooks up to that which validates, too.
    """

    allow_create_on_update: bool = False
    """A PUT (or an apply) to a name that is free creates the object."""

    empty: Mapping[str, Any] = {}
    """What Go writes of an object of which nothing is set, beyond what its schema requires."""

    def default(self, new: JSON) -> None:
        """Fill in what the caller left out, as decoding does; at each write, before the hooks below."""

    def prepare_for_create(self, new: JSON) -> None:
        """Drop what a caller may not set, and set what the server decides. The name and namespace stand already."""

    def validate(self, new: JSON) -> list[FieldError]:
        """What is wrong with a new object, its metadata aside."""
        return []

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        """Take back the changes that an update does not make, those of the status for example."""

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        """What an update may not change, or changes into something wrong."""
        return self.validate(new)

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        """Take back the changes that an update of the status does not make: all outside of ``status``."""
        keep_all_but_status(new, old)

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        """What is wrong with a new status."""
        return []

    def update_rules(self, subresource: str) -> UpdateRules:
        """The two hooks for what an update by a subresource changes; empty for the object itself."""
        if subresource == "status":
            return UpdateRules(self.prepare_for_status_update, self.validate_status_update)
        return UpdateRules(self.prepare_for_update, self.validate_update)

    def warnings(self, new: JSON, old: JSON | None) -> list[str]:
        """The texts of Warning headers; ``old`` is None where the object is new."""
        return []

    def grace_s(self, obj: JSON, requested: int | None) -> int | None:
        """How many seconds an object that is to be deleted stays, so that others can end what it stands for.

        Args:
            obj: what is stored, not to be changed.
            requested: what the caller asked for.

        Returns:
            None where the kind knows no graceful deletion; 0 for one that goes at once nevertheless.
        """
        return None

    def is_held(self, obj: JSON) -> bool:
        """Whether an object that is to be deleted stays, as somebody has to clean up before."""
        return bool(obj["metadata"].get("finalizers"))


def keep_status(new: JSON, old: JSON) -> None:
    """Take back every change of the status."""
    new.pop("status", None)
    if "status" in old:
        new["status"] = copied(old["status"])


def keep_all_but_status(new: JSON, old: JSON) -> None:
    """Take back every change outside of the status; who manages which field, and the version, stay the caller's."""
    status = new.get("status")
    kept = {name: new["metadata"][name] for name in ("managedFields", "resourceVersion") if name in new["metadata"]}
    new.clear()
    new.update(copied({name: value for name, value in old.items() if name != "status"}))
    new["metadata"].update(kept)
    if status is not None:
        new["status"] = status
