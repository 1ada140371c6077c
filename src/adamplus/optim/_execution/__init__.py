"""How a step is executed: plain, foreach, native (C) and fused (Triton)."""
