"""The laws of a rotation."""

from __future__ import annotations

from ropecli.checks.law import Law
from ropecli.checks.rotation_laws import bounds, convention, identities
from ropecli.checks.rotation_laws.subject import RotationSubject

LAWS: tuple[Law[RotationSubject], ...] = (*identities.LAWS, *convention.LAWS, *bounds.LAWS)
