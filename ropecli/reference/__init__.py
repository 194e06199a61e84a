"""The papers' formulas, written slowly and plainly: the oracle that everything is judged by.

Nothing here imports a kernel or an encoding. Angles are exact products and cos and sin come from
mpmath with DIGITS digits, so that what is left of an error belongs to what is being judged.
"""
