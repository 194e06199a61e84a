"""The formulas of the papers, written slowly and plainly: the reference that judges the rest.

Nothing here imports a kernel or an encoding. Angles are exact products and cos and sin come from
mpmath with DIGITS digits, so that what is left of an error belongs to what is being judged.
"""
