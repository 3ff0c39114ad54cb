"""Classification networks; without its head each is a backbone of detection and OCR. No public name lives here yet."""
