"""Inputs: consumers, decoders, and the offsets where tasks start."""
