"""Real models: config.json and GGUF read into rotary data, judged, and compared.

A source becomes `Settings` for every kind of layer, what the file says with nothing computed yet;
a reading, one file a stack in `readings`, computes a `Rotary` from them. Facts that no key of a
file says are data, in architectures.toml.
"""
