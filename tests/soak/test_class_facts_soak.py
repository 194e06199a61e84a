"""Every class of Transformers made anew, against `ropecli/models/classes.json`.

`pytest -m oracle tests/soak/test_class_facts_soak.py`, about six minutes.
"""

from __future__ import annotations

import pytest
from oracle.class_facts import found
from oracle.test_class_facts import KNOWN

pytestmark = pytest.mark.oracle


def test_all_classes_refuse_what_is_known() -> None:
    assert found() == KNOWN
