"""The laws of a rotation."""

from __future__ import annotations

from ropecli.checks.law import Law
from ropecli.checks.rotation_laws import bounds, forms, identities
from ropecli.checks.rotation_laws.subject import RotationSubject

LAWS: tuple[Law[RotationSubject], ...] = (
    identities.relative_position,
    identities.orthogonality,
    identities.identity,
    forms.attention_factor,
    forms.frequency_table,
    forms.planar_case,
    forms.axes,
    forms.kernel_against_reference,
    bounds.abel_identity,
    bounds.bounds_against_reference,
)
