"""Dotted names, under which a model's arrays are known."""


def join(parts):
    """Flatten ``{"attention": {"weight": w}}`` to ``{"attention.weight": w}``."""
    return {
        f"{part}.{name}": array
        for part, arrays in parts.items()
        for name, array in arrays.items()
    }
