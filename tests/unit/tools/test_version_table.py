"""The page about versions says what the code does."""

from __future__ import annotations

from dataclasses import fields

import pytest

from simkubelet.model.version import Version
from tools.generate import version_table


def test_page_is_that_of_the_code():
    assert version_table.PAGE.read_text() == version_table.page()


@pytest.mark.parametrize("field", [field.name for field in fields(Version)])
def test_every_field_is_documented_on_one_row(field):
    about = version_table.attributes()[field]

    assert about
    assert "|" not in about


def test_values_are_listed_at_the_patches_that_changed_them():
    assert list(version_table.values("checks_devices_of_known_pods")) == [
        ("1.26", False),
        ("1.26.5", True),
        ("1.27", False),
        ("1.27.2", True),
    ]
