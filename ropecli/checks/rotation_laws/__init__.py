"""The laws of a rotation."""

from __future__ import annotations

from ropecli.checks.law import Law
from ropecli.checks.rotation_laws import bounds, convention, identities
from ropecli.checks.rotation_laws.subject import RotationSubject

LAWS: tuple[Law[RotationSubject], ...] = (
    identities.relative_position,
    identities.orthogonality,
    identities.identity,
    convention.attention_factor,
    convention.frequency_table,
    convention.planar_case,
    convention.axes,
    convention.kernel_against_reference,
    bounds.abel_identity,
    bounds.bounds_against_reference,
)
