"""Real models: config.json and GGUF read into rotary data, judged, and compared.

A source becomes `Settings` for every kind of layer, with nothing computed yet; a stack in `stacks`
computes a `Rotary` from them. Facts that no key of a file gives are data, in architectures.toml.
"""
