"""Programs of ``torch.export``."""
