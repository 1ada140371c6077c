"""Fused execution: Triton kernels over tables of tensors."""
