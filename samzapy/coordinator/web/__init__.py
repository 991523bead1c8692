"""The coordinator's face to browsers and tools: who may connect and look, and the pages that they see."""
