"""The formulas of the papers, written slowly and plainly: the reference that judges the rest.

Nothing here imports a kernel or an encoding. Angles, cos and sin have 40 digits (mpmath), or 29 in
`double_double` and `abel`, so any remaining error belongs to what is being judged. `float64`,
`linear` and `scores` compute in float64.
"""
