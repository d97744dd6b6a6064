"""The small driver, with a checkpoint from which it answers: what it has prepared once it does not prepare again.

A claim that is in its file is answered for without a look at what else its preparation has left, as drivers do that
take the file for the truth. A file that it cannot read ends it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simkubelet.apis import dra

if TYPE_CHECKING:
    from scenarios.catalog.dra.driver import Driver, main
else:
    from driver import Driver, main

PLUGINS: Final = Path("/var/lib/kubelet/plugins")


class RememberingDriver(Driver):
    """A driver that keeps the answers that it has given, by the uids of their claims."""

    def __init__(self, name: str, cdi: Path) -> None:
        super().__init__(name, cdi)
        self._checkpoint = PLUGINS / name / "checkpoint.json"
        self._answers: dict[str, str] = json.loads(self._checkpoint.read_text()) if self._checkpoint.exists() else {}

    async def prepare(self, request: dra.NodePrepareResourcesRequest) -> dra.NodePrepareResourcesResponse:
        known = {claim.uid for claim in request.claims} & self._answers.keys()
        new = dra.NodePrepareResourcesRequest(claims=[claim for claim in request.claims if claim.uid not in known])
        answers = await super().prepare(new)
        for uid in known:
            answers.claims[uid].ParseFromString(bytes.fromhex(self._answers[uid]))
        self._keep({**self._answers, **{uid: one.SerializeToString().hex() for uid, one in answers.claims.items()}})
        return answers

    async def unprepare(self, request: dra.NodeUnprepareResourcesRequest) -> dra.NodeUnprepareResourcesResponse:
        answers = await super().unprepare(request)
        self._keep({uid: one for uid, one in self._answers.items() if uid not in answers.claims})
        return answers

    def _keep(self, answers: dict[str, str]) -> None:
        self._answers = answers
        self._checkpoint.write_text(json.dumps(answers))


if __name__ == "__main__":
    main(RememberingDriver, "A DRA driver without hardware that answers from its checkpoint.")
