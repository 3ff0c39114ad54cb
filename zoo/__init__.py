"""The Paddle industrial families as native PyTorch, with light inference that needs no torch.

`from zoo import ocr` is the door to reading text; nothing here is imported before it is asked for.
"""

__version__ = "0.1.0"
