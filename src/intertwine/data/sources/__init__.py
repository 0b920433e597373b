"""Where images come from: tensors, files and archives, packed bits, a renderer."""
