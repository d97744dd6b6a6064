"""gRPC's library is loaded for those who ask for a stub or a servicer, quietly, and for nobody else."""

from __future__ import annotations

import pytest

from simkubelet.apis import deviceplugin, pluginregistration, podresources, podresources_v1alpha1

APIS = (deviceplugin, pluginregistration, podresources, podresources_v1alpha1)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__.rpartition(".")[2])
def test_api_has_all_that_it_exports_and_nothing_else(api) -> None:
    assert [name for name in api.__all__ if getattr(api, name, None) is None] == []
    with pytest.raises(AttributeError, match=f"module '{api.__name__}' has no attribute 'OtherStub'"):
        _ = api.OtherStub
